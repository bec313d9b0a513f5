"""Constants of NPUs of which nothing was measured: those of chips with the same cores, scaled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import msgspec

from gambrel.analysis.estimate.tiled_constants import TiledConstants
from gambrel.device.catalog import load as load_device
from gambrel.device.roofs import main_memory

#: A constant at so much of a roof is at it: stored ones are rounded.
AT = 0.999


def borrowed(fitted: Sequence[TiledConstants]) -> tuple[TiledConstants, ...]:
    """Snapdragon 8 Elite: between its neighbours, of which both were measured.

    Qualcomm calls its NPU 45 % faster than the one before, and the next one 37 % faster than it:
    the product, 1.99, is what lies between the fitted neighbours (1.7 to 2.0).
    """
    found = []
    for name in ("qnn", "litert", "onnxruntime"):
        before, after = (
            next((c for c in fitted if (c.runtime, c.device) == (name, d)), None)
            for d in ("snapdragon-8-gen-3", "snapdragon-8-elite-gen-5")
        )
        if before is None or after is None:
            continue

        def between(a: float, b: float) -> float:
            return float(f"{(a * b) ** 0.5:.4g}")

        found.append(
            msgspec.structs.replace(
                before,
                device="snapdragon-8-elite",
                start_s={k: between(v, after.start_s[k]) for k, v in before.start_s.items()},
                macs_per_s={
                    k: between(v, after.macs_per_s[k]) for k, v in before.macs_per_s.items()
                },
                vector_per_s=between(before.vector_per_s, after.vector_per_s),
                softmax_per_s=before.softmax_per_s
                and between(before.softmax_rate, after.softmax_rate),
                handed_per_s=before.handed_per_s
                and after.handed_per_s
                and between(before.handed_per_s, after.handed_per_s),
                activation_byte_per_s=between(
                    before.activation_byte_per_s, after.activation_byte_per_s
                ),
                ahead_byte_per_s=between(before.ahead_byte_per_s, after.ahead_byte_per_s),
                rows=0,
                models=0,
                low=round(before.low * 0.8, 3),
                high=round(before.high * 1.25, 3),
                confidence="low",
                note="nothing was measured on this chip: the geometric mean of Snapdragon 8 Gen 3 "
                "and 8 Elite Gen 5",
                held_out=None,
            )
        )
    return (*found, *_siblings(fitted))


@dataclass(frozen=True, slots=True, kw_only=True)
class Sibling:
    """A chip without rows whose cores are those of a measured one.

    Attributes:
        runtime: Under which the other was measured.
        known: The measured chip.
        macs: Multiply-adds of its core relative to the known one's, as quoted.
        vector: The same of the vector unit: where the clock makes the difference it is as much.
        ahead: Bytes of weights per second that were measured on the chip; None: see `_stream_of`.
        chips: Of the measured kind on the device.
        softmax: Measured chip whose softmaxes it has; empty: those of the known one.
        wider: Factor on both ends of the range; 1 where rows are of both chips.
        why: For the reader.
    """

    runtime: str
    known: str
    macs: float = 1.0
    vector: float = 1.0
    ahead: float | None = None
    softmax: str = ""
    chips: int = 1
    wider: float = 1.25
    why: str


#: What other networks than the fitted ones, on the phones', ask of a range beside the chip's own.
_MAC = 1.2
SIBLINGS = {
    "m1-ane": Sibling(
        runtime="coreml",
        known="apple-a14",
        ahead=60.9e9,
        wider=_MAC,
        why="the Neural Engine of the A14 of the same year, whose quoted rate it has",
    ),
    "m2-ane": Sibling(
        runtime="coreml",
        known="apple-a15",
        ahead=60e9,
        softmax="apple-a14",
        wider=_MAC,
        why="the Neural Engine of the A15, whose quoted rate it has",
    ),
    "m3-ane": Sibling(
        runtime="coreml",
        known="apple-a16",
        macs=18 / 17,
        vector=18 / 17,
        ahead=63e9,
        softmax="apple-a14",
        wider=_MAC,
        why="the Neural Engine of the A16, at 18 TOPS instead of 17",
    ),
    "m4-ane": Sibling(
        runtime="coreml",
        known="apple-a17-pro",
        macs=38 / 35,
        vector=38 / 35,
        ahead=64e9,
        softmax="apple-a14",
        wider=_MAC,
        why="the Neural Engine of the A17 Pro, at 38 TOPS instead of 35",
    ),
    "cloud-ai-100-ultra": Sibling(
        runtime="qaic",
        known="cloud-ai-100-pro",
        macs=870 / 375,
        vector=870 / 375,
        chips=4,
        why="four chips of Cloud AI 100 Pro, at 870 TOPS together instead of 375 of one",
    ),
    "rk3566": Sibling(
        runtime="rknn",
        known="rk3568",
        wider=1.0,
        why="RK3566 and RK3568 have one NPU and share the column of the table",
    ),
    "rk3576": Sibling(
        runtime="rknn",
        known="rk3588-npu",
        macs=1.5,
        why="a core of RK3588, at 3 TOPS instead of 2",
    ),
    "rv1126": Sibling(
        runtime="rknn",
        known="rv1109",
        macs=2.0 / 1.2,
        vector=2.0 / 1.2,
        why="the NPU of RV1109, at 2.0 TOPS instead of 1.2",
    ),
    "ax630c": Sibling(
        runtime="axera",
        known="ax620q",
        macs=3.2 / 2.4,
        vector=3.2 / 2.4,
        why="the NPU of AX620Q, at 3.2 TOPS instead of the 2.4 of its measured mode",
    ),
}


def _siblings(fitted: Sequence[TiledConstants]) -> list[TiledConstants]:
    """Chips whose cores are those of a measured one: rates by the quoted rate of a core.

    A bandwidth below the memory's is that of a core's port and stays: it differs by 1.3 between
    chips of 32 and 64 bits. One that is the memory's gives way to that of the chip's own. The range
    covers what is not quoted.
    """
    known = {(c.runtime, c.device): c for c in fitted}
    return [_sibling(_base(known, s), device, s) for device, s in SIBLINGS.items()]


def _base(known: Mapping[tuple[str, str], TiledConstants], s: Sibling) -> TiledConstants:
    """The measured chip, with the softmaxes of another where they are stated to be its."""
    base = known[s.runtime, s.known]
    if not s.softmax:
        return base
    rate = known[s.runtime, s.softmax].softmax_per_s
    return msgspec.structs.replace(base, softmax_per_s=rate and rate / s.vector)


def _done(s: Sibling) -> str:
    """What was not done with a chip: some have rows that are scored, and not fitted."""
    return "fitted to" if s.ahead or s.chips > 1 else "measured on"


def _sibling(c: TiledConstants, device: str, s: Sibling) -> TiledConstants:
    same = s.wider == 1
    return msgspec.structs.replace(
        c,
        device=device,
        macs_per_s={k: float(f"{v * s.macs:.4g}") for k, v in c.macs_per_s.items()},
        vector_per_s=float(f"{c.vector_per_s * s.vector:.4g}"),
        softmax_per_s=c.softmax_per_s and float(f"{c.softmax_per_s * s.vector:.4g}"),
        activation_byte_per_s=c.activation_byte_per_s * s.chips,
        ahead_byte_per_s=s.ahead or _stream_of(c, device),
        cores=c.cores and (c.cores[0], c.cores[1] * s.chips),
        rows=c.rows if same else 0,
        models=c.models if same else 0,
        low=round(c.low / s.wider, 3),
        high=round(c.high * s.wider, 3),
        confidence="low",
        note=s.why if same else f"nothing was {_done(s)} this chip: {s.why}",
        held_out=c.held_out if same else None,
    )


def _stream_of(c: TiledConstants, device: str) -> float:
    """The bandwidth for weights of a chip with the cores of a measured one."""
    measured, own = main_memory(load_device(c.device)), main_memory(load_device(device))
    if own is None or not own.byte_per_s:
        return c.ahead_byte_per_s
    at_memory = measured and measured.byte_per_s and c.ahead_byte_per_s > AT * measured.byte_per_s
    return own.byte_per_s if at_memory else min(c.ahead_byte_per_s, own.byte_per_s)
