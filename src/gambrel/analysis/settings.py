"""What a user may choose besides model and device, and a question with everything resolved."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import msgspec

from gambrel.analysis.estimate.constants import Calibration
from gambrel.analysis.precision import ACTIVATIONS, check_precision
from gambrel.device.model import Device
from gambrel.device.roofs import default_precision, resolve, stand_in
from gambrel.dtypes import (
    GGUF_FORMATS,
    NETWORK_SCHEMES,
    in_groups,
    of_weights,
    parse_dtype,
    single_format,
    stored_format,
)
from gambrel.errors import InputError
from gambrel.ops import Conventions
from gambrel.runtimes import Runtime, RuntimeChoice, choose, runtime, takes
from gambrel.workload import Role, Tensor, Workload, once


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a user may choose besides model and device.

    Attributes:
        precision: Number format to run in; None chooses one and says why.
        sizes: Values for the model's symbols.
        sparsity: Use the structured-sparsity peaks.
        engine: Hold matrix work against this engine of the device only.
        conventions: How to count where the field disagrees.
        runtime: How the workload is executed; None takes the device's default.
        calibration: Constants of the expected time; None for those that come with gambrel.
        warm: The caches hold what an earlier run of the same model left; else they are empty.
        levels: Whether to look at the traffic of each memory level; a third of the work.
    """

    precision: str | None = None
    sizes: Mapping[str, int | None] | None = None
    sparsity: bool = False
    engine: str | None = None
    conventions: Conventions = field(default_factory=Conventions)
    runtime: str | None = None
    calibration: Calibration | None = None
    warm: bool = False
    levels: bool = True


class Resolved(msgspec.Struct, frozen=True, kw_only=True):
    """Settings with what they leave open decided for one workload and device.

    Attributes:
        precision: Number format.
        precision_reason: Why that one.
        runtime: How the workload is executed, and why so.
    """

    precision: str
    precision_reason: str
    runtime: RuntimeChoice


def resolved(workload: Workload, device: Device, settings: Settings) -> Resolved:
    """Decides runtime and precision.

    Args:
        workload: The model.
        device: The machine.
        settings: What was asked for.

    Raises:
        UnknownNameError: No such precision or runtime.
        InputError: The device or the runtime lacks what was asked for.
    """
    check_asked(device, settings)
    said = asked = settings.precision or workload.asked_precision
    if asked is not None and in_groups(asked) == workload.precisions:
        asked = workload.precisions
    if asked is not None and asked != workload.precisions:
        # Of a language model: built in one format for all; of others: what compilers of NPUs take.
        one = (
            of_weights(asked) if is_language_model(workload) else NETWORK_SCHEMES.get(asked.lower())
        )
        asked = one or asked
    known = asked if asked is None or asked == workload.precisions else parse_dtype(asked)
    packed = workload.precisions in GGUF_FORMATS  # only some runtimes read them
    single = known if packed or not workload.precisions else single_format(settings.precision)
    language = runs_as_language(workload, settings.runtime)
    stored = stored_format(workload.precisions) if language else None
    chosen = choose(
        device,
        settings.runtime,
        precision=single,
        weights=stored,
        language=language,
        training=workload.training if settings.runtime else workload.needs_trainer,
    )
    precision, reason = choose_precision(workload, device, asked, chosen.runtime)
    # An engine of one format takes w4a16 as its int4, one with groups stores the table in them.
    if said != asked and reason in (ASKED, BY_PART):
        reason = f"{ASKED}: {said} is {precision} here"
    return Resolved(precision=precision, precision_reason=reason, runtime=chosen)


def asked_of(workload: Workload, precision: str | None) -> str | None:
    """A number format that was asked for, as a model was built in it; None for the model's own."""
    return precision and (workload.precisions or precision)


def layers_of(
    device: Device, requested: str | None, precision: str | None, *, language: bool
) -> str:
    """Whose layers of a model run, as `Runtime.layers` has it: those of the runtime that it gets.

    Args:
        device: The machine.
        requested: Name of a runtime; None: the device's default.
        precision: As it was asked for.
        language: Whether it is a phase of a language model.

    Raises:
        UnknownNameError: No such runtime.
        InputError: The runtime does not run there, or none runs the format.
    """
    if not language:
        return "code"
    if requested is not None:
        return choose(device, requested, language=True).runtime.layers
    single, stored = single_format(precision), stored_format(precision)
    return choose(device, precision=single, weights=stored, language=True).runtime.layers


