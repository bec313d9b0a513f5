"""Builders of the embedded zoo, one module a family of sources."""

from __future__ import annotations

from zoo import (
    classifiers,
    detection,
    detectors,
    diffusion,
    encoders,
    foundation,
    images,
    language,
    mobile,
    narrow,
    recurrent,
    samplers,
    single_shot,
    sparse,
    speech,
    tiny,
    vision,
)
from zoo.entry import Entry


def all_entries() -> dict[str, Entry]:
    """Every entry by its canonical name, in the order in which they are listed."""
    modules = (
        vision,
        classifiers,
        mobile,
        narrow,
        detection,
        detectors,
        single_shot,
        foundation,
        images,
        language,
        encoders,
        speech,
        diffusion,
        samplers,
        recurrent,
        sparse,
        tiny,
    )
    entries = [entry for module in modules for entry in module.entries()]
    found = {e.name: e for e in entries}
    if len(found) != len(entries):
        raise ValueError("two zoo entries have the same name")
    return found
