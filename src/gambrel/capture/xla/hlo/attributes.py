"""Attributes of HLO instructions under the names that `vocabulary` and `lowering` read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final

from gambrel.capture.xla.hlo.text import Computation, Instruction, integers, window

_Read = Callable[[Instruction], "dict[str, Any]"]

#: Opcode → operation, where that is more than another hyphen.
_RENAMED: Final[dict[str, str]] = {
    "broadcast": "broadcast_in_dim",
    "dot": "dot_general",
    "topk": "top_k",
    "opt-barrier": "optimization_barrier",
    "rng-bit-generator": "rng",
    "partition-id": "zeros",
    "replica-id": "zeros",
    "after-all": "key",
    "add-dependency": "annotation",
    "domain": "annotation",
    "copy-start": "annotation",
    "copy-done": "annotation",
    "all-reduce-start": "all_reduce",
    "all-gather-start": "all_gather",
    "collective-permute-start": "collective_permute",
    "all-reduce-done": "annotation",
    "all-gather-done": "annotation",
    "collective-permute-done": "annotation",
}
_COLLECTIVES: Final = frozenset(
    {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute"}
)


def attributes_of(
    i: Instruction, computations: Mapping[str, Computation]
) -> tuple[str, dict[str, Any]]:
    """The operation that an instruction is, and its attributes."""
    op = _RENAMED.get(i.opcode, i.opcode.replace("-", "_"))
    read = _READ.get(op)
    found = read(i) if read is not None else {}
    applied = computations.get(i.attrs.get("to_apply", "").removeprefix("%"))
    if op in ("reduce", "reduce_window", "all_reduce"):
        found["function"] = combined_by(applied)
    if op == "scatter":
        found["accumulate"] = bool(combined_by(applied))
    if op in _COLLECTIVES:
        found["devices"] = _devices(i)
    if op == "reduce" and len(i.forms) > 1:
        return "argmax", found
    return op, found


def combined_by(computation: Computation | None) -> str:
    """The operation that a computation combines two values with; empty for any other."""
    if computation is None:
        return ""
    plain = [i.opcode for i in computation.instructions if i.opcode not in ("parameter", "convert")]
    return plain[0] if len(plain) == 1 else ""


def _listed(**names: str) -> _Read:
    return lambda i: {key: integers(i.attrs[own]) for key, own in names.items()}


def _dot(i: Instruction) -> dict[str, Any]:
    def dims(name: str) -> list[int]:
        return integers(i.attrs.get(name, ""))

    return {
        "contract": (dims("lhs_contracting_dims"), dims("rhs_contracting_dims")),
        "batch": (dims("lhs_batch_dims"), dims("rhs_batch_dims")),
    }


def convolution(i: Instruction) -> dict[str, Any]:
    """Layouts from ``b01f_01io->b01f``."""
    labels = re.fullmatch(r"(\w+?)_(\w+?)->(\w+)", i.attrs["dim_labels"])
    if labels is None:
        raise ValueError("labels of another form")
    x, w, out = labels.groups()
    space = [str(n) for n in range(len(x) - 2)]
    dilation = window(i.attrs.get("window", "")).get("lhs_dilate", [])
    return {
        "lhs": [x.index(c) for c in ("b", "f", *space)],
        "rhs": [w.index(c) for c in ("o", "i", *space)],
        "out": [out.index(c) for c in ("b", "f", *space)],
        "groups": int(i.attrs.get("feature_group_count", "1")),
        "batch_groups": int(i.attrs.get("batch_group_count", "1")),
        "lhs_dilation": [int(n) for n in dilation],
    }


def _slice(i: Instruction) -> dict[str, Any]:
    parts = [integers(p) for p in re.findall(r"\[([^\]]*)\]", i.attrs["slice"])]
    return {
        "starts": [p[0] for p in parts],
        "limits": [p[1] for p in parts],
        "strides": [p[2] if len(p) > 2 else 1 for p in parts],
    }


def _window(i: Instruction) -> dict[str, Any]:
    return {"window": [int(n) for n in window(i.attrs["window"])["size"]]}


def _fft(i: Instruction) -> dict[str, Any]:
    return {"type": i.attrs["fft_type"], "lengths": integers(i.attrs["fft_length"])}


_READ: Final[dict[str, _Read]] = {
    "dot_general": _dot,
    "convolution": convolution,
    "slice": _slice,
    "reduce_window": _window,
    "select_and_scatter": _window,
    "fft": _fft,
    "broadcast_in_dim": _listed(dims="dimensions"),
    "transpose": _listed(perm="dimensions"),
    "reduce": _listed(axes="dimensions"),
    "gather": _listed(slice_sizes="slice_sizes"),
    "concatenate": lambda i: {"axis": integers(i.attrs["dimensions"])[0]},
    "sort": lambda i: {"axis": integers(i.attrs.get("dimensions", "0"))[0]},
    "iota": lambda i: {"axis": int(i.attrs.get("iota_dimension", "0"))},
    "compare": lambda i: {"direction": i.attrs["direction"]},
    "top_k": lambda _: {"axis": -1},
}


def _devices(i: Instruction) -> int | None:
    """How many devices a group has: ``{{0,1},{2,3}}`` or ``[2,4]<=[8]``."""
    pairs = i.attrs.get("source_target_pairs")
    if pairs is not None:
        return len(set(integers(pairs))) or None
    groups = i.attrs.get("replica_groups", "")
    if groups.startswith("["):
        return integers(groups.partition("]")[0])[-1]
    first = re.search(r"\{([\d, ]+)\}", groups)
    return len(integers(first[1])) if first else None
