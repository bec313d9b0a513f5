"""The figures that training scripts import: FLOPs of a token, peaks, MFU."""

from __future__ import annotations

import math
import time
from functools import lru_cache
from typing import Any, Final

from gambrel import roofline
from gambrel.device.resolve import resolve_hardware
from gambrel.dtypes import parse_dtype
from gambrel.errors import DeviceError, InputError

#: Forward, and backward with two products for each of forward; with recomputation once more.
_TRAINING, _RECOMPUTED = 3, 4


def flops_per_token(model: Any, seq: int, *, training: bool = True) -> float:
    """Model FLOPs of a token, mean over a sequence: what MFU counts (FMA = 2).

    GEMMs with the LM head, the positions that attention sees (causal, windows, latent), scans, and
    of experts those that a token is sent to; nothing that is recomputed, no look-ups.

    Args:
        model: A name, a ``config.json``, its folder or content, a Hugging Face configuration.
        seq: Tokens of a sequence.
        training: Forward and backward, three times a forward pass.

    Raises:
        GambrelError: The model is not known, or the length is not a whole number above 0.
    """
    if type(seq) is not int or seq < 1:
        raise InputError(f"seq={seq!r}: give a whole number of at least 1.")
    forward = _named(model, seq) if isinstance(model, str) else _forward(model, seq)
    return forward * (_TRAINING if training else 1)


def peak(device: Any, dtype: str = "bf16") -> float:
    """Dense peak of a device in a number format, FLOP/s, as its data sheet gives it.

    Args:
        device: Name, file or `Device`.
        dtype: Number format, e.g. ``"bf16"``, ``"fp8"``.

    Raises:
        GambrelError: No such device, or no published peak in that format.
    """
    found, name = resolve_hardware(device)[0], parse_dtype(dtype)
    ceiling = found.ceiling("matrix", name)
    if ceiling is None:
        known = dict.fromkeys(c.dtype for c in found.ceilings if c.engine == "matrix")
        raise DeviceError(
            f"{found.id} publishes no matrix peak in {name}; it has {', '.join(known) or 'none'}."
        )
    return float(ceiling.flop_per_s)


def mfu(
    tokens_per_s: float,
    model: Any,
    device: Any,
    *,
    seq: int,
    devices: int = 1,
    precision: str = "bf16",
    training: bool = True,
    recompute: bool = False,
) -> float:
    """Model FLOPs utilization: model FLOPs per second over the dense peak of all devices.

    Args:
        tokens_per_s: Of all devices together.
        model: As for `flops_per_token`.
        device: As for `peak`.
        seq: Tokens of a sequence.
        devices: How many.
        precision: Of the peak.
        training: Forward and backward; else a forward pass.
        recompute: Counts the forward pass again that full recomputation adds: HFU.

    Raises:
        GambrelError: Any of its subclasses; the message says what to do.
    """
    if not (isinstance(tokens_per_s, (int, float)) and 0 <= tokens_per_s < math.inf):
        raise InputError(f"tokens_per_s={tokens_per_s!r}: give a rate of at least 0.")
    if type(devices) is not int or devices < 1:
        raise InputError(f"devices={devices!r}: give a whole number of at least 1.")
    token = flops_per_token(model, seq, training=training)
    if recompute and training:
        token *= _RECOMPUTED / _TRAINING
    return roofline.ratio(token * tokens_per_s, devices * peak(device, precision))


class Meter:
    """Utilization of a training run from the tokens that it reports.

    Args:
        model: As for `flops_per_token`.
        device: As for `peak`.
        seq: Tokens of a sequence.
        devices: How many.
        precision: Of the peak.
        recompute: Whether the forward pass is computed again (HFU differs from MFU).

    Attributes:
        tokens: Seen so far.
    """

    def __init__(
        self,
        model: Any,
        device: Any,
        *,
        seq: int,
        devices: int = 1,
        precision: str = "bf16",
        recompute: bool = False,
    ) -> None:
        self._token = flops_per_token(model, seq)
        self._peak = devices * peak(device, precision)
        self._least = self._token / (devices * _fastest(device, precision))
        self._hfu = _RECOMPUTED / _TRAINING if recompute else 1.0
        self.tokens = 0
        self._then: float | None = None

    def add(self, tokens: int) -> None:
        """Counts tokens of all devices."""
        self.tokens += tokens

    def lap(self, now: float | None = None) -> dict[str, float]:
        """Figures since the last lap; empty at the first, which starts the clock.

        Args:
            now: Seconds; None reads the clock.

        Returns:
            ``tokens_per_s``, ``mfu``, ``hfu``, and ``sol_share``: the time at the speed of light
            of the arithmetic over the time it took.
        """
        now = time.perf_counter() if now is None else now
        then, self._then = self._then, now
        tokens, self.tokens = self.tokens, 0
        if then is None or now <= then or not tokens:
            return {}
        rate = tokens / (now - then)
        share = self._token * rate / self._peak
        return {
            "tokens_per_s": rate,
            "mfu": share,
            "hfu": share * self._hfu,
            "sol_share": self._least * rate,
        }


_CACHED: Final = 256


@lru_cache(maxsize=_CACHED)
def _named(model: str, seq: int) -> float:
    return _forward(model, seq)


def _forward(model: Any, seq: int) -> float:
    from gambrel.llm.accounting import forward_flops
    from gambrel.llm.known import spec_of

    to_dict = getattr(model, "to_dict", None)
    return forward_flops(spec_of(to_dict() if callable(to_dict) else model), seq)


def _fastest(device: Any, precision: str) -> float:
    """The fastest rate that any runtime may reach; the data sheet's where that is all."""
    from gambrel.device.fastest import fastest

    roof = fastest(resolve_hardware(device)[0], "matrix", parse_dtype(precision))
    return roof.flop_per_s if roof else peak(device, precision)
