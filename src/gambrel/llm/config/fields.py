"""Reading the fields of a configuration: each one checked, each refusal names it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from gambrel.dtypes import FLOATING, parse_dtype
from gambrel.errors import CaptureError, UnknownNameError

#: Beyond these a field is wrong or hostile. No published model comes near.
LIMITS: Final[Mapping[str, int]] = {"layers": 2_000, "vocab": 100_000_000, "experts": 65_536}
_MOST: Final = 10_000_000
_MISSING: Final = object()


class Fields:
    """The fields of one configuration, or of a part of it.

    Args:
        given: The mapping of the file.
        family: Its ``model_type``, for messages.
        where: Path of the part within the file, e.g. ``"text_config."``.
        defaults: Values that the family's own configuration class has for absent fields.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        family: str,
        where: str = "",
        defaults: Mapping[str, Any] | None = None,
    ) -> None:
        self.given = given
        self.family = family
        self.where = where
        self._defaults = defaults or {}

    def with_defaults(self, **defaults: Any) -> Fields:
        """The same fields, some of which may be absent."""
        return Fields(self.given, self.family, self.where, {**self._defaults, **defaults})

    def raw(self, *names: str) -> Any:
        """The first of several spellings that is there and not null; None for none."""
        for source in (self.given, self._defaults):
            for name in names:
                if source.get(name) is not None:
                    return source[name]
        return None

    def has(self, *names: str) -> bool:
        """Whether one of several spellings is there and not null."""
        return self.raw(*names) is not None

    def whole(self, *names: str, least: int = 1, most: int = _MOST, default: Any = _MISSING) -> int:
        """A whole number.

        Args:
            *names: Spellings of the field; messages use the first.
            least: Smallest sensible value.
            most: Largest.
            default: When the field is absent; without one it must be there.

        Raises:
            CaptureError: Absent, of another type, or out of range.
        """
        value = self.raw(*names)
        if value is None:
            if default is _MISSING:
                missing = self.where + names[0]
                raise CaptureError(
                    f"the configuration of this {self.family} model lacks {missing!r}."
                )
            return int(default)
        if isinstance(value, bool) or not isinstance(value, int):
            self.refuse(names, value, f"a whole number from {least} to {most:,}")
        if not least <= value <= most:
            self.refuse(names, value, f"a number from {least} to {most:,}")
        return int(value)

    def optional(self, *names: str, least: int = 1, most: int = _MOST) -> int | None:
        """A whole number, or None when the field is absent or null."""
        return self.whole(*names, least=least, most=most) if self.has(*names) else None

    def _typed(self, names: Sequence[str], kinds: tuple[type, ...], fits: str) -> Any:
        """A value of one of these types, or None; true and false are no numbers."""
        value = self.raw(*names)
        if value is not None and (
            not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds)
        ):
            self.refuse(names, value, fits)
        return value

    def number(self, *names: str, default: float) -> float:
        """A number."""
        value = self._typed(names, (int, float), "a number")
        return default if value is None else float(value)

    def flag(self, *names: str, default: bool) -> bool:
        """True or false."""
        value = self._typed(names, (bool,), "true or false")
        return default if value is None else bool(value)

    def text(self, *names: str, default: str = "") -> str:
        """A string."""
        value = self._typed(names, (str,), "a string")
        return default if value is None else str(value)

    def _listed(self, names: Sequence[str], kind: type, fits: str) -> tuple[Any, ...] | None:
        """A list of values of one type, or None."""
        value = self._typed(names, (list, tuple), fits)
        if value is not None and not all(type(v) is kind for v in value):
            self.refuse(names, value, fits)
        return None if value is None else tuple(value)

    def names(self, *names: str, count: int | None = None) -> tuple[str, ...] | None:
        """A list of strings; None when the field is absent.

        Args:
            *names: Spellings of the field.
            count: How many there must be.
        """
        value = self._listed(names, str, "a list of names")
        if value is not None and count is not None and len(value) != count:
            raise CaptureError(
                f"the configuration has {len(value)} {self.where + names[0]} for {count} layers."
            )
        return value

    def wholes(self, *names: str) -> tuple[int, ...] | None:
        """A list of whole numbers; None when the field is absent."""
        return self._listed(names, int, "a list of whole numbers")

    def part(self, *names: str) -> Fields | None:
        """A nested configuration; None when it is absent."""
        value = self._typed(names, (Mapping,), "an object")
        if value is None:
            return None
        name = next(n for n in names if self.given.get(n) is not None or n in self._defaults)
        return Fields(value, str(value.get("model_type") or self.family), f"{self.where}{name}.")

    def refuse(self, names: Sequence[str], value: Any, fits: str) -> None:
        """Raises CaptureError: this value of this field, and what would fit."""
        shown = repr(value)
        if len(shown) > 60:
            shown = shown[:57] + "..."
        raise CaptureError(
            f"the configuration has {self.where}{names[0]}={shown}; it takes {fits}."
        )

    # The sizes that nearly every family has.

    @property
    def hidden(self) -> int:
        """Width of the residual stream."""
        return self.whole("hidden_size", "n_embd", "d_model", "dim", most=1_000_000)

    @property
    def vocab(self) -> int:
        """Rows of the embedding."""
        return self.whole("vocab_size", most=LIMITS["vocab"])

    @property
    def layers(self) -> int:
        """Number of layers."""
        return self.whole(
            "num_hidden_layers", "n_layer", "num_layers", "n_layers", most=LIMITS["layers"]
        )

    @property
    def heads(self) -> int:
        """Query heads."""
        return self.whole("num_attention_heads", "n_head", "num_heads", "n_heads", most=100_000)

    @property
    def inner(self) -> int:
        """Width of the feed-forward network."""
        return self.whole("intermediate_size", "ffn_dim", "d_ff", "n_inner")

    def kv_heads(self, default: int | None = None) -> int:
        """Key and value heads; they must divide the query heads.

        Args:
            default: When the field is absent; None is as many as query heads.
        """
        heads = self.heads
        found = self.whole("num_key_value_heads", default=default or heads, most=100_000)
        if heads % found:
            raise CaptureError(
                f"the configuration has {self.where}num_key_value_heads={found}, which does not "
                f"divide num_attention_heads={heads}; it takes a divisor of {heads}."
            )
        return found

    def head_dim(self, *names: str) -> int:
        """Length of a head: as given, else the hidden width over the heads."""
        given = self.optional(*(names or ("head_dim",)), most=100_000)
        if given is not None:
            return given
        return self.divided("hidden_size", self.hidden, "num_attention_heads", self.heads)

    def divided(self, name: str, whole: int, by: str, parts: int) -> int:
        """``whole / parts``, which must be a whole number."""
        if whole % parts:
            raise CaptureError(
                f"the configuration has {self.where}{name}={whole}, which {by}={parts} does not "
                f"divide; give a multiple of {parts}, or a head_dim."
            )
        return whole // parts

    def dtype(self) -> str | None:
        """The floating format of the checkpoint; None when the file names none."""
        value = self.text("dtype", "torch_dtype")
        if not value or value == "auto":
            return None
        try:
            found = parse_dtype(value)
        except UnknownNameError:
            found = ""
        if found not in FLOATING:
            self.refuse(("dtype",), value, "a floating format such as 'bfloat16'")
        return found
