"""One op in a question, ``softmax of 4096x4096``, as the named op that is analyzed."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Final

from gambrel.capture.named_op import is_named_op

#: Words for an op of which a question gives the sizes alone, and the kind that they mean.
_PRODUCTS: Final = r"matmul|gemm|matrix multiplication|matrix multiply|mat-?mul"
_ROWS: Final = {
    r"softmax": "softmax",
    r"log[ _-]?softmax": "log_softmax",
    r"layer[ _-]?norm(?:alization)?": "layer_norm",
    r"rms[ _-]?norm(?:alization)?": "rms_norm",
}
_EACH: Final = ("add", "copy", "exp", "gelu", "mul", "relu", "sigmoid", "silu", "tanh")
_SIDES: Final = r"(\d+(?:[ ]?[x\u00d7*][ ]?\d+){%s})"
_LINK: Final = r"(?:[ ,:(]+(?:(?:of|over|with|on|an?|the|size|shape|tensors?|matrix) )*)"


def _product(sides: list[int]) -> str:
    return "matmul:" + ",".join(f"{n}={side}" for n, side in zip("mnk", sides, strict=True))


def _by_row(kind: str) -> Callable[[list[int]], str]:
    return lambda sides: f"{kind}:rows={prod(sides[:-1])},cols={sides[-1]}"


def _by_element(kind: str) -> Callable[[list[int]], str]:
    return lambda sides: f"{kind}:n={prod(sides)}"


def _patterns(words: str, count: str) -> re.Pattern[str]:
    """The op before or behind its sizes."""
    sides = _SIDES % count
    return re.compile(rf"\b(?:(?:{words})s?{_LINK}{sides}|{sides} (?:{words}))(?![\w])")


_OPS: Final = (
    (_patterns(_PRODUCTS, "2"), _product),
    *((_patterns(words, "1,3"), _by_row(kind)) for words, kind in _ROWS.items()),
    *((_patterns(word, "1,3"), _by_element(word)) for word in _EACH),
)
_SPEC: Final = re.compile(r"(?<!\S)[a-z][a-z0-9_]*:[\w.,=-]*=[\w.=,-]*\w")


def marked(text: str) -> tuple[str, list[str]]:
    """A question with a marker for each op, and the ops as ``analyze`` takes them.

    Args:
        text: In lower case.
    """
    found: list[str] = []

    def spec(match: re.Match[str]) -> str:
        if not is_named_op(match[0]):
            return match[0]
        found.append(match[0])
        return "MODEL"

    text = _SPEC.sub(spec, text)
    for pattern, named in _OPS:

        def op(match: re.Match[str], named: Callable[[list[int]], str] = named) -> str:
            sides = re.findall(r"\d+", match[1] or match[2])
            found.append(named([int(side) for side in sides]))
            return "MODEL"

        text = pattern.sub(op, text)
    return text, found
