"""What torch's own compiler makes of a model: its kernels and their bytes, without running it.

``torch.compile`` runs on fake tensors up to the end of the scheduler's fusion, where it is stopped:
no weight exists and no code is generated. The same program (the graph that the compiler was
given) is captured as a workload, so that both group the same ops. Two flavours:

* ``gpu``: the scheduler of the Triton backend with the lowering rules for GPUs (cheap values are
  recomputed, concatenations fuse), run on CPU tensors. Choices that need a real GPU's properties
  (split reductions by number of multiprocessors, channels-last convolutions) are not made.
* ``cpu``: the C++ backend as it is.

Run as a script with a model and a flavour to refresh ``data/fusion``; `fusion.py` reads that.
"""

from __future__ import annotations

import argparse
import copy
import inspect
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

import gambrel.capture.torch as capture_torch

capture_torch.ensure_torchvision()

import torch  # noqa: E402
from torch._inductor import config, decomposition, ir, lowering  # noqa: E402
from torch._inductor.compile_fx import compile_fx  # noqa: E402
from torch._inductor.dependencies import MemoryDep, WeakDep  # noqa: E402
from torch._inductor.scheduler import (  # noqa: E402
    BaseSchedulerNode,
    ExternKernelSchedulerNode,
    NopKernelSchedulerNode,
)
from torch._inductor.virtualized import V  # noqa: E402
from torch._subclasses import FakeTensorMode  # noqa: E402
from torch.utils._pytree import tree_map_only  # noqa: E402

from fusion_models import DTYPES, MODELS  # noqa: E402
from gambrel.workload.serialize import save_workload  # noqa: E402

DATA = Path(__file__).resolve().parent / "data" / "fusion"
FLAVOURS = ("gpu", "cpu")

# Read before anything is registered again.
_CAT = inspect.getsource(lowering.cat)
_GROUP_NORM = inspect.getsource(torch._refs.native_group_norm)


class Kernel(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One fused kernel of the compiler: where its code comes from, and its bytes."""

    origins: tuple[str, ...]
    reduction: bool
    read_bytes: int
    write_bytes: int


class Oracle(msgspec.Struct, frozen=True, kw_only=True):
    """The compiler's kernels of one model.

    Attributes:
        model: Name in `fusion_models.MODELS`.
        flavour: ``gpu`` or ``cpu``.
        torch: Version.
        seconds: How long it took.
        extern: Extern kernel → how many.
        extern_bytes: Bytes of the buffers that they read and write, by the compiler's own count.
        own_fused_bytes: Bytes of the fused kernels by the compiler's own count (whole buffers).
        fused: The fused kernels; their bytes count only what is touched.
    """

    model: str
    flavour: str
    torch: str
    seconds: float
    extern: dict[str, int]
    extern_bytes: int
    own_fused_bytes: int
    fused: tuple[Kernel, ...]

    @property
    def fused_bytes(self) -> int:
        return sum(k.read_bytes + k.write_bytes for k in self.fused)


class _Fused(BaseException):
    """Stops the compilation once the groups are known."""


def observe(model: str, flavour: str) -> tuple[Oracle, Any]:
    """The compiler's kernels of a model and the program they are made from, as a workload."""
    found: list[Oracle] = []
    programs: list[tuple[Any, Sequence[Any]]] = []
    start = time.perf_counter()

    def stop(nodes: list[BaseSchedulerNode]) -> None:
        found.append(_describe(nodes, model, flavour, time.perf_counter() - start))
        raise _Fused

    def backend(graph: Any, inputs: Sequence[Any]) -> Any:
        programs.append((torch.fx.GraphModule(graph, copy.deepcopy(graph.graph)), inputs))
        if flavour == "gpu":
            _keep_attention(graph)
        return compile_fx(graph, inputs)

    torch._dynamo.reset()
    with capture_torch.lean_init(DTYPES.get(model)):
        module, args, kwargs = MODELS[model]()
    mode = FakeTensorMode()
    _make_fake(module, mode)
    args, kwargs = tree_map_only(torch.Tensor, partial(_fake, mode=mode), (args, kwargs))
    with _flavour(flavour, stop), mode, torch.no_grad(), suppress(_Fused):
        torch.compile(module, backend=backend, fullgraph=True)(*args, **kwargs)
    graph, inputs = programs[0]
    return found[0], _captured(graph, inputs, model)


def load(model: str, flavour: str = "gpu") -> Oracle:
    """A stored observation."""
    return msgspec.json.decode((DATA / f"{model}.{flavour}.json").read_bytes(), type=Oracle)


def workload_file(model: str) -> Path:
    """Where the program of a model is stored."""
    return DATA / f"{model}.workload.json.gz"


def _fake(tensor: torch.Tensor, mode: FakeTensorMode) -> torch.Tensor:
    with mode:
        return torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)


