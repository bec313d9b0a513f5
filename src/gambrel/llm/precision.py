"""Number formats part by part: weights, what is multiplied, activations, cache, embeddings, head.

Written on one line as a scheme and exceptions: ``"fp8"``, ``"w4a16"``, ``"w4a16,kv=fp8"``,
``"bf16,experts=mxfp4"``. Parts: weights, compute, activations, kv, embeddings, head, experts,
router, state, accumulate, and for scaled weights block and scale.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gambrel.dtypes import BITS, BITS_SCHEME, FLOATING, GGUF_FORMATS, parse_dtype
from gambrel.errors import InputError, UnknownNameError


class Precisions(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The number format of each part of a model.

    Attributes:
        name: As the user wrote it.
        weights: Matrices of the layers as stored.
        activations: What ops hand to each other in memory, and norms and biases.
        compute: In which GEMMs of layers are formed; None is that of ``activations``.
            A wider one than ``weights`` converts the weights when they are loaded.
        kv_cache: Keys and values; None is ``activations``.
        embeddings: The token table; None is ``activations``.
        lm_head: The last matrix; None is ``embeddings`` (they are often one).
        experts: Matrices of routed experts; None is ``weights``.
        router: Of mixtures; None is ``activations``.
        state: Recurrent state; None is ``activations``.
        accumulate: Of sums inside a kernel. They stay on chip: no traffic depends on it.
        block: Weights that share a scale; 0 for formats that have none or carry their own.
        square: A scale belongs to a square of ``block`` by ``block`` weights.
        scale: Format of these scales.
    """

    name: str
    weights: str = "bf16"
    activations: str = "bf16"
    compute: str | None = None
    kv_cache: str | None = None
    embeddings: str | None = None
    lm_head: str | None = None
    experts: str | None = None
    router: str | None = None
    state: str | None = None
    accumulate: str = "fp32"
    block: int = 0
    square: bool = False
    scale: str = "fp16"

    @classmethod
    def parse(cls, text: str, base: str = "bf16") -> Precisions:
        """Reads a scheme and exceptions, e.g. ``"w4a16,kv=fp8"``.

        Args:
            text: One scheme (a number format, ``w4a16``, ``w8a8``, ``fp8_block``, ...) and any
                number of ``part=format``; the scheme may be missing.
            base: The 16- or 32-bit format of what a scheme does not name.

        Raises:
            UnknownNameError: No such scheme, format or part.
            InputError: A part that is named twice or has no value.
        """
        items = [item.strip() for item in text.split(",") if item.strip()]
        scheme = items.pop(0) if items and "=" not in items[0] else base
        fields = dict(_scheme(scheme, base))
        seen: set[str] = set()
        for item in items:
            part, _, value = (piece.strip() for piece in item.partition("="))
            name = _part(part, item)
            if name in seen or not value:
                raise InputError(f"precision {text!r}: name each part once, as {part}=fp8.")
            seen.add(name)
            fields[name] = _value(name, value)
        short = re.fullmatch(r"q\d", scheme)  # of several mixtures the usual one
        name = text.strip().replace(scheme, parse_dtype(scheme), 1) if short else text.strip()
        return cls(name=name or base, **fields)

    def names(self, part: str) -> bool:
        """Whether the user wrote this part's format, and no scheme chose it."""
        items = (item.partition("=") for item in self.name.split(","))
        return any(sign and _part(name.strip(), name) == part for name, sign, _ in items)

    def all_in(self, dtype: str) -> Precisions:
        """Every part in one format."""
        parts = dict.fromkeys(("weights", "activations", *_DEFAULTS), dtype)
        return msgspec.structs.replace(self, name=dtype, block=0, **parts)

    def with_cache(self, dtype: str) -> Precisions:
        """The same with keys and values in another format; the name says so."""
        if self.of("kv_cache") == dtype:
            return self
        return msgspec.structs.replace(self, name=f"{self.name},kv={dtype}", kv_cache=dtype)

    def of(self, part: str) -> str:
        """The format of a part, its default filled in.

        Args:
            part: ``"weights"``, ``"experts"``, ``"lm_head"``, ...
        """
        own = getattr(self, part)
        if own is not None:
            return str(own)
        return self.of(_DEFAULTS[part])

    def state_format(self, model: str | None) -> str:
        """The format of recurrent states: as asked, else the model's, else that of activations."""
        return self.state or model or self.of("state")

    @property
    def multiply(self) -> str:
        """In which format the layers' products are formed."""
        return self.compute or self.activations

    def scales(self, rows: int, columns: int) -> int:
        """Number of scales beside a matrix of weights."""
        if not self.block:
            return 0
        across = -(-columns // self.block) if self.square else columns
        return -(-rows // self.block) * across

    def describe(self, *, experts: bool = True) -> tuple[str, ...]:
        """What the choice means, in sentences for the report; none for one uniform format.

        Args:
            experts: Whether the model has any.
        """
        parts = {p: self.of(p) for p in _LABELS if experts or p != "experts"}
        if set(parts.values()) == {self.activations} and self.multiply == self.activations:
            return ()
        stored = ", ".join(f"{_LABELS[p]} {d}" for p, d in parts.items())
        scales = (
            f", one {self.scale} scale per {self.block}{f'x{self.block}' if self.square else ''} "
            "weights"
            if self.block
            else ""
        )
        return (
            f"precision {self.name}: stored as {stored}{scales}; matmuls in {self.multiply}, "
            f"sums in {self.accumulate}, between ops {self.activations}.",
        )


#: Where a part takes its format from when nobody names one.
_DEFAULTS: Final = {
    "compute": "activations",
    "kv_cache": "activations",
    "embeddings": "activations",
    "lm_head": "embeddings",
    "experts": "weights",
    "router": "activations",
    "state": "activations",
}

_LABELS: Final = {
    "weights": "weights",
    "experts": "experts",
    "kv_cache": "cache",
    "embeddings": "embeddings",
    "lm_head": "head",
}

#: Spellings of the parts.
PARTS: Final[Mapping[str, str]] = {
    **{name: name for name in Precisions.__struct_fields__ if name not in ("name", "square")},
    "w": "weights",
    "a": "activations",
    "kv": "kv_cache",
    "cache": "kv_cache",
    "embedding": "embeddings",
    "head": "lm_head",
    "moe": "experts",
}

#: Schemes by name. Narrow formats apply to the matrices of the layers, as inference engines do:
#: the embedding, the head, norms and what ops hand to each other keep 16 bits.
_SCHEMES: Final[Mapping[str, Mapping[str, Any]]] = {
    # Scales per tensor or per channel are too few to count.
    "fp8": {"weights": "fp8", "compute": "fp8", "kv_cache": "fp8"},
    # DeepSeek-V3's own: one fp32 scale per 128 x 128 weights (its config.json,
    # quantization_config.weight_block_size).
    "fp8_block": {
        "weights": "fp8",
        "compute": "fp8",
        "block": 128,
        "square": True,
        "scale": "fp32",
    },
    "mxfp8": {"weights": "mxfp8", "compute": "mxfp8", "kv_cache": "fp8"},
    "fp6": {"weights": "fp6", "compute": "fp6", "kv_cache": "fp8"},
    "fp4": {"weights": "fp4", "compute": "fp4", "kv_cache": "fp8"},
    "nvfp4": {"weights": "nvfp4", "compute": "nvfp4", "kv_cache": "fp8"},
    # Weights alone: Hopper and older have no fp4 products, and gpt-oss keeps 16-bit activations.
    "mxfp4": {"weights": "mxfp4"},
    "int8": {"weights": "int8", "compute": "int8"},
    "int4": {"weights": "int4", "block": 128, "scale": "fp16"},
}
_ALIASES: Final = {
    "fp8-block": "fp8_block",
    "fp8_w8a8": "fp8",
    "w8a8_fp8": "fp8",
    "w8a8": "int8",
    "w8a8_int8": "int8",
    "awq": "int4",
    "gptq": "int4",
    "w4a16": "int4",
    "w4a4": "nvfp4",
}
_BY_BITS: Final = {16: None, 8: "int8", 4: "int4"}


def _scheme(text: str, base: str) -> Mapping[str, Any]:
    key = text.lower().replace(" ", "")
    key = _ALIASES.get(key, key)
    if key in _SCHEMES:
        return {"activations": base, **_SCHEMES[key]}
    bits = BITS_SCHEME.fullmatch(key)
    if bits:
        return _by_bits(int(bits.group(1)), int(bits.group(2)), text, base)
    try:
        dtype = parse_dtype(text)
    except UnknownNameError:
        known = ("bf16", "fp16", *_SCHEMES, "w4a16", "w8a16", "w8a8", "w4a8")
        raise UnknownNameError("precision", text, known, "Or name parts: w4a16,kv=fp8.") from None
    if dtype in _SCHEMES:
        return {"activations": base, **_SCHEMES[dtype]}
    if dtype in GGUF_FORMATS:
        # Every matrix is stored in blocks and unpacked on the way; the rest is 16 bits.
        return {"weights": dtype, "embeddings": dtype, "activations": base}
    if dtype not in FLOATING:
        raise InputError(f"precision {text!r}: a model cannot run in {dtype}.")
    return {"weights": dtype, "activations": dtype}


def _by_bits(weights: int, activations: int, text: str, base: str) -> Mapping[str, Any]:
    if weights not in _BY_BITS or activations not in _BY_BITS or activations < 8:
        raise InputError(f"precision {text!r}: weights of 4, 8 or 16 bits, activations of 8 or 16.")
    stored, multiplied = _BY_BITS[weights] or base, _BY_BITS[activations] or base
    scheme: dict[str, Any] = {"weights": stored, "activations": base, "compute": multiplied}
    if weights == 4:
        scheme |= {"block": 128, "scale": "fp16"}
    return scheme


def _part(part: str, item: str) -> str:
    name = PARTS.get(part.lower())
    if name is None:
        raise UnknownNameError(
            "part of a precision",
            part or item,
            sorted(set(PARTS)),
            "Write part=format, e.g. kv=fp8.",
        )
    return name


def _value(name: str, value: str) -> Any:
    if name != "block":
        return parse_dtype(value)
    if not value.isdigit() or not 0 < int(value) <= 65536:
        raise InputError(
            f"block={value!r}: weights that share a scale, a whole number such as 128."
        )
    return int(value)


def with_parts(own: str, text: str) -> str:
    """Formats with some parts in others: ``bf16,kv=fp8`` with ``kv=int8`` → ``bf16,kv=int8``.

    Args:
        own: The formats.
        text: Parts alone, e.g. ``"kv=fp8"``.

    Raises:
        UnknownNameError: No such part.
    """

    def part(item: str) -> str:
        return _part(item.partition("=")[0].strip(), item)

    named = {part(item) for item in text.split(",") if item.strip()}
    kept = [item for item in own.split(",") if "=" not in item or part(item) not in named]
    return ",".join((*kept, text))


def is_scheme(text: str) -> bool:
    """Whether a precision is more than one plain number format."""
    key = text.strip().lower()
    return (
        "=" in key
        or "," in key
        or (key in _ALIASES or BITS_SCHEME.fullmatch(key) is not None)
        or (key in _SCHEMES and key not in BITS)
    )
