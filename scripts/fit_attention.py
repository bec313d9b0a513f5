"""Composes what attention attains in PyTorch on AMD's GPUs from the kernels that it is made of.

    python scripts/fit_attention.py [--write]

No attention was measured there alone. Where PyTorch has a fused kernel (gfx90a, gfx942 and later,
through AOTriton since 2.3), its products are taken to attain what batched products do. Elsewhere
it calls two batched products and a softmax, whose constants are those of their own sets. Nothing is
fitted; Stable Diffusion on an MI100 (benchmarks/data/diffusion) checks it.

On Hopper the measured kernels are those of engines (FlashAttention-3), and PyTorch calls version 2:
the same set with the lower rate, its softmax included. ``--write`` stores the sets in
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import sys
from typing import Any, Final

import constants_file

FORM: Final = "torch_attention"
#: Device that holds the constants → that of the softmax between the products; None: one kernel.
DEVICES: Final = {
    "mi100": "mi100",
    "mi210": None,
    "mi300x": None,
    "rx-6800": "mi210",
    "rx-7900-xtx": "mi210",
}
#: By whether there are several kernels. Fused ones of several makes attain half to twice of it.
RANGE: Final = {True: (0.65, 1.5), False: (0.5, 2.2)}
#: The device with constants for Hopper, and what version 2 of FlashAttention attains of the peak
#: there in long sequences, softmax included (arXiv 2407.08608, abstract; 2024-07-11).
HOPPER, OF_PEAK = "h100-sxm5-80gb", 0.35
#: FLOP of the products of a query-key pair whose heads are 128 wide, as theirs are.
PAIR: Final = 4 * 128


def version_2(sets: list[dict[str, Any]]) -> dict[str, Any]:
    """Attention of many queries under PyTorch on Hopper."""
    base = next(s for s in sets if _is_measured(s))
    compute = round(OF_PEAK * (1 + base["constants"]["softmax"] / PAIR), 4)
    constants = {**base["constants"], "compute": compute}
    kept = {k: v for k, v in base.items() if k != "held_out"}
    wide = {"low": [0.7] * 4, "high": [1.5] * 4, "points": 0, "confidence": "medium"}
    return {**kept, **wide, "framework": "torch", "constants": constants, "describes": "torch"}


def _is_measured(s: dict[str, Any]) -> bool:
    key = (s["framework"], s["form"], s["device"])
    return key == ("any", "attention", HOPPER) and "bf16" in s["formats"]


def composed(sets: list[dict[str, Any]], device: str) -> dict[str, Any]:
    """The set of a device."""
    softmax_of = DEVICES[device]
    split = softmax_of is not None
    product = _of(sets, device, "torch_matmul", "bmm_half")
    constants = {name: product[name] for name in ("base_s", "compute", "memory")}
    if softmax_of is not None:
        softmax = _of(sets, softmax_of, "torch_softmax", "any")
        constants |= {"softmax": softmax["inner"], "extra": softmax["extra"]}
    low, high = RANGE[split]
    return {
        "framework": "torch",
        "form": FORM,
        "formats": ["any"],
        "device": device,
        "constants": constants,
        "points": 0,
        "low": [low] * 4,
        "high": [high] * 4,
        "confidence": "low",
        "describes": "torch",
    }


def _of(sets: list[dict[str, Any]], device: str, form: str, name: str) -> dict[str, float]:
    return next(
        s["constants"]
        for s in sets
        if s["device"] == device and s["form"] == form and name in s["formats"]
    )


def main() -> int:
    """Prints the sets."""
    content = constants_file.read()
    fresh = [composed(content["sets"], device) for device in DEVICES]
    fresh.append(version_2(content["sets"]))
    for one in fresh:
        print(one["device"], one["constants"])
    if "--write" in sys.argv[1:]:
        mine = ((FORM, None), ("attention", "torch"))
        content["sets"] = [
            s
            for s in content["sets"]
            if (s["form"], None) not in mine and (s["form"], s["framework"]) not in mine
        ] + fresh
        constants_file.write(content)
    return 0


if __name__ == "__main__":
    sys.exit(main())