def _make_fake(module: torch.nn.Module, mode: FakeTensorMode) -> None:
    """Replaces parameters and buffers by fake tensors on the CPU."""
    fake = partial(_fake, mode=mode)
    parameters = list(module.parameters())  # held, so that no id is given twice
    twins = {id(p): torch.nn.Parameter(fake(p), requires_grad=False) for p in parameters}
    for part in module.modules():
        for name, p in part._parameters.items():
            if p is not None:
                part._parameters[name] = twins[id(p)]  # tied weights stay tied
        for name, b in part._buffers.items():
            if b is not None:
                part._buffers[name] = fake(b)


def _captured(graph: Any, inputs: Sequence[Any], model: str) -> Any:
    twins = [
        torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta")
        if isinstance(x, torch.Tensor)
        else x
        for x in inputs
    ]
    return capture_torch.capture(graph, tuple(twins), name=model, source=False)


@contextmanager
def _flavour(flavour: str, stop: Callable[..., None]) -> Iterator[None]:
    options = {
        "fx_graph_cache": False,
        "layout_optimization": False,
        "compile_threads": 1,
        "cpu_backend": "triton" if flavour == "gpu" else "cpp",
        "_post_fusion_custom_pass": stop,
    }
    is_cpu, cat = ir.is_cpu, dict(lowering.lowerings)
    with config.patch(options):
        if flavour == "gpu":
            ir.is_cpu = lambda _node: False
            _fuse_concatenations()
            _fuse_group_norm()
        try:
            yield
        finally:
            ir.is_cpu = is_cpu
            lowering.lowerings.update(cat)


@torch.library.custom_op(
    "gambrel_oracle::attention", mutates_args=(), tags=(torch.Tag.flexible_layout,)
)
def _attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None
) -> torch.Tensor:
    raise NotImplementedError("only its shape is ever asked for")


@_attention.register_fake
def _(
    q: torch.Tensor,
    k: torch.Tensor,  # noqa: ARG001
    v: torch.Tensor,
    mask: torch.Tensor | None,  # noqa: ARG001
) -> torch.Tensor:
    batch, heads, seq, _width = q.shape
    return q.new_empty(batch, seq, heads, v.shape[-1]).transpose(1, 2)


def _keep_attention(graph: torch.fx.GraphModule) -> None:
    """Makes attention one opaque op, as GPUs run it; CPUs want masks of their own."""
    for node in graph.graph.nodes:
        if node.target is torch.nn.functional.scaled_dot_product_attention:
            mask = node.args[3] if len(node.args) > 3 else node.kwargs.get("attn_mask")
            node.target = torch.ops.gambrel_oracle.attention.default
            node.args, node.kwargs = (*node.args[:3], mask), {}
    graph.recompile()


def _fuse_group_norm() -> None:
    """Registers the decomposition of group norm again, without its special form for CPUs."""
    aten = torch.ops.aten.native_group_norm.default
    source = _GROUP_NORM[_GROUP_NORM.index("def ") :]
    wanted = 'input.device.type == "cpu"'
    if wanted not in source:
        raise SystemExit("this version of torch has another group norm: revise the oracle")
    scope = dict(vars(torch._refs))
    exec(source.replace(wanted, "False"), scope)
    decomposition.decompositions[aten] = scope["native_group_norm"]


