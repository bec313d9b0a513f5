"""One candidate from start to end: loaded, checked, timed, watched."""

from __future__ import annotations

import json
import re
import secrets
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from gambrel.advise.judge.records import CandidateFinding, CandidateRun, KernelLimits
from gambrel.analysis.question import Question
from gambrel.errors import InputError, require
from gambrel.measure.candidate.child import Child, EndedError
from gambrel.measure.candidate.compare import ReferenceOutput, compare, tolerance_of
from gambrel.measure.candidate.inputs import KINDS, input_sets, smaller, varied
from gambrel.measure.candidate.reference import Reference, reference_of
from gambrel.measure.machine import crowding

#: Seconds for a call: at least, and times what the reference takes.
_CALL_S: Final = 20.0
#: For a call with a shape that is new to it: `torch.compile` and Triton compile then.
_COMPILE_S: Final = 120.0
_SLOWER: Final = 100.0
#: Bytes that a candidate may need beside inputs and outputs: workspace, libraries, threads.
_MEMORY: Final = 2 << 30
#: Written before each call: more than the last-level cache of a GPU, or of a core's share of a
#: server's processor, keeps.
_FLUSH: Final = {"cuda": 256 << 20, "cpu": 64 << 20}
_BUDGET_S: Final = 1.0
#: Timed calls.
_LEAST: Final = 5
_MOST: Final = 200
#: Seconds for loading: compilers of extensions take a minute or two.
_LOAD_S: Final = 300.0
_BURST_S: Final = 0.1
#: Calls of the first series of several, and seconds that a question and its reply may take.
_FEW: Final = 3
_SERIES: Final = 8
_PIPE_S: Final = 0.01
#: A clock that shows less than this share of the time that passed was tampered with.
_HONEST: Final = 0.5
_REFUSED: Final = re.compile(r"does not allow that a candidate (.+) \(")
#: Bytes on stdout that are no accident of a library.
_PRINTED: Final = 0


def try_candidate(question: Question, limits: KernelLimits) -> CandidateRun:
    """Runs the candidate of a question.

    Args:
        question: With ``run`` and a reference that can be run.
        limits: Of the reference.

    Raises:
        InputError: The reference cannot be run here, or there is no such candidate.
    """
    require("torch", "torch", "running a candidate")
    target = str(question.run)
    place, colon, _ = target.rpartition(":")
    if not colon or not place.endswith(".py") or not Path(place).is_file():
        raise InputError(f"--run {target}: give file.py:function; no such file was seen.")
    reference = reference_of(question.model, question.inputs, question.kwargs)
    device = _device(limits)
    folder = Path(tempfile.mkdtemp(prefix="gambrel-judge-"))
    run = _Run(target=target, device=device, folder=folder, reference=reference)
    try:
        return run.trial()
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _device(limits: KernelLimits) -> str:
    """Where candidates run: a GPU where there is one, unless the question is about a CPU."""
    import torch

    from gambrel.device.catalog import load
    from gambrel.errors import GambrelError

    try:
        category = load(limits.hardware).category
    except GambrelError:
        category = ""
    return "cuda" if torch.cuda.is_available() and category != "cpu" else "cpu"


