"""The cells of launches as numbers in base units, and the locale of the file.

Launches are converted in batches, metric by metric: a column of plain numbers is recognized as a
whole and converted at once; only what is anything else is looked at cell by cell.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from gambrel.traces.ncu.columns import MetricColumn, MetricColumns
from gambrel.traces.ncu.launch import Launch
from gambrel.traces.ncu.numbers import Locale, LocaleEvidence, looks_numeric
from gambrel.traces.ncu.values import Metrics, shape_of

#: Larger values are damage: a GPU would need a billion years to count so far.
_LARGEST: Final = 1e30
_INSTANCED: Final = re.compile(r"([^()]*)\(([^()]*;[^()]*)\)")
_EMPTY: Final = frozenset({"", "no data", "n/a", "nan", "-nan", "inf", "-inf", "N/A", "(!) n/a"})


class OtherLocaleError(Exception):
    """Numbers were read in one locale before a cell proved another; the file is read again."""


class _Script:
    """How some columns of a file write numbers.

    Attributes:
        evidence: What their cells prove.
        locale: As far as it is known; C until a cell proves another.
        depends: Whether numbers that were converted by now depend on it.
    """

    def __init__(self, where: str) -> None:
        self.evidence = LocaleEvidence(where)
        self.locale = Locale()
        self.depends = False

    def assume(self, locale: Locale) -> None:
        """Goes on with a locale.

        Raises:
            OtherLocaleError: Numbers were read in another.
        """
        matters = self.depends and locale.decimal != self.locale.decimal
        self.locale = locale
        if matters:
            self.depends = False
            raise OtherLocaleError


class Numbers:
    """Turns the cells of a file into numbers, while it finds out the file's locale.

    Until a cell proves another, the C locale is assumed. Where numbers that were converted by then
    depend on it, the file must be read again (`OtherLocaleError`). Derived metrics have a locale of
    their own: a German shell writes ``1.048.576`` in a counter and ``1048576.25`` in those.
    """

    def __init__(self, where: str) -> None:
        self._counters = _Script(where)
        self._derived = _Script(where)

    def settle(self) -> Locale:
        """The locale of the file's counters, at its end.

        Raises:
            OtherLocaleError: It is another than the one assumed, and that matters.
        """
        for script in (self._counters, self._derived):
            script.assume(script.evidence.locale())
        return self._counters.locale

    def convert(self, launches: Sequence[Launch]) -> list[Metrics]:
        """The numbers of launches, in their order.

        Raises:
            FileFormatError: Numbers of two locales.
            OtherLocaleError: The file must be read again.
        """
        first = launches[0].columns
        if all(launch.columns is first for launch in launches):
            return self._alike(first, launches)
        groups: dict[MetricColumns, list[Launch]] = {}
        for launch in launches:
            groups.setdefault(launch.columns, []).append(launch)
        found = {columns: iter(self._alike(columns, group)) for columns, group in groups.items()}
        return [next(found[launch.columns]) for launch in launches]

    def _alike(self, columns: MetricColumns, launches: Sequence[Launch]) -> list[Metrics]:
        """The numbers of launches with the same metrics."""
        cells = list(zip(*[launch.cells for launch in launches], strict=True))
        names, values, gaps = [], [], False
        for column in columns.read:
            found, complete = self._column(column, cells[column.at], launches)
            if complete or any(value is not None for value in found):
                names.append(column.name)
                values.append(found)
                gaps = gaps or not complete
        if not names:
            return [Metrics({}, shape_of(()), launch) for launch in launches]
        rows = zip(*values, strict=True)
        if gaps:
            return [_partial(names, row, x) for row, x in zip(rows, launches, strict=True)]
        shape = shape_of(tuple(names))
        return [
            Metrics(dict(zip(names, row, strict=True)), shape, launch)
            for row, launch in zip(rows, launches, strict=True)
        ]

    def _column(
        self, column: MetricColumn, cells: Sequence[str], launches: Sequence[Launch]
    ) -> tuple[Sequence[float | None], bool]:
        """One metric of all launches, and whether each has a value."""
        script = self._derived if column.derived else self._counters
        values = _at_once(script, column, "\n".join(cells), launches[0].line)
        if values is not None and len(values) == len(cells):
            return values, True
        found = [
            _cell(script, column, cell.strip(), launch.line)
            for cell, launch in zip(cells, launches, strict=True)
        ]
        return found, None not in found


#: Numbers, one a line, that prove no other locale than the one known; or that prove none at all.
_POINT: Final = re.compile(
    r"(?:(?:\d+|[1-9]\d{0,2}(?:,\d{3})+)(?:\.\d+)?(?:\n|\Z))+(?<!\n)", re.ASCII
)
_COMMA: Final = re.compile(
    r"(?:(?:\d+|[1-9]\d{0,2}(?:\.\d{3})+)(?:,\d+)?(?:\n|\Z))+(?<!\n)", re.ASCII
)
_AMBIGUOUS: Final = re.compile(r"(?:(?:\d+|[1-9]\d{0,2},\d{3})(?:\n|\Z))+(?<!\n)", re.ASCII)


def _at_once(script: _Script, column: MetricColumn, text: str, line: int) -> list[float] | None:
    """Plain numbers, one a line; None where anything else is among them."""
    if not text.replace("\n", "").isdecimal():
        pattern = _AMBIGUOUS
        if script.locale.sure:
            pattern = _POINT if script.locale.decimal == "." else _COMMA
        if not pattern.fullmatch(text):
            return None
        if not script.locale.sure:
            script.depends = True
            if column.whole:
                script.evidence.hints.setdefault(".", (text.partition("\n")[0], line))
        if script.locale.decimal == ",":
            text = text.replace(".", "").replace(",", ".")
        else:
            text = text.replace(",", "")
    try:
        values = list(map(float, text.split("\n")))
    except ValueError:
        return None  # empty cells
    factor = column.factor
    if max(values) * factor > _LARGEST:
        return None
    return values if factor == 1.0 else [value * factor for value in values]


def _cell(script: _Script, column: MetricColumn, text: str, line: int) -> float | None:
    if text in _EMPTY:
        return None
    if not text.isdecimal() and looks_numeric(text):
        mark = script.evidence.note(text, column.whole, line)
        if mark and not (script.locale.sure and script.locale.decimal == mark):
            script.assume(Locale(decimal=mark, sure=True))
        script.depends = script.depends or "." in text or "," in text
    return _sane(_value(text, column, script.locale), column.name)


def _partial(names: Sequence[str], row: Sequence[float | None], launch: Launch) -> Metrics:
    """The values of a launch that lacks some."""
    values = {n: v for n, v in zip(names, row, strict=True) if v is not None}
    return Metrics(values, shape_of(tuple(values)), launch)


def _value(text: str, column: MetricColumn, locale: Locale) -> float | None:
    try:
        instanced = _INSTANCED.fullmatch(text) if "(" in text else None
        if instanced is None:
            return locale.parse(text) * column.factor
        if instanced[1].strip():
            return locale.parse(instanced[1].strip()) * column.factor
        parts = [locale.parse(part.strip()) for part in instanced[2].split(";")]
        return _combine(column.name, parts) * column.factor
    except (ValueError, OverflowError):
        return None  # a text, such as the name of the device


def _sane(value: float | None, name: str) -> float | None:
    """Counters are finite and never negative; what is not is unknown. A time keeps its sign."""
    if value is None or not abs(value) <= _LARGEST:
        return None
    return value if value >= 0 or name.startswith("gpu__time") else None


def _combine(name: str, parts: list[float]) -> float:
    """Instances of one metric as one value, by the roll-up that its name asks for."""
    rollups = name.split(".")[1:2]
    if rollups == ["max"]:
        return max(parts)
    if rollups == ["min"]:
        return min(parts)
    return sum(parts) / (len(parts) if rollups == ["avg"] else 1)
