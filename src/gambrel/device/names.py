"""How people and drivers spell the name of a device: one key for all spellings.

`NVIDIA A100-SXM4-80GB`, `a100 sxm 80 GB` and `A100_80GB_SXM4` are the same device. A name is cut
into words, words that carry no information are dropped, and what is left is joined; a second key
with the words in alphabetic order makes the order irrelevant.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

#: Words that name the maker. They are dropped from the key, but must agree with the device.
VENDOR_WORDS: Final[dict[str, str]] = {
    "nvidia": "NVIDIA",
    "geforce": "NVIDIA",
    "tesla": "NVIDIA",
    "amd": "AMD",
    "instinct": "AMD",
    "radeon": "AMD",
    "intel": "Intel",
    "google": "Google",
    "aws": "AWS",
    "amazon": "AWS",
    "apple": "Apple",
    "qualcomm": "Qualcomm",
    "huawei": "Huawei",
    "rockchip": "Rockchip",
    "graphcore": "Graphcore",
    "tenstorrent": "Tenstorrent",
    "sambanova": "SambaNova",
    "cerebras": "Cerebras",
}

#: Makers whose clouds rent out the devices of others: "aws g5" is a card of NVIDIA.
CLOUDS: Final = frozenset({"AWS", "Google"})

#: Words that drivers and shops add and that distinguish no device in the catalog.
_NOISE: Final = frozenset(
    {"accelerator", "card", "chip", "cpu", "graphics", "gpu", "npu", "oam", "processor", "series"}
    | {"dev", "developer", "devkit", "kit", "module"}
)

_INSTANCE: Final = re.compile(r"\.(?:\d*x?large|metal(?:-\d+xl)?)\b")  # g5.12xlarge

_REWRITES: Final = (
    (re.compile(r"\((?:r|tm|c)\)|[®™©]"), " "),  # Intel(R) Xeon(R)
    (re.compile(r"@.*$"), " "),  # ... @ 2.00GHz
    (re.compile(r"\b\d+-core(?= processor)"), " "),  # EPYC 9654 96-Core Processor
    (_INSTANCE, " "),
    (re.compile(r"\bcore[ -]ultra(?=.*\bnpu\b)"), " coreultranpu "),  # beside the CPU of that name
    (re.compile(r"\bpci-?e\b"), " pcie "),
    (re.compile(r"\bsxm\d?\b"), " sxm "),  # one module generation a GPU: the digit adds nothing
    (re.compile(r"(\d+)\s*(?:gib|gb|g)\b"), r"\1gb "),
)
_WORD: Final = re.compile(r"[a-z0-9+]+")


class NameKey(msgspec.Struct, frozen=True, kw_only=True):
    """A name without its spelling.

    Attributes:
        joined: The words joined in the order given.
        ordered: The words joined in alphabetic order.
        vendors: Makers that the name mentions.
        instance: Whether it is that of a rented machine, which may hold several devices.
    """

    joined: str
    ordered: str
    vendors: frozenset[str]
    instance: bool = False

    def may_name(self, vendor: str) -> bool:
        """Whether the makers that the name mentions allow for a device of a maker."""
        return self.vendors <= {vendor} | CLOUDS

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys to look up, best first; empty when the name says nothing."""
        return tuple(dict.fromkeys(key for key in (self.joined, self.ordered) if key))


def name_key(text: str) -> NameKey:
    """Returns the key of a device name.

    Args:
        text: As a person, a driver or a datasheet writes it.
    """
    text = text.lower().replace("_", "-")
    instance = _INSTANCE.search(text) is not None
    for pattern, replacement in _REWRITES:
        text = pattern.sub(replacement, text)
    words = _WORD.findall(text)
    rest = [word for word in words if word not in VENDOR_WORDS and word not in _NOISE]
    return NameKey(
        joined="".join(rest),
        ordered="".join(sorted(rest)),
        vendors=frozenset(VENDOR_WORDS[word] for word in words if word in VENDOR_WORDS),
        instance=instance,
    )
