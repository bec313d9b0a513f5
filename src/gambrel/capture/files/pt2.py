"""Exported programs (``.pt2``, torch.export) read with zip and JSON alone: no torch, no pickle."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gambrel.capture.files.archive import open_zip, read_member
from gambrel.capture.files.dynamic import (
    MAX_SYMBOLS,
    DynamicSize,
    label_of,
    lifted,
    sizes_text,
    symbol_of,
)
from gambrel.capture.files.export_graph import build_workload
from gambrel.capture.files.sizes import evaluate_size, symbols_in
from gambrel.capture.files.unrolled import mention_unrolled
from gambrel.errors import FileFormatError, WorkloadError
from gambrel.workload import Workload
from gambrel.workload.parameters import mention_unread
from gambrel.workload.prune import drop_unused_outputs

#: Layouts of torch 2.7 and later, and of torch 2.1 to 2.6.
_NEW: Final = "/models/"
_OLD: Final = "serialized_exported_program.json"
#: Major versions of torch._export.serde.schema whose fields are those read here.
_MAJOR_VERSIONS: Final = range(5, 10)
#: Strides halve image sides, with rounding: at multiples of these the sizes are polynomials.
_STEPS: Final = (1, 2, 4, 8, 16, 32)


def read_pt2(path: str | Path) -> Workload:
    """Reads the workload of an exported program.

    Dimensions that were exported as dynamic become symbols: the first one of an input is
    ``batch``, the second of a sequence ``seq``, others are named after input and position.

    Args:
        path: A file written by ``torch.export.save``.

    Raises:
        FileFormatError: It is no such file, damaged, hostile or of an unknown version.
    """
    path = Path(path)
    program = _load(path)
    try:
        return mention_unrolled(mention_unread(_workload(program, path)))
    except (KeyError, TypeError, ValueError, AttributeError, IndexError, RecursionError) as error:
        raise FileFormatError(
            f"{path}: the exported program is damaged ({type(error).__name__}: {error}); "
            "export the model again with torch.export.save."
        ) from None
    except FileFormatError as error:
        raise FileFormatError(f"{path}: {error}") from None


def _load(path: Path) -> dict[str, Any]:
    with open_zip(path) as archive:
        names = [n for n in archive.namelist() if n.endswith(".json")]
        found = [n for n in names if _NEW in f"/{n}" or n.endswith(_OLD)]
        if not found:
            raise FileFormatError(
                f"{path} holds no exported program; write one with torch.export.save(program, "
                f"{path.name!r})."
            )
        text = read_member(archive, sorted(found)[0])
    try:
        program = msgspec.json.decode(text)
    except (msgspec.MsgspecError, ValueError, RecursionError):
        raise FileFormatError(f"{path}: the program inside is no JSON; export it again.") from None
    if not isinstance(program, dict) or "graph_module" not in program:
        raise FileFormatError(f"{path}: the JSON inside is no exported program.")
    _check_version(path, program)
    return program


def _check_version(path: Path, program: Mapping[str, Any]) -> None:
    version = program.get("schema_version")
    major = version.get("major") if isinstance(version, dict) else version
    if major not in _MAJOR_VERSIONS:
        raise FileFormatError(
            f"{path}: version {major!r} of the export format is not known; versions "
            f"{_MAJOR_VERSIONS[0]} to {_MAJOR_VERSIONS[-1]} are. Export with torch 2.5 or later."
        )


def _workload(program: Mapping[str, Any], path: Path) -> Workload:
    dynamic = _dynamic_sizes(program)
    torch_version = str(program.get("torch_version") or "")[:40]
    origin = f"torch.export {torch_version}".rstrip()

    def at(sizes: Mapping[str, int]) -> Workload:
        keyed = {d.key: sizes[d.name] for d in dynamic}
        built = build_workload(program, keyed, name=path.stem, origin=origin)
        return drop_unused_outputs(built)

    hints = {d.name: d.hint for d in dynamic}
    free, rest = dynamic[:MAX_SYMBOLS], dynamic[MAX_SYMBOLS:]
    if not free:
        return at(hints)
    reason: Exception | None = None
    for step in _STEPS:
        try:
            _check_polynomials(program, free, hints, step)
            found = lifted(free, hints, at, step)
        except (WorkloadError, FileFormatError) as error:
            reason = reason or error
            continue
        return (
            replace(found, assumptions=(f"as in the export: {sizes_text(rest)}.",))
            if rest
            else found
        )
    note = f"sizes are fixed as in the export ({sizes_text(dynamic)}): {str(reason).rstrip('.')}."
    return replace(at(hints), assumptions=(note,))


def _check_polynomials(
    program: Mapping[str, Any], free: list[DynamicSize], hints: Mapping[str, int], step: int
) -> None:
    """Raises WorkloadError when some size is no polynomial of degree two at multiples of step.

    Its third difference over four equal steps is then not zero. Much cheaper than building the
    workload at each point to find that out.
    """
    keys = {d.name: d.key for d in free}
    fixed = {d.key: hints[d.name] for d in free}
    for d in free:
        symbol = symbol_of(d, 1 if d.name == "batch" else step)
        line = [symbol.minimum + i * symbol.multiple_of for i in range(4)]
        for text in _expressions(program):
            if symbols_in(text) <= set(fixed):
                a, b, c, e = (evaluate_size(text, {**fixed, keys[d.name]: v}) for v in line)
                if e - 3 * c + 3 * b - a:
                    raise WorkloadError(f"the size {text[:60]} is no polynomial in {d.name}")


def _expressions(program: Mapping[str, Any]) -> set[str]:
    """The different expressions among the sizes of all tensors."""
    described = program["graph_module"]["graph"]["tensor_values"].values()
    return {
        str(size["as_expr"]["expr_str"])
        for meta in described
        for size in meta["sizes"]
        if size.get("as_expr")
    }


def _dynamic_sizes(program: Mapping[str, Any]) -> list[DynamicSize]:
    graph = program["graph_module"]["graph"]
    ranges = program.get("range_constraints") or {}
    found: dict[str, DynamicSize] = {}
    for spec in program["graph_module"]["signature"]["input_specs"]:
        name = (((spec.get("user_input") or {}).get("arg") or {}).get("as_tensor") or {}).get(
            "name"
        )
        meta = graph["tensor_values"].get(name) or {"sizes": []}
        for position, size in enumerate(meta["sizes"]):
            expression = size.get("as_expr")
            if not expression:
                continue
            for key in sorted(symbols_in(str(expression["expr_str"])) - set(found)):
                taken = {d.name for d in found.values()}
                label = label_of(str(name), position, len(meta["sizes"]), taken)
                hint = (expression.get("hint") or {}).get("as_int")
                found[key] = _symbol(key, label, hint, ranges.get(key) or {}, str(name), position)
    return list(found.values())


def _symbol(
    key: str, label: str, hint: Any, allowed: Mapping[str, Any], name: str, position: int
) -> DynamicSize:
    low, high = allowed.get("min_val"), allowed.get("max_val")
    minimum = max(low, 1) if isinstance(low, int) else 2
    maximum = high if isinstance(high, int) and high < 2**31 else None
    default = hint if isinstance(hint, int) else minimum
    about = f"dimension {position} of input {name}"
    return DynamicSize(key, label, max(default, minimum), minimum, maximum, about)