@once
def is_language_model(workload: Workload) -> bool:
    """Whether the workload is a phase of an autoregressive language model.

    A pass of an encoder and its decoder at once is none: it reads a whole ``target``; neither is
    one inside ``torch.autocast``, which no engine runs.
    """
    if workload.training or workload.is_autocast:
        return False
    if any(symbol.name == "target" for symbol in workload.symbols):
        return False
    if any(t.role in (Role.KV_CACHE, Role.STATE) for t in workload.tensors):
        return True
    causal = any(
        op.attrs.get("causal") if op.kind == "attention" else op.kind.endswith("_scan")
        for op in workload.ops
    )
    return causal and any(_is_logits(workload.tensors[i]) for i in workload.outputs)


def runs_as_language(workload: Workload, requested: str | None) -> bool:
    """Whether it is such a phase, or what a serving engine that was asked for takes for one.

    That is a layer of one, or an encoder.
    """
    if is_language_model(workload):
        return True
    if requested is None or runtime(requested).language is not True:
        return False
    return not any(op.kind.startswith("convolution") for op in workload.ops)


#: Vocabularies of language models are larger than this, embeddings of text encoders narrower.
_VOCABULARY: Final = 10_000


def _is_logits(tensor: Tensor) -> bool:
    last = tensor.shape[-1] if tensor.shape else 0
    return isinstance(last, int) and last >= _VOCABULARY


#: Why a format: the user named it.
ASKED: Final = "as asked"
#: Of one that the model was built with.
BY_PART: Final = "part by part"


def choose_precision(
    workload: Workload, device: Device, requested: str | None, runtime: Runtime
) -> tuple[str, str]:
    """The number format to run in, and why.

    What the model was built with part by part (asked for, or the checkpoint's own); what the user
    asks for; the dtype that the user's
    own module or file has; else, for an architecture from the zoo, the format that the device's
    engine is made for. A runtime that lacks the format takes its own first one instead, unless the
    user asked, and one that computes fp32 in 16 bits on the device takes those.
    """
    if workload.precisions and requested in (None, workload.precisions):
        return _part_by_part(workload, device)
    if requested is not None:
        precision = parse_dtype(requested)
        check_precision(workload.dtype, precision)
        forced = precision == "fp32" and runtime.halved(device)
        return precision, f"{ASKED}; {runtime.name} takes fp16 otherwise" if forced else ASKED
    if workload.chosen_dtype:
        precision, reason = workload.dtype, "the model's own"
        other = stand_in(device, precision)
        if other != precision:
            reason = f"{device.id} has no {precision} engine; another can be given"
            precision = other
    else:
        precision, reason = default_precision(device)
        reason = f"{reason.rstrip('.')}; another can be given"
    if precision == "fp32" and runtime.halved(device):
        return "fp16", f"{runtime.name} computes fp32 in 16 bits here; fp32 can be asked for"
    # Without a roof nothing says that it computes fp32, in which models are when none is named.
    roofless = bool(runtime.formats) and not device.ceilings and precision == "fp32"
    if takes(runtime, precision) and not roofless:
        return precision, reason
    own = next((f for f in runtime.formats if resolve(device, "matrix", f)), runtime.formats[0])
    if takes(runtime, precision):
        why = f"the first format of {runtime.name}; {device.id} publishes no compute roof"
        return own, f"{why}; another can be given"
    return own, f"{runtime.name} does not run {precision}; another can be given"


def _part_by_part(workload: Workload, device: Device) -> tuple[str, str]:
    """The formats that the model was built with, in the 16 bits that the device multiplies."""
    parts, own = workload.precisions, workload.dtype
    other = stand_in(device, own)
    if other == own or ACTIVATIONS in parts:
        return parts, BY_PART
    return f"{parts},{ACTIVATIONS}{other}", f"{device.id} has no {own} engine"


def check_asked(device: Device, settings: Settings) -> None:
    """Refuses an engine or a sparsity that was asked for and that the device lacks.

    Raises:
        InputError: It lacks one.
    """
    engine, have = settings.engine, list(dict.fromkeys(c.engine for c in device.ceilings))
    if engine is not None and have and engine not in (*have, "any") and "any" not in have:
        raise InputError(f"{device.id} has no engine {engine!r}; it has {', '.join(have)}.")
    if settings.sparsity and have and not any(c.sparse_flop_per_s for c in device.ceilings):
        raise InputError(f"{device.id} publishes no peak with structured sparsity.")