@dataclass(slots=True, kw_only=True)
class _Run:
    """The state of one trial."""

    target: str
    device: str
    folder: Path
    reference: Reference
    findings: list[CandidateFinding] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    error: float | None = None
    tolerance: float | None = None
    took_s: float = 0.0
    last_s: float = 0.0
    times: list[float] = field(default_factory=list)
    warmup: int = 0
    expected: dict[str, ReferenceOutput] = field(default_factory=dict)

    def trial(self) -> CandidateRun:
        """Runs everything until something is wrong."""
        sets = self._prepare()
        child: Child | None = None
        try:
            child = Child(self.folder)
            self._steps(child, sets)
        except EndedError as ended:
            self._found(ended.name, ended.about)
        finally:
            if child is not None:
                child.close()
        quantiles = statistics.quantiles(self.times, n=10) if len(self.times) > 1 else []
        return CandidateRun(
            candidate=self.target,
            device=self.device,
            time_s=statistics.median(self.times) if self.times else None,
            low_s=quantiles[0] if quantiles else None,
            high_s=quantiles[-1] if quantiles else None,
            samples=len(self.times),
            warmup_count=self.warmup,
            cache=f"{_FLUSH[self.device] >> 20} MiB written before each call to empty the caches",
            error_share=self.error,
            tolerance_share=self.tolerance,
            inputs=tuple(self.checked),
            findings=tuple(self.findings),
        )

    def _prepare(self) -> dict[str, list[Any]]:
        """Inputs, expected outputs (kept here), and what the other process gets."""
        import torch

        seed = secrets.randbits(32)
        example = [t.detach().cpu() for t in self.reference.example]
        sets = input_sets(example, seed)
        if (few := smaller(sets["random"])) is not None:
            sets["fewer"] = few
        for kind, values in sets.items():
            start = time.perf_counter()
            try:
                self.expected[kind] = self.reference.expected(values)
            except Exception as error:
                if kind == "random":
                    what = f"{type(error).__name__}: {error}"[:200]
                    raise InputError(f"the reference itself fails: {what}") from error
            self.took_s = max(self.took_s, time.perf_counter() - start)
        sets = {kind: values for kind, values in sets.items() if kind in self.expected}
        torch.save(sets, self.folder / "inputs.pt")
        torch.save(self.reference.module.state_dict(), self.folder / "state.pt")
        place, _, name = self.target.rpartition(":")
        moved = sum(t.nbytes for t in (*example, *self.expected["random"].outputs))
        job = {
            "candidate": f"{Path(place).resolve()}:{name}",
            "reference": self.reference.file,
            "device": self.device,
            "seed": seed,
            "threads": torch.get_num_threads(),
            "flush_bytes": _FLUSH[self.device],
            "memory_bytes": 0 if self.device == "cuda" else 9 * moved + _MEMORY,
        }
        (self.folder / "job.json").write_text(json.dumps(job), "utf-8")
        return sets

    def _steps(self, child: Child, sets: dict[str, list[Any]]) -> None:
        limit_s = max(_CALL_S, _SLOWER * self.took_s)
        if not self._ask(child, "load", _LOAD_S):
            return
        printed = self._seen(child, -1)
        first = self._check(child, "random", limit_s)
        for kind in sets:
            if self._wrong:
                break
            self._check(child, kind, limit_s, first=first, reuse=kind == "other")
        if not self._wrong:
            self._check(child, "random", limit_s, first=None, again=True)
        if not self._wrong:
            self._time(child, limit_s, sets["random"])
        self._seen(child, printed)
        if not self._wrong:
            self._count(child, limit_s)

    @property
    def _wrong(self) -> bool:
        return any(f.invalid for f in self.findings)

    def _found(self, name: str, about: str, *, invalid: bool = True) -> None:
        if name not in {finding.name for finding in self.findings}:
            self.findings.append(CandidateFinding(name=name, about=about, invalid=invalid))

    def _ask(self, child: Child, do: str, limit_s: float, **more: Any) -> dict[str, Any] | None:
        """A reply; None where the candidate failed, which is then known."""
        said, self.last_s = child.ask(do, limit_s, **more)
        if "error" not in said:
            return said
        self._failed(said)
        return None

    def _failed(self, said: dict[str, Any]) -> None:
        about = f"{said['error']}: {said['about']}"
        memory = said["error"] == "MemoryError" or "allocate memory" in said["about"]
        if memory:
            self._found("exhausts memory", about)
        elif refused := _REFUSED.search(said["about"]):
            self._found(refused[1], said["about"])
        else:
            self._found("fails", about)

    def _check(
        self,
        child: Child,
        kind: str,
        limit_s: float,
        *,
        first: Any = None,
        reuse: bool = False,
        again: bool = False,
    ) -> Any:
        """One call whose outputs are compared; returns them."""
        if kind == "random" and first is not None:
            return first
        optional = kind == "fewer"
        before = len(self.findings)
        save = f"out-{len(self.checked)}-{kind}.pt"
        wait_s = 0.05 if kind == "random" else 0.0
        if kind in {"random", "fewer"}:
            limit_s = max(limit_s, _COMPILE_S)
        said = self._ask(child, "call", limit_s, set=kind, reuse=reuse, save=save, wait_s=wait_s)
        outputs = None if said is None else self._outputs(said, kind, save, first)
        if not optional:
            self.checked.append("the first values again" if again else KINDS[kind])
        elif len(self.findings) > before:
            self.findings[before:] = [
                CandidateFinding(
                    name="one shape only",
                    about="wrong or fails with half of the first dimension",
                    invalid=False,
                )
            ]
        else:
            self.checked.append("half of the first dimension")
        return outputs

    def _outputs(self, said: dict[str, Any], kind: str, save: str, first: Any) -> Any:
        import torch

        if "lazy" in said:
            self._found("timing without synchronization", f"returns a {said['lazy']}, not a Tensor")
            return None
        outputs = torch.load(self.folder / save, weights_only=True)["outputs"]
        (self.folder / save).unlink()
        if said["changed_inputs"]:
            self._found("changes its inputs", "the values it was given are others after the call")
        if said["late"]:
            self._found(
                "timing without synchronization",
                "its outputs change after it has returned: the work is still under way",
            )
            return outputs
        error, finding = compare(outputs, self.expected[kind], _said(kind))
        if kind != "fewer":
            self.error = error if self.error is None else max(self.error, error)
            allowed = tolerance_of(self.expected[kind])
            self.tolerance = max(self.tolerance or 0.0, allowed)
        if finding is not None:
            self.findings.append(self._stale(outputs, first) or finding)
        return outputs

    def _stale(self, outputs: list[Any], first: Any) -> CandidateFinding | None:
        """Whether wrong outputs are those of the first call."""
        import torch

        if first is None or len(first) != len(outputs):
            return None
        same = all(
            a.shape == b.shape and a.dtype == b.dtype and torch.equal(a, b)
            for a, b in zip(first, outputs, strict=True)
        )
        about = "other values in give the outputs of the first call"
        return CandidateFinding(name="cached results", about=about) if same else None

    def _time(self, child: Child, limit_s: float, first: list[Any]) -> None:
        """Times of single calls, and whether two clocks and calls in a row agree with them.

        Another program may stop or slow either process in between, so that one series that
        agrees is enough, and several are tried, single calls and calls in a row by turns.
        """
        calls, budget_s = _FEW, _BUDGET_S
        for attempt in range(_SERIES):
            honest = _HONEST / crowding()
            if not self._single(child, limit_s, first, budget_s):
                return
            said = self._ask(child, "burst", 10 * limit_s, calls=calls)
            if said is None:
                return
            each_s, own_s = self.last_s / calls, said["spent_ns"] / 1e9 / calls
            typical = statistics.median(self.times)
            shown = min(own_s, typical)
            if shown >= honest * each_s or each_s - shown < _PIPE_S / calls:
                return
            calls = int(min(max(_BURST_S / each_s, _FEW), 20_000))
            budget_s = _BUDGET_S / 4
            time.sleep(_BURST_S * attempt)
        how = "by its own clock" if own_s < typical else "where they were timed one by one"
        self._found("patched clock", f"a call takes {each_s:.3g} s here and {shown:.3g} s {how}")

    def _single(self, child: Child, limit_s: float, first: list[Any], budget_s: float) -> bool:
        """Times calls one by one; False where something is wrong with them."""
        import torch

        pick = secrets.SystemRandom()
        numbers = [pick.randrange(1, 1 << 30) for _ in range(_MOST + 64)]
        # Where there are few calls, all of them: one of three may be right by chance.
        keep = [*range(1, _LEAST + 1), *(pick.randrange(1, _MOST + 1) for _ in range(2))]
        budget = {"least": _LEAST, "most": _MOST, "budget_ns": int(budget_s * 1e9)}
        told = {"numbers": numbers, "keep": keep, "wait_s": 0.05}
        said = self._ask(child, "time", 10 * limit_s, set="random", **budget, **told)
        if said is None:
            return False
        self.times = [t / 1e9 for t in said["times_ns"]]
        self.warmup = said["warmup"]
        if said["late"]:
            about = f"outputs of {said['late']:,} timed calls change after they have returned"
            self._found("timing without synchronization", about)
            return False
        kept = torch.load(self.folder / "kept.pt", weights_only=True)
        for call, outputs in kept.items():
            # The values of that call are made here once more, whatever the candidate got.
            values = [varied(value, numbers[call % len(numbers)]) for value in first]
            _, finding = compare(outputs, self.reference.expected(values), "timed calls")
            if finding is not None:
                about = f"right at first, wrong in a timed call: {finding.about}"
                self._found("cached results", about)
                return False
        return True

    def _seen(self, child: Child, printed: int) -> int:
        """What the candidate did beside its work; returns the bytes that it has printed."""
        said, _ = child.ask("seen", 30.0)
        for name, about in said["seen"].items():
            self._found(name, about)
        if said["replaced"]:
            names = ", ".join(said["replaced"][:4])
            clock = any(n.startswith("time.") for n in said["replaced"])
            own = any(n.startswith(("Worker.", "Series.")) for n in said["replaced"])
            what = "clock" if clock else "judge" if own else "torch"
            self._found(f"patched {what}", f"replaces {names}")
        size = int(said["printed"])
        if 0 <= printed < size - _PRINTED:
            self._found("prints", f"writes {size - printed:,} bytes to stdout while it is called")
        return size

    def _count(self, child: Child, limit_s: float) -> None:
        """FLOP of the ops that it calls, where it calls torch's: fewer than the reference's?"""
        from torch.utils.flop_counter import FlopCounterMode

        said, _ = child.ask("count", limit_s, set="random")
        with FlopCounterMode(display=False) as counter:
            self.reference.module(*[t.clone() for t in self.reference.example])
        own, wanted = said.get("flops", 0), counter.get_total_flops()
        if 0 < own < 0.8 * wanted:
            self._found(
                "less work",
                f"its ops count {own:,} FLOP, the reference's {wanted:,}; the results agree",
                invalid=False,
            )


def _said(kind: str) -> str:
    return KINDS.get(kind, "half of the first dimension")
