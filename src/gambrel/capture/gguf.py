"""A GGUF file as a workload: the architecture from its metadata, the widths from its tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from gambrel.capture.weights import GgufHeader, read_gguf
from gambrel.capture.weights.gguf_config import config_of
from gambrel.capture.weights.widths import with_widths
from gambrel.errors import FileFormatError, GambrelError, InputError
from gambrel.llm.build import build
from gambrel.llm.config.read import read_config
from gambrel.llm.precision import Precisions
from gambrel.llm.recipe import Recipe
from gambrel.llm.spec import ModelSpec
from gambrel.llm.step import Step, decode, prefill
from gambrel.workload import Symbol, Workload

#: Tokens of a prompt, or in the cache, when the user does not say.
DEFAULT_TOKENS: Final = 2048

#: What stands between ops and in the cache (llama.cpp's default types).
BASE: Final = "fp16"


def gguf_spec(path: str | Path) -> tuple[ModelSpec, GgufHeader]:
    """The architecture that a GGUF file holds, and its header.

    Raises:
        FileFormatError: The header is truncated, damaged or hostile (the message names the byte),
            or describes an architecture that cannot be read from a GGUF file.
    """
    header = read_gguf(path)
    config = config_of(header)
    name = str(config.get("_name_or_path") or Path(path).stem)
    try:
        return read_config(config, name), header
    except FileFormatError:
        raise
    except GambrelError as error:
        raise FileFormatError(f"{path}: {error}") from None


def workload_from_gguf(
    path: str | Path,
    *,
    phase: str | None = None,
    sizes: Mapping[str, int | None] | None = None,
    precision: str | None = None,
) -> Workload:
    """One forward pass of the model in a GGUF file, every weight as wide as in the file.

    Args:
        path: The file; of a split model the first part.
        phase: ``"prefill"`` (the default) or ``"decode"``.
        sizes: ``batch`` (1), and ``seq`` or ``context`` (2048).
        precision: Formats of what the file does not hold, e.g. ``"kv=q8_0"``.

    Raises:
        FileFormatError: As for `gguf_spec`.
        InputError: Another phase.
    """
    spec, header = gguf_spec(path)
    step = _step(spec, phase, sizes or {})
    chosen = Precisions.parse(precision or BASE, BASE)
    built = build(spec, step, replace(chosen, name=precision or "gguf"))
    return replace(
        with_widths(built, header),
        origin=f"{header.path.name}: {len(header.tensors)} tensors, GGUF version {header.version}",
        symbols=step.symbols,
        precisions=precision or "",
        recipe=Recipe(spec=spec, precisions=chosen, phase=step.label, stored=True).text(),
    )


def _step(spec: ModelSpec, phase: str | None, sizes: Mapping[str, int | None]) -> Step:
    """The step that was asked for; its sizes are fixed, as windows are no polynomials."""
    if phase not in {None, "prefill", "decode"}:
        raise InputError(f"unknown phase {phase!r}; a model has prefill or decode.")
    length = "context" if phase == "decode" else "seq"
    values = {"batch": sizes.get("batch") or 1, length: sizes.get(length) or DEFAULT_TOKENS}
    limit = spec.max_context
    if limit is not None and values[length] > limit:
        raise InputError(
            f"{length}={values[length]}: {spec.name} was made for at most {limit} tokens."
        )
    symbols = tuple(
        Symbol(name=n, default=v, minimum=v, maximum=v, about=_ABOUT[n]) for n, v in values.items()
    )
    make: Callable[[int, int], Step] = decode if phase == "decode" else prefill
    return replace(make(values["batch"], values[length]), symbols=symbols)


_ABOUT: Final = {
    "batch": "sequences at once",
    "seq": "tokens of a prompt",
    "context": "tokens that the new one attends to",
}
