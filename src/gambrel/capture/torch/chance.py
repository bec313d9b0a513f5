"""Random draws that decide what runs: their mean instead of one accidental value."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Final

from gambrel.capture.torch.patching import put

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session

CHANCE_SENTENCE: Final = (
    "a random number that decides what runs takes its mean (of LayerDrop below one half no layer "
    "is dropped), and random masks are as one draw gives them"
)


def _uniform(_: Any, low: float = 0.0, high: float = 1.0, *__: Any) -> float:
    return (low + high) / 2


def _half(*_: Any) -> float:
    return 0.5


def _integer(high: int, *_: Any) -> int:
    return int(high) // 2


def _integer_from(low: int, high: int, *_: Any) -> int:
    return (int(low) + int(high)) // 2


#: Mean of a draw, by the overload's name, from its arguments.
_MEANS: Final[dict[str, Callable[..., float]]] = {
    "aten::rand": _half,
    "aten::rand_like": _half,
    "aten::uniform": _uniform,
    "aten::uniform_": _uniform,
    "aten::randint": _integer,
    "aten::randint.low": _integer_from,
}


def expect(func: Any, args: Sequence[Any], value: Any) -> None:
    """Replaces one drawn number by its mean, where that is known.

    Args:
        func: The overload that drew it.
        args: Its arguments.
        value: A real tensor of one element.
    """
    mean = _MEANS.get(func.name())
    if mean is not None and value is not None:
        value.fill_(mean(*args))


def mean_of_host_draws(stack: ExitStack, session: Session) -> None:
    """Makes single numbers that Python or numpy draw while the model runs their mean."""
    if session.options.execute:
        return
    owners: list[tuple[Any, tuple[str, ...]]] = [(random, ("random", "uniform"))]
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        state = numpy.random.get_state()
        stack.callback(numpy.random.set_state, state)
        numpy.random.seed(0)
        owners.append((numpy.random, ("random", "rand", "uniform")))
    for owner, names in owners:
        for name in names:
            put(stack, owner, name, _mean(getattr(owner, name), name == "uniform", session))


def _mean(original: Callable[..., Any], bounded: bool, session: Session) -> Callable[..., Any]:
    def draw(*args: Any, **kwargs: Any) -> Any:
        drawn = original(*args, **kwargs)
        if not isinstance(drawn, float):
            return drawn
        session.assumptions.add(CHANCE_SENTENCE, session.scopes.path)
        low, high = (*args, 0.0, 1.0)[:2] if bounded and len(args) != 1 else (0.0, 1.0)
        return (kwargs.get("low", low) + kwargs.get("high", high)) / 2

    return draw
