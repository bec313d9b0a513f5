"""The names that questions may hold: every spelling of a model or device, as one key."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gambrel.device.model import Device

#: Least similarity (0 to 100) at which a misspelt name is taken for a known one.
SIMILAR: Final = 84
#: By how much the best must lead before it is taken.
LEAD: Final = 4
#: Shorter names differ by a letter from too many others.
_SHORTEST: Final = 5
#: Files that hold the sizes of a language model.
LANGUAGE_FILES: Final = (".gguf", ".json")
_BOTH: Final = ("prefill", "decode")


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A model or a device that a text names.

    Attributes:
        kind: ``"model"`` or ``"device"``.
        name: Canonical.
        phase: That the name itself says, for a language model.
        also: Others that the same name stands for.
        completed: Whether a name that only begins like it is meant.
    """

    kind: str
    name: str
    phase: str = ""
    also: tuple[str, ...] = ()
    completed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """All spellings.

    Attributes:
        keys: Key → what it names; letters and digits for a model, for a device as
            `gambrel.device.names.name_key` makes it.
        phases: Model → its phases; models with one forward pass are absent.
        vendors: Device → maker.
    """

    keys: Mapping[str, Named]
    phases: Mapping[str, tuple[str, ...]]
    vendors: Mapping[str, str]
    by_digits: Mapping[str, tuple[str, ...]] = field(repr=False)

    def find(self, text: str) -> Named | None:
        """The model or device of exactly this name, in any spelling."""
        from gambrel.device.names import name_key

        model = self.keys.get(plain(text))
        if model is not None and model.kind == "model":
            return model
        key = name_key(text)
        for spelling in key.keys:
            found = self.keys.get(spelling)
            device = found is not None and found.kind == "device"
            if found and device and key.vendors <= {self.vendors[found.name]}:
                return found
        return None

    def similar(self, text: str) -> Named | None:
        """The one name that a misspelling must mean: same digits, nearly the same letters."""
        from rapidfuzz import fuzz, process

        key = plain(text)
        if len(key) < _SHORTEST:
            return None
        same = self.by_digits.get(digits(key), ())
        hits = process.extract(key, same, scorer=fuzz.ratio, limit=6, score_cutoff=SIMILAR - LEAD)
        if not hits or hits[0][1] < SIMILAR:
            return None
        best = self.keys[hits[0][0]]
        rivals = [score for k, score, _ in hits if self.keys[k].name != best.name]
        return None if rivals and hits[0][1] - rivals[0] < LEAD else best

    def closest(self, text: str, count: int = 4) -> tuple[str, ...]:
        """Names to offer for one that is unknown: those it begins, then similar ones."""
        from rapidfuzz import fuzz, process

        key = plain(text)
        begun = self._begun(key)
        if begun:
            return begun[: count + 2]
        hits = process.extract(key, list(self.keys), scorer=fuzz.ratio, limit=8, score_cutoff=60)
        return tuple(dict.fromkeys(self.keys[k].name for k, _, _ in hits))[:count]

    def begins(self, text: str) -> bool:
        """Whether names of several models or devices begin with this."""
        key = plain(text)
        return len(key) >= 3 and len(self._begun(key)) > 1

    def _begun(self, key: str) -> tuple[str, ...]:
        return tuple(
            dict.fromkeys(n.name for k, n in self.keys.items() if key and k.startswith(key))
        )


def phases_of(name: str) -> tuple[str, ...]:
    """The phases of a model; empty for one with a single forward pass.

    Files of decoders have both, also where they cannot be read, which the analysis then says.
    """
    if not name.lower().endswith(LANGUAGE_FILES):
        return names().phases.get(name, ())
    from gambrel.errors import GambrelError
    from gambrel.llm.known import spec_of

    if name.lower().endswith(".gguf"):
        return _BOTH
    try:
        spec = spec_of(name)
    except GambrelError:
        return _BOTH
    crossed = any(group.layer.cross is not None for group in spec.layers)
    return _BOTH if spec.causal and not crossed else ()


def plain(text: str) -> str:
    """Letters and digits only, lower case."""
    return re.sub(r"[^a-z0-9]", "", text.lower())


def digits(text: str) -> str:
    """The numbers of a name: ``"yolov8n"`` → ``"8"``; those of two names must be the same."""
    return "".join(c for c in text if c.isdigit())


@lru_cache(maxsize=1)
def names() -> Names:
    """Those of the built-in models and the catalog, and the user's own devices."""
    models, phases = _models()
    devices, vendors = _devices()
    keys = devices | models
    by_digits: dict[str, list[str]] = {}
    for key in keys:
        by_digits.setdefault(digits(key), []).append(key)
    return Names(
        keys=keys,
        phases=phases,
        vendors=vendors,
        by_digits={k: tuple(v) for k, v in by_digits.items()},
    )


def _models() -> tuple[dict[str, Named], dict[str, tuple[str, ...]]]:
    from gambrel.capture import pipelines
    from gambrel.capture.zoo import list_models, phase_of
    from gambrel.llm import known

    found: dict[str, Named] = {}
    phases: dict[str, tuple[str, ...]] = {}
    for entry in (*list_models(), *pipelines.summaries()):
        phase = phase_of(entry.name) or ""
        base = entry.name.removesuffix(f"-{phase}") if phase else entry.name
        if phase:
            phases[base] = (*phases.get(base, ()), phase)
            found[plain(entry.name)] = Named(kind="model", name=base, phase=phase)
        for alias in (base, *entry.aliases):
            found.setdefault(plain(alias), Named(kind="model", name=base))
    for name, spelt in known.spellings().items():
        # Those built in by their configuration alone are known by their own name.
        canonical = next((found[plain(n)].name for n in spelt if plain(n) in found), name)
        phases.setdefault(canonical, _BOTH)
        for spelling in spelt:
            found.setdefault(plain(spelling), Named(kind="model", name=canonical))
    return found, phases


def _devices() -> tuple[dict[str, Named], dict[str, str]]:
    from gambrel.device import catalog
    from gambrel.device.lookup import user_devices

    known = catalog.index()
    found = {k: Named(kind="device", name=n, completed=True) for k, n in known.stems.items()}
    found |= {k: Named(kind="device", name=name) for k, name in known.names.items()}
    for key, (first, *others) in known.ambiguous.items():
        found[key] = Named(kind="device", name=first, also=tuple(others))
    own = user_devices()[0]
    found |= {key: Named(kind="device", name=device.id) for device in own for key in _keys(device)}
    return found, dict(known.vendors) | {device.id: device.vendor for device in own}


def _keys(device: Device) -> Iterator[str]:
    from gambrel.device.names import name_key

    for name in (device.id, device.name, *device.aliases):
        yield from name_key(name).keys
