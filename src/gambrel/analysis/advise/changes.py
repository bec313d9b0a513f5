"""The catalogue of changes: each turns a model, a device or the settings into another.

A change is a text, ``"precision=int8"`` or ``"fuse"``, that means the same in a recommendation, in
`gambrel what-if --change` and in `Analysis.with_change`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from gambrel.analysis.advise.transforms import narrow_cache, narrow_weights
from gambrel.analysis.analyze import Settings, analyze, choose_precision
from gambrel.analysis.checkpointing import checkpointed
from gambrel.analysis.estimate import Calibration
from gambrel.analysis.result import Analysis
from gambrel.device.model import Device
from gambrel.device.roofs import resolve
from gambrel.dtypes import FLOATING, PRECISIONS, parse_dtype, width_bytes
from gambrel.errors import InputError, UnknownNameError
from gambrel.ops import Conventions
from gambrel.workload import Phase, Role, Workload

_LARGEST_BATCH: Final = 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A question: a model on a device under settings.

    Attributes:
        workload: The model.
        device: The machine.
        settings: Sizes, precision (None chooses one), stack and the rest.
    """

    workload: Workload
    device: Device
    settings: Settings

    @property
    def precision(self) -> str:
        """The number format that it runs in."""
        return choose_precision(self.workload, self.device, self.settings.precision)[0]

    @property
    def sizes(self) -> dict[str, int]:
        """Every symbol with its value."""
        return self.workload.resolve_symbols(self.settings.sizes or {})

    def analyzed(self) -> Analysis:
        """The answer."""
        return analyze(self.workload, self.device, self.settings)


@dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """A kind of change.

    Attributes:
        name: Before the ``=``.
        about: What it is and what it costs; one sentence for a user.
        example: How to write it.
        apply: From a case and the text after the ``=`` to the changed case.
        propose: Values worth trying on a case, none where it does not apply.
        takes_value: Whether an ``=`` must follow.
    """

    name: str
    about: str
    example: str
    apply: Callable[[Case, str], Case]
    propose: Callable[[Case], Iterable[str]]
    takes_value: bool = True


def case_of(analysis: Analysis, calibration: Calibration | None = None) -> Case:
    """The question that an analysis answers, to ask it again with changes.

    Args:
        analysis: Of a workload.
        calibration: Constants of the expected time; None for those that come with gambrel.

    Raises:
        InputError: The analysis carries no workload.
    """
    if analysis.workload is None:
        raise InputError(f"{analysis.model.name}: this analysis has no workload to change.")
    model = analysis.model
    known = model.precision in FLOATING or model.precision in PRECISIONS
    asked = known and model.precision_reason == "as asked"
    settings = Settings(
        precision=model.precision if asked else None,
        sizes=dict(model.symbols),
        sparsity=analysis.sparsity,
        engine=analysis.engine or None,
        conventions=Conventions(**analysis.conventions),
        stack=analysis.stack,
        framework=analysis.framework,
        warm=analysis.warm,
        calibration=calibration,
    )
    return Case(workload=analysis.workload, device=analysis.hardware, settings=settings)


def apply_changes(case: Case, changes: Iterable[str]) -> Case:
    """Applies changes one after another.

    Raises:
        UnknownNameError: No such change.
        GambrelError: The model or the device does not take a change; the message says why.
    """
    for text in changes:
        name, value = parse_change(text)
        if name in CATALOGUE:
            case = CATALOGUE[name].apply(case, value)
        elif name in case.sizes:
            case = _sized(case, name, value)
        else:
            raise UnknownNameError(
                "change", text, hint=f"Use {', '.join(k.example for k in CATALOGUE.values())}."
            )
    return case


def parse_change(text: str) -> tuple[str, str]:
    """``"precision=int8"`` → ("precision", "int8"); ``"fuse"`` → ("fuse", "").

    Raises:
        InputError: A value is missing, or given where there is none.
    """
    name, equals, value = (part.strip() for part in text.partition("="))
    name = _ALIASES.get(name.lower(), name.lower())
    kind = CATALOGUE.get(name)
    if kind is not None and kind.takes_value and not value:
        raise InputError(f"change {text!r} needs a value, e.g. {kind.example}.")
    if kind is not None and not kind.takes_value and equals:
        raise InputError(f"change {text!r} takes no value; write {kind.example}.")
    return name, value


def describe_changes(changes: Sequence[str]) -> str:
    """What the changes are and what they cost, one sentence each."""
    kinds = [CATALOGUE.get(parse_change(text)[0]) for text in changes]
    return " ".join(dict.fromkeys(kind.about for kind in kinds if kind is not None))


def _with(case: Case, **settings: object) -> Case:
    return replace(case, settings=replace(case.settings, **settings))  # type: ignore[arg-type]


def _fuse(case: Case, _: str) -> Case:
    return _with(case, stack="compiled")


def _fusable(case: Case) -> Iterable[str]:
    return [""] if case.settings.stack == "eager" else []


def _sized(case: Case, name: str, text: str) -> Case:
    try:
        value = int(text)
    except ValueError:
        raise InputError(f"change {name}={text!r}: write a whole number.") from None
    return _with(case, sizes={**(case.settings.sizes or {}), name: value})


def _size(name: str) -> Callable[[Case, str], Case]:
    def apply(case: Case, text: str) -> Case:
        if name not in case.sizes:
            have = ", ".join(case.sizes) or "none"
            raise InputError(f"{case.workload.name} has no size {name!r}; it has {have}.")
        return _sized(case, name, text)

    return apply


