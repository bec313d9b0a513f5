"""A candidate's outputs against the reference's: equal within a tolerance, and if not, why not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from gambrel.advise.judge.records import CandidateFinding

#: Largest error, as a share of the largest value, by number format of the output. fp32 leaves room
#: for another order of summation and for Winograd's algorithm, not for TF32 (10 bits: 5e-4).
TOLERANCE: Final = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}
#: Times the reference's own error against double precision that is allowed as well.
_OWN: Final = 10.0
#: Errors up to these are those of arithmetic with so many bits.
_NARROW: Final = ((3e-3, "TF32 or fp16"), (6e-2, "bf16"), (0.2, "fp8"))
#: Wrong elements above this share are all over the output.
_EVERYWHERE: Final = 0.9


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceOutput:
    """What the reference gives for one set of inputs.

    Attributes:
        outputs: Its tensors.
        own_error: Their largest error against double precision; 0 where that was not computed.
    """

    outputs: tuple[Any, ...]
    own_error: float


def tolerance_of(expected: ReferenceOutput) -> float:
    """Largest error that is allowed, as a share of the largest value."""
    names = [str(o.dtype).removeprefix("torch.") for o in expected.outputs]
    allowed = max((TOLERANCE.get(name, 0.0) for name in names), default=0.0)
    return max(allowed, _OWN * expected.own_error)


def error_of(found: Any, wanted: Any) -> float:
    """Largest error as a share of the largest value; infinite where values are not numbers."""
    a, b = found.double(), wanted.double()
    finite = b.isfinite()
    if not bool((a.isfinite() == finite).all()):
        return float("inf")
    if not bool(finite.any()):
        return 0.0
    difference = (a - b)[finite].abs().max()
    scale = b[finite].abs().max()
    return float(difference / scale) if scale else float(difference)


def compare(
    found: Sequence[Any], expected: ReferenceOutput, kind: str
) -> tuple[float, CandidateFinding | None]:
    """The error of one call, and what is wrong.

    Args:
        found: Outputs of the candidate.
        expected: Of the reference.
        kind: Of the inputs, for the message.
    """
    wanted = expected.outputs
    if len(found) != len(wanted):
        about = f"returns {len(found)} outputs, the reference {len(wanted)}"
        return float("inf"), CandidateFinding(name="skipped outputs", about=about)
    worst = 0.0
    for one, other in zip(found, wanted, strict=True):
        if tuple(one.shape) != tuple(other.shape):
            about = f"an output of {tuple(one.shape)} in place of {tuple(other.shape)}"
            return float("inf"), CandidateFinding(name="skipped outputs", about=about)
        if one.dtype != other.dtype:
            about = f"returns {one.dtype} in place of {other.dtype}".replace("torch.", "")
            return float("inf"), CandidateFinding(name="wrong precision", about=about)
        error = error_of(one, other)
        worst = max(worst, error)
        if error > tolerance_of(expected):
            return error, _why(one, other, error, tolerance_of(expected), kind)
    return worst, None


def _why(found: Any, wanted: Any, error: float, allowed: float, kind: str) -> CandidateFinding:
    """What kind of wrong an output is."""
    a, b = found.double(), wanted.double()
    scale = float(b[b.isfinite()].abs().max()) if bool(b.isfinite().any()) else 1.0
    wrong = ((a - b).abs() > allowed * scale) | (a.isfinite() != b.isfinite())
    share = float(wrong.double().mean())
    at = f"error {error:.1e} of the largest value on {kind}, {allowed:.0e} allowed"
    if error == float("inf"):
        return _not_finite(a, b, kind)
    if b.numel() > 1 and float(a.std()) == 0.0 and float(b.std()) > 0.0:
        return CandidateFinding(
            name="constant outputs", about=f"every value is {float(a.flatten()[0]):g}"
        )
    if share < _EVERYWHERE and _blocky(wrong):
        about = f"{share:.0%} of the values are not computed; {at}"
        return CandidateFinding(name="skipped outputs", about=about)
    narrow = next((name for most, name in _NARROW if error <= most), None)
    if narrow is not None:
        return CandidateFinding(name="wrong precision", about=f"as accurate as {narrow}; {at}")
    if _alike(a, b):
        return CandidateFinding(name="reduced work", about=f"approximates the result; {at}")
    return CandidateFinding(name="wrong result", about=at)


def _not_finite(a: Any, b: Any, kind: str) -> CandidateFinding:
    """Infinities are an overflow of a narrow format; anything else was never written."""
    strange = a[b.isfinite() & ~a.isfinite()]
    if len(strange) and bool(strange.isinf().all()):
        about = f"overflows where the reference does not, on {kind}"
        return CandidateFinding(name="wrong precision", about=about)
    about = f"values that are no numbers on {kind}: memory that was never written, or a division"
    return CandidateFinding(name="skipped outputs", about=about)


def _blocky(wrong: Any) -> bool:
    """Whether whole rows, columns or the head or tail of the output are wrong, the rest right."""
    flat = wrong.flatten()
    first = wrong.reshape(wrong.shape[0], -1).double().mean(1) if wrong.dim() else wrong
    last = wrong.reshape(-1, wrong.shape[-1]).double().mean(0) if wrong.dim() else wrong
    halves = (flat[: len(flat) // 2], flat[len(flat) // 2 :])
    by_side = wrong.dim() > 0 and any(
        bool((s == 0).any() and (s > 0.5).any()) for s in (first, last)
    )
    return by_side or any(not bool(half.any()) for half in halves if len(half))


def _alike(a: Any, b: Any) -> bool:
    """Whether two results follow each other."""
    x, y = (a - a.mean()).flatten(), (b - b.mean()).flatten()
    norm = float(x.norm() * y.norm())
    return norm > 0 and float(x @ y) / norm > 0.5
