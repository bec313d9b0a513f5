"""Values of parameters: ``rows=64:512:x2 sram=1MiB:64MiB:x2 dram=lpddr5,hbm3``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gambrel.advise.design.spec import DesignSpec, Value, parameter_value
from gambrel.advise.design.work import FIGURES
from gambrel.engine.grid import GridAxis
from gambrel.errors import InputError, UnknownNameError, shown

_MOST: Final = 1_000_000


def design_axes(spec: DesignSpec, texts: tuple[str, ...]) -> tuple[GridAxis, ...]:
    """The axes of some texts ``PARAMETER=VALUES``.

    Raises:
        UnknownNameError: No such parameter.
        InputError: A text that cannot be read.
    """
    axes: dict[str, GridAxis] = {}
    for text in texts:
        name, equals, values = (part.strip() for part in text.partition("="))
        if not equals or not values:
            raise InputError(
                f"--sweep {shown(text)}: write PARAMETER=VALUES, e.g. rows=64:512:x2 or "
                "dram=lpddr5,hbm3."
            )
        if name not in spec.parameters:
            raise UnknownNameError("parameter", name, tuple(spec.parameters))
        if name in axes:
            raise InputError(f"--sweep: {name} is given twice; give it once.")
        if name in ("model", *FIGURES):
            raise InputError(f"--sweep: {name} is a column already; call the parameter otherwise.")
        found = tuple(dict.fromkeys(_values(values, name)))
        _same_kind(spec.parameters[name], found, name)
        axes[name] = GridAxis(name=name, values=found)
    return tuple(axes.values())


def _same_kind(known: Value, values: tuple[Value, ...], name: str) -> None:
    for value in values:
        if isinstance(value, str) != isinstance(known, str):
            wanted = "a name" if isinstance(known, str) else "a number"
            raise InputError(f"--sweep {name}: {shown(value)} is not {wanted}.")


def _values(text: str, name: str) -> Iterator[Value]:
    for part in text.split(","):
        ends = part.strip().split(":")
        if len(ends) == 1:
            yield parameter_value(ends[0], f"--sweep {name}")
        elif len(ends) <= 3:
            yield from _range(ends, part, name)
        else:
            _refuse(name, part)


def _range(ends: list[str], text: str, name: str) -> Iterator[float]:
    """``64:512`` in steps of one, ``64:512:64``, or each a multiple of the one before, ``x2``."""
    step_text = ends[2].strip() if len(ends) == 3 else "1"
    grows = step_text[:1] in ("x", "*")
    first, last, step = (
        parameter_value(end, f"--sweep {name}") for end in (*ends[:2], step_text[grows:])
    )
    if isinstance(first, str) or isinstance(last, str) or isinstance(step, str):
        return _refuse(name, text)
    if last < first or step <= (1 if grows else 0) or (grows and first <= 0):
        _refuse(name, text)
    if not grows and (last - first) / step > _MOST:
        raise InputError(f"--sweep {name}={text}: more than {_MOST:,} values; take larger steps.")
    value, index = first, 0
    while value <= last * (1 + 1e-12):
        yield value
        index += 1
        value = first * step**index if grows else first + index * step
    return None


def _refuse(name: str, text: str) -> None:
    raise InputError(
        f"--sweep {name}={shown(text)} is no range such as 64:512, 64:512:64 or 64:512:x2."
    )
