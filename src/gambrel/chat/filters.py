"""Which devices a question means without naming one: by maker, by class, by family, by power."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Final

from gambrel.chat.frame import Pairs
from gambrel.chat.sentence import Sentence

_VENDORS: Final = (
    "nvidia", "amd", "intel", "google", "apple", "aws", "qualcomm", "huawei", "rockchip",
    "graphcore", "tenstorrent", "sambanova", "cerebras", "hailo",
)  # fmt: skip
_CLASSES: Final = {
    r"\bedge\b|\bembedded\b": "edge",
    r"\bdata ?cent(?:er|re)\b|\bserver\b": "datacenter",
    r"\bconsumer\b|\bgaming\b": "consumer",
    r"\bworkstation\b": "workstation",
    r"\bmicrocontrollers?\b|\bmcus?\b": "microcontroller",
    r"\bcpus?\b": "cpu",
    r"\btpus?\b": "tpu",
    r"\bnpus?\b": "npu",
    r"\bgpus?\b": "gpu",
}
_FAMILIES: Final = ("jetson", "hailo", "orin")


def device_filters(sentence: Sentence) -> Pairs:
    """The filters of ``gambrel hardware list`` that a question asks for."""
    found = _named(sentence)
    limits = dict(sentence.slots.limits)
    if "power" in limits:
        found["max_tdp"] = limits["power"]
    if "memory" in limits:
        found["min_memory"] = limits["memory"]
    order = _ORDER.search(sentence.text)
    if order:
        found["sort"] = {"power": "tdp"}.get(order[1], order[1])
    return tuple(found.items())


def _named(sentence: Sentence) -> dict[str, str]:
    """Class, maker and family."""

    def first(names: Iterable[str], plural: str = "") -> str | None:
        return next((n for n in names if re.search(rf"\b{n}{plural}\b", sentence.text)), None)

    family = sentence.strangers[0] if sentence.strangers else first(_FAMILIES, "s?")
    classes = (name for pattern, name in _CLASSES.items() if re.search(pattern, sentence.text))
    named = {"category": next(classes, None), "vendor": first(_VENDORS), "text": family}
    return {key: value for key, value in named.items() if value}


_ORDER: Final = re.compile(
    r"\b(?:highest|most|largest|top|best|biggest|by|sorted)\b.*?"
    r"\b(bandwidth|memory|peak|tdp|power|ridge)\b"
)


def matching_devices(sentence: Sentence) -> tuple[str, ...]:
    """Ids of the devices among which to choose; empty for the whole catalog.

    ``gpu`` alone restricts nothing: people say it for any accelerator.
    """
    from gambrel.device.listing import Filter, list_rows

    wanted = {k: v for k, v in device_filters(sentence) if k in {"category", "vendor", "text"}}
    if wanted.get("category") == "gpu" and "vendor" not in wanted:
        del wanted["category"]
    if not wanted:
        return ()
    return tuple(sorted(row.id for row in list_rows(Filter(**wanted))))


def class_of(ids: Collection[str]) -> str | None:
    """What ``--hardware`` calls these devices at once, e.g. ``category=npu``; None for others."""
    from gambrel.device.listing import Filter, list_rows

    kinds = {"category": _CLASSES.values(), "vendor": _VENDORS, "text": _FAMILIES}
    for field, words in kinds.items():
        for word in words:
            if {row.id for row in list_rows(Filter(**{field: word}))} == set(ids):
                return f"{field}={word}"
    return None
