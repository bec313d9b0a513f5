"""The names that questions may hold: every spelling of a model or device, as one key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

#: Least similarity (0 to 100) at which a misspelt name is taken for a known one.
SIMILAR: Final = 84
#: By how much the best must lead before it is taken.
LEAD: Final = 4
#: Shorter names differ by a letter from too many others.
_SHORTEST: Final = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A model or a device that a text names.

    Attributes:
        kind: ``"model"`` or ``"device"``.
        name: Canonical.
        phase: That the name itself says, for a language model.
        also: Others that the same name stands for.
    """

    kind: str
    name: str
    phase: str = ""
    also: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """All spellings.

    Attributes:
        models: Key → model; a key is letters and digits only.
        devices: Key → device; a key as `gambrel.device.names.name_key` makes it.
        phases: Model → its phases; models with one forward pass are absent.
        vendors: Device → maker.
    """

    models: Mapping[str, Named]
    devices: Mapping[str, Named]
    phases: Mapping[str, tuple[str, ...]]
    vendors: Mapping[str, str]
    by_digits: Mapping[str, tuple[str, ...]] = field(repr=False)

    def find(self, text: str) -> Named | None:
        """The model or device of exactly this name, in any spelling."""
        model = self.models.get(plain(text))
        return model if model is not None else self._device(text)

    def _device(self, text: str) -> Named | None:
        from gambrel.device.names import name_key

        key = name_key(text)
        for spelling in key.keys:
            found = self.devices.get(spelling)
            if found is not None and key.vendors <= {self.vendors[found.name]}:
                return found
        return None

    def similar(self, text: str) -> Named | None:
        """The one name that a misspelling must mean: same digits, nearly the same letters."""
        ranked = self._ranked(text)
        if not ranked or ranked[0][1] < SIMILAR:
            return None
        best = self._of(ranked[0][0])
        rivals = [score for key, score in ranked if self._of(key).name != best.name]
        return None if rivals and ranked[0][1] - rivals[0] < LEAD else best

    def closest(self, text: str, count: int = 4) -> tuple[str, ...]:
        """Names to offer for one that is unknown: those it begins, then similar ones."""
        from rapidfuzz import fuzz, process

        key = plain(text)
        begun = [named.name for k, named in self._all().items() if key and k.startswith(key)]
        if begun:
            return tuple(dict.fromkeys(begun))[: count + 2]
        hits = process.extract(key, list(self._all()), scorer=fuzz.ratio, limit=8, score_cutoff=60)
        return tuple(dict.fromkeys(self._of(k).name for k, _, _ in hits))[:count]

    def begins(self, text: str) -> bool:
        """Whether names of several models or devices begin with this."""
        key = plain(text)
        return (
            len(key) >= 3 and len({n.name for k, n in self._all().items() if k.startswith(key)}) > 1
        )

    def _ranked(self, text: str) -> list[tuple[str, float]]:
        from rapidfuzz import fuzz, process

        key = plain(text)
        if len(key) < _SHORTEST:
            return []
        same = self.by_digits.get(digits(key), ())
        hits = process.extract(key, same, scorer=fuzz.ratio, limit=6, score_cutoff=70)
        return [(name, score) for name, score, _ in hits]

    def _all(self) -> dict[str, Named]:
        return {**self.devices, **self.models}

    def _of(self, key: str) -> Named:
        return self.models[key] if key in self.models else self.devices[key]


def phases_of(name: str) -> tuple[str, ...]:
    """The phases of a model; empty for one with a single forward pass.

    Files of language models have both.
    """
    if name.lower().endswith(LANGUAGE_FILES):
        return _phases_of_file(name)
    return names().phases.get(name, ())


def _phases_of_file(name: str) -> tuple[str, ...]:
    """Those of a decoder, also where the file cannot be read, which the analysis then says."""
    from gambrel.errors import GambrelError
    from gambrel.llm.known import spec_of

    both = ("prefill", "decode")
    if name.lower().endswith(".gguf"):
        return both
    try:
        spec = spec_of(name)
    except GambrelError:
        return both
    crossed = any(group.layer.cross is not None for group in spec.layers)
    return both if spec.causal and not crossed else ()


#: Files that hold the sizes of a language model.
LANGUAGE_FILES: Final = (".gguf", ".json")


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
    by_digits: dict[str, list[str]] = {}
    for key in (*models, *devices):
        by_digits.setdefault(digits(key), []).append(key)
    return Names(
        models=models,
        devices=devices,
        phases=phases,
        vendors=vendors,
        by_digits={k: tuple(v) for k, v in by_digits.items()},
    )


def _models() -> tuple[dict[str, Named], dict[str, tuple[str, ...]]]:
    from gambrel.capture.zoo import list_models, phase_of

    found: dict[str, Named] = {}
    phases: dict[str, tuple[str, ...]] = {}
    for entry in list_models():
        phase = phase_of(entry.name) or ""
        base = entry.name.removesuffix(f"-{phase}") if phase else entry.name
        if phase:
            phases[base] = (*phases.get(base, ()), phase)
            found[plain(entry.name)] = Named(kind="model", name=base, phase=phase)
        for alias in (base, *entry.aliases):
            found.setdefault(plain(alias), Named(kind="model", name=base))
    for name in _language_names():
        if plain(name) not in found:
            found[plain(name)] = Named(kind="model", name=name)
            phases[name] = ("prefill", "decode")
    return found, phases


def _language_names() -> tuple[str, ...]:
    """Language models that are built in by their configuration alone."""
    from gambrel.llm import known

    return known.names()


def _devices() -> tuple[dict[str, Named], dict[str, str]]:
    from gambrel.device import catalog
    from gambrel.device.lookup import user_devices
    from gambrel.device.names import name_key

    known = catalog.index()
    found = {k: Named(kind="device", name=name) for k, name in known.names.items()}
    for key, (first, *others) in known.ambiguous.items():
        found[key] = Named(kind="device", name=first, also=tuple(others))
    vendors = dict(known.vendors)
    for device in user_devices()[0]:
        vendors[device.id] = device.vendor
        for name in (device.id, device.name, *device.aliases):
            for key in name_key(name).keys:
                found[key] = Named(kind="device", name=device.id)
    return found, vendors
