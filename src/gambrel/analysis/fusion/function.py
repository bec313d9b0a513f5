"""Kernels of a library of patterns: what computes a function of one tensor is one of them.

Runtimes that replace subgraphs by kernels written beforehand fuse what those kernels were written
for: functions that a framework writes out in several ops (gelu, norms, group norm with swish), the
sum before a norm or softmax, and what a library call takes in. A sum or product of two tensors, a
scale by a computed vector, a copy, a gather is a kernel of its own. Source: the extended graph
optimizations of ONNX Runtime
(https://onnxruntime.ai/docs/performance/model-optimizations/graph-optimizations.html, read 2026-11)
and those of its scripts for transformers.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from gambrel.analysis.fusion.classes import Shape, has_tail, iteration, reads_elsewhere, shape_of
from gambrel.analysis.fusion.compiled import LARGEST, Loop, same_loop
from gambrel.analysis.fusion.epilogue import HOSTS
from gambrel.analysis.fusion.folding import PARAMETERS, folded_with
from gambrel.analysis.fusion.kernel import POINTWISE, REDUCTION
from gambrel.analysis.fusion.merge import Groups
from gambrel.analysis.fusion.program import WORLD, Program, ProgramStep, Read, Region
from gambrel.analysis.fusion.traffic import Members
from gambrel.ops import OpView

#: Kinds of ops that functions are written out in.
_WRITTEN: Final = frozenset({"elementwise", "copy", "normalization", "softmax", "reduction"})


def functions(program: Program) -> list[Members]:
    """Groups the ops that run.

    Args:
        program: The dataflow; see `gambrel.analysis.fusion.program`.

    Returns:
        Groups in an order in which they can run. Dead code is in none of them, nor is what is made
        of no tensor at all: constants are computed when the model is loaded.
    """
    former = _Former(program.live())
    former.form()
    return former.groups()


class _Former:
    """Takes the ops in execution order; each joins those that wrote its inputs, or stays alone."""

    def __init__(self, steps: Mapping[int, ProgramStep]) -> None:
        constants = _constants(steps)
        self._steps = {i: step for i, step in steps.items() if i not in constants}
        views = [step.view for step in steps.values()]
        self._parameters = {
            t.storage for view in views for t in view.inputs if t.role in PARAMETERS
        }
        self._merger = Groups()
        self._loop: dict[int, Loop] = {}  # by group; library calls and what they took in have none

    def form(self) -> None:
        """Forms the groups."""
        for i, step in self._steps.items():
            self._merger.add(i, {w for w in _writers(step) if w in self._steps} - {i})
            if not self._folded(i) and _is_written(step.view):
                self._loop[i] = iteration(step.view, shape_of(step.view))
                self._join_inputs(i)
        for group in self._merger.in_order():
            self._take_sum(self._merger.find(group))

    def groups(self) -> list[Members]:
        """What was formed."""
        found = (tuple(sorted(self._merger.members(g))) for g in self._merger.in_order())
        return [Members(ops=ops, kind=self._kind(ops)) for ops in found]

    def _kind(self, ops: tuple[int, ...]) -> str:
        views = [self._steps[i].view for i in ops]
        if len(ops) == 1:
            return views[0].kind
        host = next((view.kind for view in views if view.kind in HOSTS), None)
        reduces = any(shape_of(view) is Shape.REDUCTION for view in views)
        return host or (REDUCTION if reduces else POINTWISE)

    def _folded(self, i: int) -> bool:
        """Joins an op with the library call that takes it in; no other op reads between them."""
        taking = folded_with(i, self._steps)
        for op in taking:
            group = self._merger.find(op)
            self._merger.try_join(group, self._merger.find(i))
            self._loop.pop(group, None)
        return bool(taking)

    def _join_inputs(self, i: int) -> None:
        """Joins an op with all kernels that wrote its inputs, or with one, the latest first."""
        step = self._steps[i]
        wrote = sorted((w for w in _writers(step) if w in self._steps), reverse=True)
        groups = list(dict.fromkeys(self._merger.find(w) for w in wrote))
        for chosen in dict.fromkeys((tuple(groups), *((group,) for group in groups))):
            loop = self._together(i, chosen)
            if chosen and loop is not None:
                self._join(i, chosen, loop)
                return

    def _together(self, i: int, groups: tuple[int, ...]) -> Loop | None:
        """The loop of a kernel of an op and several groups; None where there is no such kernel."""
        loop, step = self._loop[i], self._steps[i]
        ops = [i]
        for group in groups:
            members = self._merger.members(group)
            other = self._loop.get(group)
            if other is None or not same_loop(loop, other):
                return None
            if self._steps[members[0]].repeat != step.repeat:
                return None
            loop = max(loop, other, key=lambda one: one[1])
            ops += members
        if len(ops) > LARGEST or not all(self._in_place(i, op) for op in ops):
            return None
        return loop if len(self._activations(ops)) <= 1 else None

    def _join(self, i: int, groups: Iterable[int], loop: Loop) -> None:
        joined = i
        for group in groups:
            name = self._merger.try_join(joined, group)
            if name is None:
                return
            for one in (joined, group):
                self._loop.pop(one)
            self._loop[name] = loop
            joined = name

    def _in_place(self, reader: int, writer: int) -> bool:
        """Whether an op reads each value of what another one wrote where it computes with it."""
        written = self._steps[writer].writes
        return all(
            read.writers == (writer,) and written.get(read.region) == read.nbytes
            for read in self._steps[reader].reads
            if writer in read.writers
        )

    def _activations(self, ops: Iterable[int]) -> set[Region]:
        """What a kernel of these ops reads that the run computed, or that it was given."""
        own = set(ops)
        reads = (read for i in own for read in self._steps[i].reads)
        return {read.region for read in reads if self._is_activation(read, own)}

    def _is_activation(self, read: Read, own: set[int]) -> bool:
        writers = {w for w in read.writers if w == WORLD or w in self._steps}
        if writers <= own:
            return False
        return writers != {WORLD} or read.region[0] not in self._parameters

    def _take_sum(self, group: int) -> None:
        """Takes the sum before a norm or softmax into its kernel."""
        ops = self._merger.members(group)
        activations = self._activations(ops) if self._is_norm(group) else set()
        reads = [r for i in ops for r in self._steps[i].reads if r.region in activations]
        writers = {w for read in reads for w in read.writers}
        if len(activations) != 1 or len(writers) != 1:
            return
        (before,) = writers
        home = self._merger.find(before) if before in self._steps else None
        if home is None or not self._is_sum(before) or home not in self._loop:
            return
        alike = self._steps[before].repeat == self._steps[ops[0]].repeat
        agrees = alike and same_loop(self._loop[home], self._loop[group])
        if agrees and all(self._in_place(i, before) for i in ops):
            self._merger.try_join(home, group)

    def _is_sum(self, i: int) -> bool:
        """Whether an op is a sum that no kernel has taken in."""
        view = self._steps[i].view
        alone = self._merger.members(self._merger.find(i)) == [i]
        return alone and view.kind == "elementwise" and view.attrs.get("function") == "add"

    def _is_norm(self, group: int) -> bool:
        """Whether a kernel is a norm or a softmax, be it written out: it reduces and applies."""
        rows, length = self._loop.get(group, (1, 1))
        views = [self._steps[i].view for i in self._merger.members(group)]
        reducing = [view for view in views if shape_of(view) is Shape.REDUCTION]
        if any(has_tail(view) for view in reducing):
            return True
        whole = (rows * length, 1)
        return bool(reducing) and any(iteration(view, shape_of(view)) == whole for view in views)


def _is_written(view: OpView) -> bool:
    """Whether an op may be part of a function."""
    loops = shape_of(view) is not Shape.EXTERN
    return loops and view.kind in _WRITTEN and not reads_elsewhere(view)


def _writers(step: ProgramStep) -> set[int]:
    return {w for read in step.reads for w in read.writers}


def _constants(steps: Mapping[int, ProgramStep]) -> set[int]:
    """Ops that depend on nothing that has to be read, and the reader of whose result is an op."""
    found: set[int] = set()
    for i, step in steps.items():
        loops = shape_of(step.view) is not Shape.EXTERN and step.view.kind != "random"
        if loops and WORLD not in step.users and _writers(step) <= found:
            found.add(i)
    return found
