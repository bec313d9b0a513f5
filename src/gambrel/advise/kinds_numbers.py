"""Changes of number formats and of how many numbers there are: precision, weights, zeros."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from gambrel.advise.case import Effort, Kind, Scenario, as_built, edited, where, with_settings
from gambrel.advise.prune import prunable, pruned
from gambrel.advise.transforms import narrow_cache, narrow_weights
from gambrel.analysis.precision import casts_of
from gambrel.device.roofs import resolve
from gambrel.dtypes import PRECISIONS, parse_dtype, single_format, width_bytes
from gambrel.errors import InputError
from gambrel.ops import is_prunable
from gambrel.runtimes import takes
from gambrel.workload import Role, Workload
from gambrel.workload.formats import in_format

#: Share of channels that is proposed; more has to be asked for.
_PRUNED: Final = "30%"


def _precision(case: Scenario, text: str) -> Scenario:
    return as_built(with_settings(case, precision=single_format(text) or text))


def _precisions(case: Scenario) -> Iterable[str]:
    """Formats that the device has an engine for and that are no wider than the present one.

    Below 8 bits no one runs activations as well as weights; that is another change. A checkpoint
    with formats part by part stays as it is.
    """
    now = case.precision
    if case.by_part:
        return
    for precision in PRECISIONS:
        roof = resolve(case.device, "matrix", precision, engine=case.settings.engine)
        native = roof is not None and roof.dtype == precision
        if precision != now and native and 1 <= width_bytes(precision) <= width_bytes(now):
            yield precision


def _weights(case: Scenario, text: str) -> Scenario:
    return _with_part(case, "weights", text, narrow_weights)


def _weight_formats(case: Scenario) -> Iterable[str]:
    """Where weights are most of what an op reads: few rows meet each of them."""
    narrower = [d for d in ("int8", "int4") if width_bytes(d) < width_bytes(case.dtype)]
    products = any(op.kind in {"matmul", "grouped_matmul"} for op in case.workload.ops)
    return narrower if products and not case.workload.training else []


def _kv(case: Scenario, text: str) -> Scenario:
    return _with_part(case, "kv", text, narrow_cache)


def _with_part(
    case: Scenario, name: str, text: str, narrow: Callable[[Workload, str], Workload]
) -> Scenario:
    """The case with a part of its model in another format, or with tensors that are narrowed.

    What engines read of a language model part by part is their business, as where it is analyzed.

    Raises:
        UnknownNameError: No such format.
        InputError: The runtime does not take it.
    """
    dtype, runtime = parse_dtype(text), case.runtime
    part = f"{name}={dtype}"
    asked = ",".join(filter(None, (case.settings.precision, part)))
    built = as_built(with_settings(case, precision=asked))
    if built.workload.precisions.endswith(part):
        return built
    if not takes(runtime, dtype):
        raise InputError(
            f"{runtime.name} does not read {dtype}; it takes {', '.join(runtime.formats)}."
        )
    return edited(case, lambda workload: narrow(workload, dtype))


def _kv_formats(case: Scenario) -> Iterable[str]:
    workload = in_format(case.workload, case.precision)
    casts = casts_of(workload, case.precision)
    cached = (t.dtype for t in workload.tensors if t.role is Role.KV_CACHE)
    return ["fp8"] if any(width_bytes(casts.get(d, d)) > 1 for d in cached) else []


def _sparse(case: Scenario, _: str) -> Scenario:
    if not case.settings.sparsity:
        if not _has_sparse_peak(case):
            raise InputError(f"{case.device.id} has no peak with sparsity in {case.dtype}.")
        if not _has_prunable(case):
            raise InputError(f"{case.workload.name} has no matmuls with weights to prune.")
    return with_settings(case, sparsity=True)


def _sparsifiable(case: Scenario) -> bool:
    return not case.settings.sparsity and _has_sparse_peak(case) and _has_prunable(case)


def _has_sparse_peak(case: Scenario) -> bool:
    roof = resolve(case.device, "matrix", case.dtype, engine=case.settings.engine)
    return roof is not None and roof.ceiling.sparse_flop_per_s is not None


def _has_prunable(case: Scenario) -> bool:
    tensors = case.workload.tensors
    return any(
        is_prunable(op.kind, op.phase, [tensors[i].role for i in op.inputs[:2]])
        for op in case.workload.ops
    )


def _prune(case: Scenario, text: str) -> Scenario:
    share = _share(text)
    return edited(case, lambda workload: pruned(workload, share))


def _prunable(case: Scenario) -> Iterable[str]:
    return [_PRUNED] if prunable(case.form) else []


def _share(text: str) -> float:
    """``"30%"`` and ``"0.3"`` → 0.3."""
    try:
        value = float(text.removesuffix("%"))
    except ValueError:
        raise InputError(f"prune={text}: write a share, e.g. prune=30%.") from None
    return value / 100 if text.endswith("%") else value


PRECISION: Final = Kind(
    name="precision",
    about="Run the whole model in this format; below 16 bits check the accuracy on your data.",
    example="precision=int8",
    apply=_precision,
    propose=_precisions,
)

NUMBERS: Final = (
    Kind(
        name="kv",
        about="Store the key/value cache in this format; check the accuracy on your data.",
        example="kv=fp8",
        apply=_kv,
        propose=_kv_formats,
    ),
    Kind(
        name="weights",
        about="Store the weights of GEMMs in this format and multiply as before; "
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
        propose=where(_sparsifiable),
        takes_value=False,
        effort=Effort.RETRAIN,
    ),
    Kind(
        name="prune",
        about="Take out this share of the inner channels that no other part of the model sees; "
        "needs retraining, and costs accuracy.",
        example="prune=30%",
        apply=_prune,
        propose=_prunable,
        effort=Effort.RETRAIN,
    ),
)
