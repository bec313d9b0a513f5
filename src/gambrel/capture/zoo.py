"""The embedded zoo: well-known models as stored workloads, found by the names people use.

Each file of ``zoo_files`` was captured from the real architecture by ``scripts/build_zoo.py``.
Reading one needs neither torch nor numpy. A model with two phases (a language model: reading the
prompt, then writing token by token) has two entries, ``llama-3-8b-prefill`` and
``llama-3-8b-decode``; the plain name means the first.
"""

from __future__ import annotations

import re
from collections.abc import Set
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from gambrel.closest import closest, family
from gambrel.errors import InputError, UnknownNameError
from gambrel.workload.model import Workload, WorkloadSummary
from gambrel.workload.serialize import load_workload

FOLDER: Final = Path(__file__).parent / "zoo_files"
INDEX: Final = "index.json"

#: Phases that a model may come in, the one that its plain name means first.
PHASES: Final = ("prefill", "decode")

#: Entries that are kept in memory.
_KEPT: Final = 8

_LIST_HINT: Final = (
    "Run 'gambrel models list', or give the model's .onnx file, its config.json or --hub org/name."
)
#: Similarity from 0 to 100 below which another network is meant.
_NEAR: Final = 84
#: Names that a refusal offers.
_OFFERED: Final = 3


@lru_cache(maxsize=1)
def list_models() -> tuple[WorkloadSummary, ...]:
    """All entries, by family and name, without loading any."""
    data = (FOLDER / INDEX).read_bytes()
    return tuple(msgspec.json.decode(data, type=list[WorkloadSummary]))


def search(text: str | None = None, family: str | None = None) -> tuple[WorkloadSummary, ...]:
    """The entries and pipelines whose name, family or alias contains a text; loads none.

    Args:
        text: Part of a name; None does not filter.
        family: A whole family name; None does not filter.
    """
    from gambrel.capture import pipelines

    return tuple(
        m
        for m in (*list_models(), *pipelines.summaries())
        if (not text or text.lower() in " ".join((m.name, m.family, *m.aliases)).lower())
        and (not family or family.lower() == m.family.lower())
    )


def find(name: str, phase: str | None = None) -> tuple[WorkloadSummary, str]:
    """The entry that a name means.

    Args:
        name: As people write it: ``"ResNet-50"``, ``"yolo v8 n"``, ``"bert base"``,
            ``"meta-llama/Meta-Llama-3-8B"``. Case, spaces, dots, dashes and an organization before
            a slash do not matter.
        phase: ``"prefill"`` or ``"decode"`` for a language model; None for the default.

    Returns:
        The summary, and a sentence about a choice that was made for the user; empty when the name
        left no choice.

    Raises:
        UnknownNameError: No such model; carries the closest names.
        InputError: The model has no such phase.
    """
    if phase is not None and phase not in PHASES:
        raise InputError(f"unknown phase {phase!r}; a model has {' or '.join(PHASES)}.")
    entries = _lookup()
    # "ViT-B/16" is a name with a slash, "google/vit-base" one with an organization before it.
    keys = (key_of(name), key_of(name.rpartition("/")[2]))
    for key in keys:
        if key in entries:
            return _check_phase(entries[key], phase), ""
        entry = entries.get(key + (phase or PHASES[0])) if key else None
        if entry is not None:
            return entry, "" if phase else _note(entry)
    raise UnknownNameError("model", name, _closest(keys[1]), _LIST_HINT)


def load(name: str, phase: str | None = None) -> Workload:
    """The workload that a name means; see `find` for names, phases and errors."""
    summary, _ = find(name, phase)
    return _load(summary.name)


@lru_cache(maxsize=_KEPT)
def _load(name: str) -> Workload:
    """The entry of a canonical name. The last ones are kept: questions come back to a model."""
    return load_workload(FOLDER / file_name(name))


def file_name(name: str) -> str:
    """The file that holds the entry of this canonical name."""
    return f"{name}.json.gz"


def phase_of(name: str) -> str | None:
    """The phase that a canonical name ends with; None for a model with one forward pass."""
    return next((p for p in PHASES if name.endswith(f"-{p}")), None)


@lru_cache(maxsize=1)
def _lookup() -> dict[str, WorkloadSummary]:
    """Normalized name or alias → entry. Aliases of a phase are looked up with the phase behind."""
    found: dict[str, WorkloadSummary] = {}
    for entry in list_models():
        phase = phase_of(entry.name) or ""
        found[key_of(entry.name)] = entry
        for alias in entry.aliases:
            found.setdefault(key_of(alias) + phase, entry)
    return found


def keys() -> Set[str]:
    """What the names and aliases of all entries come down to, see `key_of`."""
    return _lookup().keys()


def key_of(name: str) -> str:
    """A name's letters and digits only, lower case."""
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _check_phase(entry: WorkloadSummary, phase: str | None) -> WorkloadSummary:
    own = phase_of(entry.name)
    if phase is None or phase == own:
        return entry
    if own is None:
        raise InputError(f"{entry.name} has no phase {phase!r}; it has one forward pass.")
    raise InputError(f"{entry.name} is the {own} phase; the phase asked for is {phase}.")


def _note(entry: WorkloadSummary) -> str:
    own = phase_of(entry.name)
    others = " or ".join(p for p in PHASES if p != own)
    return f"{entry.name}: the {own} phase; choose {others} with --phase."


def _closest(key: str) -> list[str]:
    """Names to offer: those of the same family, then what is written alike."""
    from gambrel.llm import known

    names = {key_of(name): name for name in known.names()}
    for found, entry in _lookup().items():
        phase = phase_of(entry.name)
        names[found.removesuffix(phase or "")] = entry.name.removesuffix(f"-{phase}")
    near = [*closest(key, names, 6, _NEAR), *family(key, names, 6)]
    return list(dict.fromkeys(names[k] for k in near))[:_OFFERED]
