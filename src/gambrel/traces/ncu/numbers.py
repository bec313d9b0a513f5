"""Numbers as the exporting shell's locale wrote them; the locale is inferred per file.

One cell alone can be ambiguous ("1.234" is 1.234 in C and 1234 in German), a file hardly ever is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from gambrel.errors import FileFormatError

#: Group separators that are never a decimal mark: spaces of any width, apostrophes.
_SPACES: Final = " \u00a0\u2009\u202f\u2019'"
_NUMBER: Final = re.compile(rf"[+-]?\d[\d.,{_SPACES}]*(?:[eE][+-]?\d+)?")
_SPACED: Final = re.compile(rf"[{_SPACES}]")
_REPEATED: Final = re.compile(r"[+-]?\d{1,3}(?:([.,])\d{3})(?:\1\d{3})+")
_ONE: Final = re.compile(r"[+-]?(\d+)([.,])(\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Locale:
    """How a file writes numbers.

    Attributes:
        decimal: Decimal mark.
        sure: Whether some cell proves it; otherwise the C locale is assumed.
    """

    decimal: str = "."
    sure: bool = False

    def parse(self, text: str) -> float:
        """Returns the value of one number.

        Raises:
            ValueError: Not a number in this locale.
        """
        text = _SPACED.sub("", text)
        group = "," if self.decimal == "." else "."
        text = text.replace(group, "")
        return float(text.replace(",", ".") if self.decimal == "," else text)


def looks_numeric(text: str) -> bool:
    """Whether a cell holds one number, in any locale."""
    return text.isdecimal() or _NUMBER.fullmatch(text) is not None


class LocaleEvidence:
    """What the cells of a file prove about its locale, cell by cell.

    Attributes:
        where: File, for errors.
        proofs: Cells that prove a decimal mark, with their lines.
        hints: Cells that make one likely.
    """

    def __init__(self, where: str) -> None:
        self.where = where
        self.proofs: dict[str, tuple[str, int]] = {}
        self.hints: dict[str, tuple[str, int]] = {}
        self._seen: set[tuple[str, bool, bool]] = set()

    def note(self, text: str, whole: bool, line: int = 0) -> str:
        """Looks at one number.

        Cells by the million have some hundred shapes, and a shape tells all that matters here:
        digits may differ, a zero at the beginning may not.

        Args:
            text: As written.
            whole: Whether it must be a whole number (a sum of events in base units), so that a
                separator in it must be grouping.
            line: Where it is, 1-based; 0 where unknown.

        Returns:
            The decimal mark that is proven so far; empty without a proof.

        Raises:
            FileFormatError: Some cells prove one locale and some another.
        """
        shape = (text.translate(_DIGITS), text[:1] == "0", whole)
        if shape not in self._seen:
            if len(self._seen) >= _MOST_SHAPES:
                self._seen.clear()
            self._seen.add(shape)
            mark = _proof(text)
            if mark:
                self.proofs.setdefault(mark, (text, line))
            elif whole and (found := _ONE.fullmatch(text)) and len(found[3]) == 3:
                self.hints.setdefault("," if found[2] == "." else ".", (text, line))
            if len(self.proofs) == 2:
                raise FileFormatError(
                    f"{self.where}: numbers of two locales, {self._shown('.')} and "
                    f"{self._shown(',')}; export again with LC_ALL=C."
                )
        return next(iter(self.proofs), "")

    def locale(self) -> Locale:
        """The locale of the file, by proofs, else by hints, else C."""
        for evidence in (self.proofs, self.hints):
            if len(evidence) == 1:
                return Locale(decimal=next(iter(evidence)), sure=True)
        return Locale()

    def _shown(self, mark: str) -> str:
        text, line = self.proofs[mark]
        return f"{text!r} (line {line})" if line else repr(text)


_DIGITS: Final = str.maketrans("123456780", "999999999")
_MOST_SHAPES: Final = 100_000


def _proof(text: str) -> str:
    """The decimal mark that a cell proves; empty when it proves none."""
    if not text.isascii() or " " in text or "'" in text:
        text = _SPACED.sub("", text)
    dots, commas = text.count("."), text.count(",")
    if dots and commas:
        return "." if text.rfind(".") > text.rfind(",") else ","
    if dots + commas > 1:
        repeated = _REPEATED.fullmatch(text)
        return {".": ",", ",": "."}[repeated[1]] if repeated else ""
    if dots + commas == 1 and (one := _ONE.fullmatch(text)):
        head, mark, tail = one.groups()
        # A group has three digits, is preceded by one to three, and numbers do not begin with 0.
        if len(tail) != 3 or len(head) > 3 or head.startswith("0"):
            return mark
    return ""
