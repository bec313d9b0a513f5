"""``--hardware this``: this machine as it was measured last."""

from __future__ import annotations

from pathlib import Path

from gambrel.device.model import Device
from gambrel.errors import InputError
from gambrel.measure import store
from gambrel.measure.convert import to_device
from gambrel.measure.machine import this_machine


def this_device(where: Path | None = None) -> tuple[Device, tuple[str, ...]]:
    """The device that was measured last on this machine, and a sentence that says so.

    Args:
        where: Folder of the stored surveys; None for the usual one.

    Raises:
        InputError: Nothing was measured here yet.
    """
    survey = store.latest(where, cpu=this_machine().id)
    if survey is None:
        raise InputError(
            "this machine has not been measured yet. Run 'gambrel peaks', "
            "or name a device from 'gambrel hardware list'."
        )
    note = f"this is {survey.name} ({survey.device}), measured {survey.date}."
    return to_device(survey), (note,)