def _fuse_concatenations() -> None:
    """Registers the lowering of ``cat`` again, without its exit for CPU tensors."""
    source = _CAT
    wanted = 'cpu_device = inputs[0].get_device().type == "cpu"'
    if wanted not in source:
        raise SystemExit("this version of torch lowers cat in another way: revise the oracle")
    for overload in torch.ops.aten.cat.overloads():  # else the first one stays
        lowering.lowerings.pop(getattr(torch.ops.aten.cat, overload), None)
    exec(source.replace(wanted, "cpu_device = False"), vars(lowering))


def _describe(nodes: list[Any], model: str, flavour: str, seconds: float) -> Oracle:
    extern = [n for n in nodes if isinstance(n, ExternKernelSchedulerNode)]
    extern = [n for n in extern if not isinstance(n.node, ir.MultiOutput)]
    fused = [n for n in nodes if not isinstance(n, ExternKernelSchedulerNode)]
    fused = [n for n in fused if not isinstance(n, NopKernelSchedulerNode)]
    return Oracle(
        model=model,
        flavour=flavour,
        torch=str(torch.__version__),
        seconds=round(seconds, 1),
        extern=dict(Counter(_kernel_name(n) for n in extern)),
        extern_bytes=sum(n.get_read_write_buffers_sizes() for n in extern),
        own_fused_bytes=sum(n.get_read_write_buffers_sizes() for n in fused),
        fused=tuple(map(_kernel, fused)),
    )


def _kernel_name(node: Any) -> str:
    return str(getattr(node.node, "python_kernel_name", None) or type(node.node).__name__)


def _kernel(node: Any) -> Kernel:
    parts = node.get_nodes()
    written = {dep.name for part in parts for dep in part.read_writes.writes}
    deps = [(part, dep) for part in parts for dep in part.read_writes.reads]
    read = [d for _, d in deps if d.name not in written and not isinstance(d, WeakDep)]
    needed = {name for name in written if _used_outside(node, name, parts)}
    stored = [d for p in parts for d in p.read_writes.writes if d.name in needed]
    origins = dict.fromkeys(
        o.name for p in parts if p.node is not None for o in p.node.get_origins()
    )
    return Kernel(
        origins=tuple(origins),
        reduction=any(p.is_reduction() for p in parts),
        read_bytes=_bytes(read),
        write_bytes=_bytes(stored),
    )


def _used_outside(node: Any, name: str, parts: Sequence[Any]) -> bool:
    users = node.scheduler.name_to_buf[name].users
    return any(u.node not in parts for u in users)


def _bytes(deps: Sequence[Any]) -> int:
    """Bytes of what is touched: each distinct access once, at most the whole buffer."""
    touched: dict[str, dict[Any, int]] = {}
    for dep in deps:
        index = (dep.index, dep.size) if isinstance(dep, MemoryDep) else "*"
        touched.setdefault(dep.name, {})[index] = _elements(dep)
    total = 0
    for name, accesses in touched.items():
        width = V.graph.get_dtype(name).itemsize
        total += width * min(sum(accesses.values()), int(V.graph.get_numel(name)))
    return total


def _elements(dep: Any) -> int:
    if not isinstance(dep, MemoryDep):
        return int(V.graph.get_numel(dep.name))
    used = dep.index.free_symbols
    look_up = dep.is_indirect()  # a row is looked up for every point of the loop
    count = 1
    for var, size in dep.ranges.items():
        count *= int(size) if look_up or var in used else 1
    return count


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=list(MODELS))
    parser.add_argument("--flavour", choices=FLAVOURS, default="gpu")
    chosen = parser.parse_args()
    DATA.mkdir(parents=True, exist_ok=True)
    for model in chosen.models or list(MODELS):
        oracle, workload = observe(model, chosen.flavour)
        text = msgspec.json.format(msgspec.json.encode(oracle), indent=1)
        (DATA / f"{model}.{chosen.flavour}.json").write_bytes(text + b"\n")
        save_workload(workload, workload_file(model))
        print(
            f"{model} {chosen.flavour}: {sum(oracle.extern.values())} extern, "
            f"{len(oracle.fused)} fused, {oracle.fused_bytes / 1e6:.1f} MB, "
            f"own count {oracle.own_fused_bytes / 1e6:.1f} MB, {oracle.seconds} s",
            file=sys.stderr,
        )


if __name__ == "__main__":
    main()
