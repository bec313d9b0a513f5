"""The runtimes that gambrel knows, and which of them a question gets."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from gambrel.closest import closest
from gambrel.device.model import Device
from gambrel.dtypes import GGUF_FORMATS
from gambrel.errors import FileFormatError, InputError, UnknownNameError
from gambrel.runtimes.model import Default, Kernels, Runtime, matches

#: Made of the TOML files beside it: they are read in every first answer, and JSON is quicker.
BUILT: Final = Path(__file__).with_name("runtimes.json")
#: What runs where nothing more specific is known.
FALLBACK = "pytorch"
#: Similarity from which on a name may be what was meant.
_ALIKE = 70
#: Categories of devices of which nothing but their roofs is known.
_UNDESCRIBED = ("", "custom")


class RuntimeChoice(msgspec.Struct, frozen=True, kw_only=True):
    """A runtime and why.

    Attributes:
        runtime: The runtime.
        reason: Why that one; one clause.
    """

    runtime: Runtime
    reason: str


@lru_cache(maxsize=1)
def runtimes() -> dict[str, Runtime]:
    """All runtimes by id, in alphabetical order.

    Raises:
        FileFormatError: What is built from the files is missing or broken.
    """
    try:
        return msgspec.json.decode(BUILT.read_bytes(), type=dict[str, Runtime])
    except (OSError, msgspec.DecodeError) as error:
        advice = "python scripts/build_catalog.py --index"
        raise FileFormatError(f"cannot read {BUILT}: {error}; build it: '{advice}'.") from None


def read_files() -> dict[str, Runtime]:
    """All runtimes as their files say, of which `BUILT` is made.

    Raises:
        FileFormatError: A file is broken.
    """
    found = (_read(path) for path in sorted(BUILT.parent.glob("*.toml")))
    return {runtime.id: runtime for runtime in found}


def runtime(name: str) -> Runtime:
    """A runtime by name or alias.

    Raises:
        UnknownNameError: No such runtime; the closest names are given.
    """
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    known = runtimes()
    if key in known:
        return known[key]
    for one in known.values():
        if key in one.aliases:
            return one
    names = [name for one in known.values() for name in (one.id, *one.aliases)]
    near = closest(key, list(dict.fromkeys(names)), 3, _ALIKE)
    hint = "Run 'gambrel runtimes list', or leave it out for the device's usual one."
    raise UnknownNameError("runtime", name, near, hint=hint)


def named(name: str, device: Device) -> Runtime:
    """A runtime by name or alias, on a device: where a part of it runs there, that part.

    ``onnxruntime`` is its CUDA execution provider on NVIDIA's cards, and ``vllm`` on a TPU what
    has that alias there.

    Raises:
        UnknownNameError: No such runtime.
    """
    found = runtime(name)
    meant = (r for r in runtimes().values() if found.id in (r.part_of, *r.aliases))
    return next((r for r in meant if matches(r.runs_on, device)), found)


def following(now: Runtime, move: str, device: Device) -> Runtime | None:
    """The runtime of the same software that is ``fused`` or ``recorded``; None without one there.

    Args:
        now: The present one.
        move: One of these words.
        device: Where it must run.
    """
    after: str = getattr(now, move)
    found = runtimes().get(after)
    return found if found is not None and matches(found.runs_on, device) else None


def on_device(
    device: Device, *, language: bool = False, training: bool = False
) -> tuple[Runtime, ...]:
    """The runtimes that run on a device; of one that has a part there, the part.

    Args:
        device: The machine.
        language: Whether a phase of a language model is to run.
        training: Whether a training step is to run.
    """
    there = [
        r
        for r in runtimes().values()
        if matches(r.runs_on, device) and _is_for(r, language=language, training=training)
    ]
    replaced = {r.part_of for r in there}
    return tuple(r for r in there if r.id not in replaced)


def choose(
    device: Device,
    requested: str | None = None,
    *,
    precision: str | None = None,
    weights: str | None = None,
    language: bool = False,
    training: bool = False,
) -> RuntimeChoice:
    """The runtime that a user names, else what people use on that device.

    Args:
        device: The machine.
        requested: Name of a runtime; None chooses.
        precision: Number format that was asked for; None: any.
        weights: That of the weights of a language model built part by part; decides defaults alone.
        language: Whether a phase of a language model is to run.
        training: Whether a training step is to run.

    Raises:
        UnknownNameError: No such runtime.
        InputError: The runtime does not run on the device, or not in that format.
    """
    if requested is not None:
        found = named(requested, device)
        check_runs(found, device, precision, language=language, training=training)
        return RuntimeChoice(runtime=found, reason="as asked")
    found_for = (
        pair
        for pair in _defaults(device, precision, language, weights)
        if pair[1].trains or not training
    )
    ranked = sorted(found_for, key=lambda pair: pair[0].rank)
    if ranked:
        found = ranked[0][1]
        what = " for language models" if ranked[0][0].language else ""
        return RuntimeChoice(runtime=found, reason=f"the default on {device.id}{what}")
    own = [r for r in on_device(device, language=language, training=training) if r.runs_on]
    if training:
        _check_trains(device)
    if not own or device.category in _UNDESCRIBED:
        return RuntimeChoice(
            runtime=runtimes()[FALLBACK], reason="no other is known for this device"
        )
    able = [r for r in own if precision is None or takes(r, precision)]
    if not able:
        formats = "; ".join(f"{r.name} takes {', '.join(r.formats)}" for r in own if r.formats)
        if precision in GGUF_FORMATS:
            formats = "it is a format of GGUF files that engines for language models read"
        raise InputError(f"no runtime on {device.id} runs {precision}: {formats}.")
    return RuntimeChoice(runtime=able[0], reason=f"the one on {device.id} that runs {precision}")


def candidates(
    device: Device,
    precision: str | None = None,
    *,
    language: bool = False,
    training: bool = False,
) -> tuple[Runtime, ...]:
    """The runtimes that people may take on a device, its default first.

    Thought experiments are left out, and so is one that names no devices where nobody uses it.

    Args:
        device: The machine.
        precision: Number format that was asked for; None: any.
        language: Whether a phase of a language model is to run.
        training: Whether a training step is to run.
    """
    default = choose(device, precision=precision, language=language, training=training).runtime
    others = _usable(device, precision, language=language, training=training)
    return tuple({r.id: r for r in (default, *others)}.values())


def _usable(
    device: Device, precision: str | None, *, language: bool, training: bool = False
) -> list[Runtime]:
    """Those that name the device or are usual there, without thought experiments."""
    return [
        r
        for r in on_device(device, language=language, training=training)
        if r.kernels is not Kernels.WHOLE
        and (precision is None or takes(r, precision))
        and (r.runs_on or any(matches(d.devices, device) for d in r.default_for))
    ]


def _beside(found: Runtime, device: Device) -> str:
    """A part of the same chip that a runtime runs on, as the Neural Engine beside a Mac's GPU."""
    from gambrel.device.catalog import index, load

    parts = (id_ for id_ in sorted(index().vendors) if id_.startswith(f"{device.id}-"))
    return next((id_ for id_ in parts if matches(found.runs_on, load(id_))), "")


