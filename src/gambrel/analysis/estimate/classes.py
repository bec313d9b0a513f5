"""The class of an op: what one library kernel serves, and what its time depends on.

A stack decides which kernel serves an op, so a class may have variants: convolutions with channels
last, and the loops that a compiler writes instead of calling a library.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from gambrel.ops import Cost, OpView
from gambrel.ops.base import Engine, product

#: Variants of classes: channels last; loops of a compiler.
LAST: Final = "last"
WRITTEN: Final = "compiled"
#: Numbers of a vector or of a tile's side: libraries run other kernels where sizes are no multiple.
_VECTOR: Final = 16
#: The class of touching pages for the first time. glibc maps blocks from this size on anew in every
#: call. Source: mallopt(3), M_MMAP_THRESHOLD, DEFAULT_MMAP_THRESHOLD_MAX on 64-bit systems.
FRESH_KEY: Final = "first touch"
FRESH_BYTES: Final = 32 << 20


def key_of(view: OpView, variant: str = "") -> str:
    """The class of an op: what one library kernel serves, with the number format.

    Args:
        view: The op.
        variant: Of the class.
    """
    return _key(_class(view), variant, view.operand_dtype(2))


def _key(name: str, variant: str, dtype: str) -> str:
    """As classes are named: of a compiler's loops it does not matter whether they run in place."""
    if variant == WRITTEN:
        name = name.rstrip("!")
    return f"{name}{'@' if variant else ''}{variant}:{dtype}"


def _class(view: OpView) -> str:
    kind, function = view.kind, str(view.attrs.get("function") or "")
    if kind == "matmul":
        if _size(view, "b") > 1:
            return "bmm"
        return (
            "matmul.odd" if _size(view, "n") % _VECTOR or _size(view, "k") % _VECTOR else "matmul"
        )
    if kind == "convolution" and not view.attrs.get("transposed"):
        return _convolution(view)
    if kind == "attention":
        return "attention.causal" if view.attrs.get("causal") else "attention"
    if kind == "elementwise":
        return f"elementwise.{function}{'!' if _in_place(view) else ''}"
    return f"{kind}.{function}" if function else kind


def _convolution(view: OpView) -> str:
    groups = _size(view, "groups")
    if groups > 1:
        return (
            "convolution.depthwise" if groups == view.size("in_channels") else "convolution.grouped"
        )
    if product(view.size("kernel")) > 1:
        return "convolution.kxk"
    return "convolution.1x1.strided" if _strided(view) else "convolution.1x1"


def _strided(view: OpView) -> bool:
    """Whether places of the input are left out (a 1x1 kernel without padding is meant)."""
    read = view.inputs[0].shape[2:] if view.inputs else ()
    spatial = view.size("spatial")
    return len(read) == len(spatial) and any(
        isinstance(r, int) and isinstance(s, int) and r > s
        for r, s in zip(read, spatial, strict=True)
    )


def fresh_bytes(view: OpView, variant: str = "") -> float:
    """Bytes that an op writes to pages that the allocator maps anew.

    Results, unless they are written in place. A convolution whose channels do not lie last works on
    copies of its input and of its result besides (seen as page faults of torch 2.13); only 1x1 in
    fp32 runs without.

    Args:
        view: The op.
        variant: Of its class.
    """
    if _in_place(view):
        return 0.0
    written = list(view.outputs)
    name = _class(view)
    plain = variant != LAST and name.startswith("convolution.")
    if plain and (name != "convolution.1x1" or view.operand_dtype(2) != "fp32"):
        written += [*view.inputs[:1], *view.outputs]
    sizes = [t.nbytes for t in written]
    return float(sum(n for n in sizes if isinstance(n, int | float) and n >= FRESH_BYTES))


def _in_place(view: OpView) -> bool:
    written = {t.storage for t in view.outputs}
    return any(t.storage in written for t in view.inputs)


def _size(view: OpView, name: str) -> Any:
    return view.size(name, 1)


#: Classes that stand in for one that was not measured.
_LIKE: Final[Mapping[str, tuple[str, ...]]] = {
    "elementwise": ("elementwise.mul", "elementwise.add"),
    "elementwise!": ("elementwise.relu!", "elementwise.add"),
    "elementwise special": ("elementwise.gelu", "elementwise.tanh", "elementwise.add"),
    "attention": ("attention",),
    "copy": ("copy.cat", "copy.clone", "elementwise.add"),
    "normalization": ("normalization.layer_norm",),
    "reduction": ("reduction.mean",),
    "pooling": ("pooling.max",),
    "gather": ("embedding",),
    "convolution.grouped": ("convolution.kxk",),
    "matmul.odd": ("matmul",),
    "convolution.1x1.strided": ("convolution.1x1",),
}


def candidates(view: OpView, cost: Cost, variant: str = "") -> tuple[str, ...]:
    """Keys under which an op may have been measured: its own, then those of its kin.

    Args:
        view: The op.
        cost: Of one execution.
        variant: Of the class that is looked for; the class without one comes after it.
    """
    own, dtype = key_of(view).split(":")
    family = own.partition(".")[0]
    if family == "elementwise":
        special = any(n for (engine, _), n in cost.work.items() if engine is Engine.SPECIAL)
        family = "elementwise special" if special else family + ("!" if own.endswith("!") else "")
    like = _LIKE.get(own, _LIKE.get(family, ()))
    formats = dict.fromkeys((dtype, "fp32"))
    return tuple(
        _key(name, chosen, fmt)
        for chosen in dict.fromkeys((variant, ""))
        for fmt in formats
        for name in (own, own.rstrip("!"), *like)
    )


def features_of(view: OpView, cost: Cost) -> tuple[float, ...] | None:
    """Logarithms to the base of two of what the time of a class depends on.

    Returns:
        None where a size is no plain number (a sweep).
    """
    sizes = _sizes(view, cost)
    if not all(isinstance(s, int | float) for s in sizes):
        return None
    return tuple(math.log2(max(float(s), 1.0)) for s in sizes)


def _sizes(view: OpView, cost: Cost) -> tuple[Any, ...]:
    if view.kind == "matmul":
        return tuple(_size(view, name) for name in "bmnk")
    if view.kind == "convolution":
        groups = _size(view, "groups")
        return (
            _size(view, "batch"),
            product(view.size("spatial")),
            view.size("in_channels") / groups,
            view.size("out_channels") / groups,
            groups,
            product(view.size("kernel")),
        )
    if view.kind == "attention":
        heads = view.size("batch") * view.size("heads")
        return (heads, view.size("q_len"), view.size("kv_len"), view.size("head_dim"))
    return (cost.read_bytes + cost.write_bytes,)