def _batches(case: Case) -> Iterable[str]:
    """Doublings; the caller stops where they no longer pay."""
    batch = case.sizes.get("batch")
    while batch is not None and batch < _LARGEST_BATCH:
        batch *= 2
        yield str(batch)


def _precision(case: Case, text: str) -> Case:
    return _with(case, precision=parse_dtype(text))


def _precisions(case: Case) -> Iterable[str]:
    """Formats that the device has an engine for and that are no wider than the present one.

    Below 8 bits no one runs activations as well as weights; that is another change.
    """
    now = case.precision
    for precision in PRECISIONS:
        roof = resolve(case.device, "matrix", precision, engine=case.settings.engine)
        native = roof is not None and roof.dtype == precision
        if precision != now and native and 1 <= width_bytes(precision) <= width_bytes(now):
            yield precision


def _weights(case: Case, text: str) -> Case:
    return replace(case, workload=narrow_weights(case.workload, parse_dtype(text)))


def _weight_formats(case: Case) -> Iterable[str]:
    """Where weights are most of what an op reads: few rows meet each of them."""
    narrower = [d for d in ("int8", "int4") if width_bytes(d) < width_bytes(case.precision)]
    products = any(op.kind in {"matmul", "grouped_matmul"} for op in case.workload.ops)
    return narrower if products and not case.workload.training else []


def _kv(case: Case, text: str) -> Case:
    return replace(case, workload=narrow_cache(case.workload, parse_dtype(text)))


def _kv_formats(case: Case) -> Iterable[str]:
    cached = any(t.role is Role.KV_CACHE for t in case.workload.tensors)
    return ["fp8"] if cached and width_bytes(case.precision) > 1 else []


def _sparse(case: Case, _: str) -> Case:
    if not list(_sparsifiable(case)) and not case.settings.sparsity:
        raise InputError(f"{case.device.id} has no peak with sparsity in {case.precision}.")
    return _with(case, sparsity=True)


def _sparsifiable(case: Case) -> Iterable[str]:
    roof = resolve(case.device, "matrix", case.precision, engine=case.settings.engine)
    known = roof is not None and roof.ceiling.sparse_flop_per_s is not None
    return [""] if known and not case.settings.sparsity else []


def _checkpoint(case: Case, _: str) -> Case:
    return replace(case, workload=checkpointed(case.workload).workload)


def _checkpointable(case: Case) -> Iterable[str]:
    return [""] if any(op.phase is Phase.BACKWARD for op in case.workload.ops) else []


def _hardware(case: Case, text: str) -> Case:
    from gambrel.device.files import load_file
    from gambrel.device.lookup import find

    device = load_file(Path(text)) if text.endswith(".toml") else find(text).device
    return replace(case, device=device)


def _stack(case: Case, text: str) -> Case:
    from gambrel.analysis.fusion import parse_stack

    return _with(case, stack=parse_stack(text).value)


def _never(_: Case) -> Iterable[str]:
    return ()


#: By name, what costs a user least first.
CATALOGUE: Final[dict[str, Kind]] = {
    kind.name: kind
    for kind in (
        Kind(
            name="fuse",
            about="Compile the model: element-wise chains and reductions run as one kernel; costs "
            "compile time.",
            example="fuse",
            apply=_fuse,
            propose=_fusable,
            takes_value=False,
        ),
        Kind(
            name="batch",
            about="Weights are read once for more items; each batch takes longer and needs more "
            "memory.",
            example="batch=8",
            apply=_size("batch"),
            propose=_batches,
        ),
        Kind(
            name="precision",
            about="Run the whole model in this format; below 16 bits check the accuracy on your "
            "data.",
            example="precision=int8",
            apply=_precision,
            propose=_precisions,
        ),
        Kind(
            name="kv",
            about="Store the key/value cache in this format; check the accuracy on your data.",
            example="kv=fp8",
            apply=_kv,
            propose=_kv_formats,
        ),
        Kind(
            name="weights",
            about="Store the weights of matrix products in this format and multiply as before; "
            "check the accuracy on your data.",
            example="weights=int4",
            apply=_weights,
            propose=_weight_formats,
        ),
        Kind(
            name="sparsity",
            about="Prune weights to the device's structured pattern; needs retraining, and weight "
            "traffic is counted as before.",
            example="sparsity",
            apply=_sparse,
            propose=_sparsifiable,
            takes_value=False,
        ),
        Kind(
            name="checkpoint",
            about="Keep only what crosses blocks and compute the rest again in backward: less "
            "memory for more work.",
            example="checkpoint",
            apply=_checkpoint,
            propose=_checkpointable,
            takes_value=False,
        ),
        Kind(
            name="hardware",
            about="Another device.",
            example="hardware=h200",
            apply=_hardware,
            propose=_never,
        ),
        Kind(
            name="stack",
            about="Another way of making kernels of ops.",
            example="stack=epilogue",
            apply=_stack,
            propose=_never,
        ),
        *(
            Kind(
                name=name,
                about="Other sizes: another question, not the same work done faster.",
                example=example,
                apply=_size(name),
                propose=_never,
            )
            for name, example in (
                ("seq", "seq=512"),
                ("context", "context=1024"),
                ("image", "image=320"),
            )
        ),
    )
}

_ALIASES: Final = {
    "batch_size": "batch",
    "dtype": "precision",
    "kv_precision": "kv",
    "kv_cache": "kv",
    "weight_precision": "weights",
    "device": "hardware",
    "sparse": "sparsity",
    "compile": "fuse",
}
