"""Exported programs (``.pt2``, torch.export) read with zip and JSON alone: no torch, no pickle."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from gambrel.capture.files.archive import open_zip, read_member
from gambrel.capture.files.export_graph import build_workload
from gambrel.capture.files.sizes import evaluate_size, symbols_in
from gambrel.capture.files.unrolled import mention_unrolled
from gambrel.errors import FileFormatError, WorkloadError
from gambrel.workload import Symbol, Workload
from gambrel.workload.lift import lift
from gambrel.workload.parameters import mention_unread
from gambrel.workload.prune import drop_unused_outputs

#: Layouts of torch 2.7 and later, and of torch 2.1 to 2.6.
_NEW: Final = "/models/"
_OLD: Final = "serialized_exported_program.json"
#: Major versions of torch._export.serde.schema whose fields are those read here.
_MAJOR_VERSIONS: Final = range(5, 10)
#: Strides halve image sides, with rounding: at multiples of these the sizes are polynomials.
_STEPS: Final = (1, 2, 4, 8, 16, 32)
#: More symbols than these are fixed at the sizes of the export: captures grow as 3^symbols.
_MAX_SYMBOLS: Final = 2


@dataclass(frozen=True, slots=True)
class _Dynamic:
    """A symbol of the program.

    Attributes:
        key: As the program calls it, e.g. ``"s77"``.
        name: As gambrel calls it, e.g. ``"batch"``.
        hint: Its value in the example inputs of the export.
        minimum: Smallest allowed value.
        maximum: Largest, or None.
        about: Which dimension it is.
    """

    key: str
    name: str
    hint: int
    minimum: int
    maximum: int | None
    about: str


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
    free, rest = dynamic[:_MAX_SYMBOLS], dynamic[_MAX_SYMBOLS:]
    if not free:
        return at(hints)
    reason: Exception | None = None
    for step in _STEPS:
        try:
            _check_polynomials(program, free, hints, step)
            found = _lifted(free, hints, at, step)
        except (WorkloadError, FileFormatError) as error:
            reason = reason or error
            continue
        return replace(found, assumptions=(f"as in the export: {_at(rest)}.",)) if rest else found
    note = f"sizes are fixed as in the export ({_at(dynamic)}): {str(reason).rstrip('.')}."
    return replace(at(hints), assumptions=(note,))


def _lifted(
    free: list[_Dynamic],
    hints: Mapping[str, int],
    at: Callable[[Mapping[str, int]], Workload],
    step: int,
) -> Workload:
    """The workload over the free symbols; those of sequences and images at multiples of step."""
    steps = [1 if d.name == "batch" else step for d in free]
    symbols = [_symbol_of(d, s) for d, s in zip(free, steps, strict=True)]
    axes = [_values(symbol) for symbol in symbols]
    # d + 1 values determine a polynomial of degree d; two more points verify.
    degrees = {d.name: 1 if d.name == "batch" else 2 for d in free}
    taken = [axis[: n + 1] for axis, n in zip(axes, degrees.values(), strict=True)]
    corners = [*itertools.product(*taken), *list(zip(*axes, strict=True))[3:]]
    points = [dict(zip(degrees, corner, strict=True)) for corner in corners]
    captures = [(point, at({**hints, **point})) for point in points]
    return lift(captures, symbols, degrees)


def _check_polynomials(
    program: Mapping[str, Any], free: list[_Dynamic], hints: Mapping[str, int], step: int
) -> None:
    """Raises WorkloadError when some size is no polynomial of degree two at multiples of step.

    Its third difference over four equal steps is then not zero. Much cheaper than building the
    workload at each point to find that out.
    """
    keys = {d.name: d.key for d in free}
    fixed = {d.key: hints[d.name] for d in free}
    for d in free:
        symbol = _symbol_of(d, 1 if d.name == "batch" else step)
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


def _symbol_of(d: _Dynamic, step: int) -> Symbol:
    first = -(-d.minimum // step) * step
    return Symbol(
        name=d.name,
        default=d.hint,
        minimum=first,
        maximum=d.maximum,
        multiple_of=step,
        about=d.about,
    )


def _values(symbol: Symbol) -> list[int]:
    """Five values within the range, the smallest first; WorkloadError when there are fewer."""
    first, step = symbol.minimum, symbol.multiple_of
    found = [first + i * step for i in (0, 1, 2, 5, 9)]
    if symbol.maximum is not None and symbol.maximum < found[-1]:
        found = [first + i * step for i in range(5)]
        if symbol.maximum < found[-1]:
            raise WorkloadError(f"{symbol.name} has too few values to be a symbol")
    return found


def _at(dynamic: list[_Dynamic]) -> str:
    return ", ".join(f"{d.name}={d.hint}" for d in dynamic)


def _dynamic_sizes(program: Mapping[str, Any]) -> list[_Dynamic]:
    graph = program["graph_module"]["graph"]
    ranges = program.get("range_constraints") or {}
    found: dict[str, _Dynamic] = {}
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
                label = _label(str(name), position, len(meta["sizes"]), taken)
                hint = (expression.get("hint") or {}).get("as_int")
                found[key] = _symbol(key, label, hint, ranges.get(key) or {}, str(name), position)
    return list(found.values())


def _label(name: str, position: int, rank: int, taken: set[str]) -> str:
    usual = {0: "batch", 1: "seq" if rank <= 3 else "", 2: "height", 3: "width"}
    label = usual.get(position, "") if rank > 1 or position == 0 else ""
    return label if label and label not in taken else f"{name}_{position}"


def _symbol(
    key: str, label: str, hint: Any, allowed: Mapping[str, Any], name: str, position: int
) -> _Dynamic:
    low, high = allowed.get("min_val"), allowed.get("max_val")
    minimum = max(low, 1) if isinstance(low, int) else 2
    maximum = high if isinstance(high, int) and high < 2**31 else None
    default = hint if isinstance(hint, int) else minimum
    about = f"dimension {position} of input {name}"
    return _Dynamic(key, label, max(default, minimum), minimum, maximum, about)
