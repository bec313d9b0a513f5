"""The tools that look things up: devices, models, terms."""

from __future__ import annotations

import difflib
import re
from typing import Annotated

from pydantic import Field

from gambrel.errors import UnknownNameError
from gambrel.mcp import convert
from gambrel.mcp import outputs as out


def hardware(
    name: Annotated[
        str | None, Field(description="One device, with all its figures and their sources.")
    ] = None,
    text: Annotated[str | None, Field(description="Only names that contain this.")] = None,
    vendor: Annotated[str | None, Field(description="Only this maker.")] = None,
    category: Annotated[
        str | None, Field(description="Only this class: datacenter gpu, edge, tpu, npu, cpu.")
    ] = None,
    min_memory: Annotated[
        str | None, Field(description="At least, with a unit of bytes: '24GiB'.")
    ] = None,
    max_tdp: Annotated[str | None, Field(description="At most, with a unit of W: '75W'.")] = None,
) -> out.HardwareOut:
    """Lists the catalog of devices; or shows one with its ceilings and their sources."""
    from gambrel.device.listing import Filter, device_row, list_rows
    from gambrel.device.resolve import resolve_hardware

    if name is not None:
        device, notes = resolve_hardware(name)
        return out.HardwareOut(
            command=convert.command("hardware show", name),
            devices=[convert.device_out(device_row(device))],
            detail=convert.detail_out(device),
            notes=convert.texts(notes),
        )
    wanted = {
        "vendor": vendor,
        "category": category,
        "min_memory": min_memory,
        "max_tdp": max_tdp,
    }
    rows = list_rows(Filter(text=text, **wanted))
    return out.HardwareOut(
        command=convert.command("hardware list", *([text] if text else []), **wanted),
        devices=[convert.device_out(row) for row in rows],
        detail=None,
        notes=[],
    )


def models(
    text: Annotated[str | None, Field(description="Only names that contain this.")] = None,
    family: Annotated[str | None, Field(description="Only this family.")] = None,
) -> out.ModelsOut:
    """The built-in models with the sizes that may be chosen."""
    from gambrel.capture.zoo import search

    found = search(text, family)
    return out.ModelsOut(
        command=convert.command("models list", *([text] if text else []), family=family),
        models=[
            out.ModelOut(
                name=m.name,
                aliases=list(m.aliases),
                family=m.family,
                about=m.about,
                parameters=m.parameters,
                flops=m.flops,
                sizes=[
                    out.SizeOut(name=s.name, default=s.default, about=s.about) for s in m.symbols
                ],
            )
            for m in found
        ],
    )


def explain(
    term: Annotated[
        str | None, Field(description="E.g. 'ridge point'; null returns every term.")
    ] = None,
    hardware: Annotated[
        str | None, Field(description="A device whose figures to explain, dense and sparse.")
    ] = None,
) -> out.ExplanationOut:
    """What a term of roofline analysis means, and how to read a device's figures."""
    from gambrel.device.explain import explain as explain_device
    from gambrel.device.resolve import resolve_hardware
    from gambrel.report.terms import DEFINITIONS

    terms = dict(DEFINITIONS)
    if term is not None:
        key = _term(term, terms)
        terms = {key: terms[key]}
    elif hardware is not None:
        terms = {}
    device = explain_device(resolve_hardware(hardware)[0]) if hardware is not None else ()
    return out.ExplanationOut(terms=terms, device=convert.texts(device))


def _term(text: str, terms: dict[str, str]) -> str:
    """The term that is meant: spaces, dashes and case do not matter, nor does a missing unit."""
    key = re.sub(r"[\s-]+", "_", text.strip().lower())
    found = [t for t in terms if t == key or re.sub(r"_(s|j|bytes)$", "", t) == key]
    if found:
        return found[0]
    raise UnknownNameError("term", text, difflib.get_close_matches(key, terms, 4, 0.5) or terms)
