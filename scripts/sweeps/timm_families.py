"""Every family of timm, its smallest model: parameters and matrix FLOP against torch's counter.

Run ``python -m scripts.sweeps.timm_families [family ...]``. It takes a few minutes.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, Final

from gambrel.capture.torch import ensure_torchvision, lean_init

#: Family → why ours is right where it differs from torch's counter.
KNOWN: Final[dict[str, str]] = {}


def main(wanted: list[str]) -> int:
    """Compares the families, all by default; 1 where one differs."""
    ensure_torchvision()
    import timm
    from scripts.sweeps.reference import Row, compare, report

    def rows() -> Iterator[Row]:
        for family in wanted or timm.list_modules():
            names = timm.list_models(module=family)
            if names:
                name = min(names, key=_size)
                yield compare(f"{family}: {name}", lambda name=name: _build(name), KNOWN)

    return report(rows())


def _size(name: str) -> tuple[int, int, str]:
    """Small ones first, by the words in their names."""
    words = ("test", "atto", "femto", "pico", "nano", "xxs", "tiny", "xs", "small", "s", "base")
    parts = name.replace("-", "_").split("_")
    rank = next((i for i, w in enumerate(words) if w in parts), len(words))
    return rank, len(name), name


def _build(name: str) -> tuple[Any, Mapping[str, Any]]:
    import timm
    import torch

    with lean_init():
        model = timm.create_model(name)
    size = model.default_cfg.get("test_input_size") or model.default_cfg.get("input_size")
    size = model.default_cfg.get("input_size") or size or (3, 224, 224)
    return model, {"x": torch.empty((1, *size), device="meta")}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