def check_runs(
    found: Runtime,
    device: Device,
    precision: str | None = None,
    *,
    language: bool = False,
    training: bool = False,
) -> None:
    """Refuses what a runtime cannot do.

    A device of two numbers (``--peak``, ``--bandwidth``) may be anything, and is not refused.

    Raises:
        InputError: The runtime does not run on the device, or not in that format.
    """
    described = device.category not in _UNDESCRIBED
    if described and not matches(found.runs_on, device):
        others = _others(device, language=language)
        beside = _beside(found, device)
        where = f"; it does on {beside}" if beside else ""
        raise InputError(f"{found.name} does not run on {device.id}{where}; choose from {others}.")
    if found.language not in (None, language):
        what = "language models only" if found.language else "no phases of language models"
        others = _others(device, language=language)
        raise InputError(f"{found.name} runs {what}; choose from {others} on {device.id}.")
    if training and not found.trains:
        _check_trains(device)
        able = on_device(device, training=True)
        others = ", ".join(r.id for r in able if r.kernels is not Kernels.WHOLE)
        raise InputError(f"{found.name} runs no training steps; choose from {others}.")
    if precision is not None and not takes(found, precision):
        what = ", ".join(found.formats) or "formats of the device, not those of GGUF files"
        others = _others(device, precision, language=language)
        more = f", and on {device.id} {others} would" if others and described else ""
        raise InputError(f"{found.name} does not run {precision}; it takes {what}{more}.")


def _check_trains(device: Device) -> None:
    """Refuses a training step on a device whose own runtimes are all for inference.

    Raises:
        InputError: Which these are, and where to train.
    """
    own = [r for r in on_device(device) if r.runs_on]
    if own and not any(r.trains for r in own) and not _usual(device):
        names = ", ".join(r.name for r in own)
        raise InputError(
            f"{device.id} is for inference: no software trains on it, or casts as torch.autocast "
            f"does ({names}). Choose a GPU, a TPU or a CPU, e.g. --hardware h100."
        )


def _usual(device: Device) -> bool:
    """Whether people use a runtime that trains there."""
    return any(
        r.trains and any(matches(d.devices, device) for d in r.default_for)
        for r in runtimes().values()
    )


def _is_for(found: Runtime, *, language: bool, training: bool) -> bool:
    return found.language in (None, language) and (found.trains or not training)


def _others(device: Device, precision: str | None = None, *, language: bool) -> str:
    """Names of what runs there instead: engines for language models where there are any."""
    there = _usable(device, precision, language=language)
    return ", ".join(r.id for r in [r for r in there if r.language] or there)


def takes(found: Runtime, precision: str) -> bool:
    """Whether a runtime computes in a format; formats part by part are the engine's business.

    Blocks, as GGUF files hold them, are read by few engines for language models only.
    """
    if precision in GGUF_FORMATS:
        read = found.gguf == ("all",) or precision in found.gguf
        return read or found.kernels is Kernels.WHOLE
    return not found.formats or precision in found.formats or "," in precision or "=" in precision


def _defaults(
    device: Device, precision: str | None, language: bool, weights: str | None = None
) -> Iterator[tuple[Default, Runtime]]:
    for found in runtimes().values():
        if found.language not in (None, language):
            continue
        for default in found.default_for:
            if (
                matches(default.devices, device)
                and matches(found.runs_on, device)
                and default.language in (None, language)
                and (
                    not default.formats
                    or precision in default.formats
                    or (default.language and weights in default.formats)
                )
                and (precision is None or takes(found, precision))
            ):
                yield default, found


def _read(path: Path) -> Runtime:
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        sources = content.pop("sources", {})
        return msgspec.convert(_with_sources(content, sources), Runtime)
    except (OSError, tomllib.TOMLDecodeError, msgspec.ValidationError, KeyError) as error:
        raise FileFormatError(f"cannot read the runtime {path}: {error}.") from None


def _with_sources(value: object, sources: dict[str, object]) -> object:
    """The same tables with the names of sources replaced by what they stand for."""
    if isinstance(value, list):
        return [_with_sources(item, sources) for item in value]
    if isinstance(value, dict):
        return {
            k: sources[v] if k == "source" and isinstance(v, str) else _with_sources(v, sources)
            for k, v in value.items()
        }
    return value
