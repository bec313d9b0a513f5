"""The keywords of the public functions, from the one declaration of what can be asked."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from typing import Any, Concatenate, Final, Generic, ParamSpec, TypeVar

from gambrel.analysis.fields import Field
from gambrel.analysis.provenance import remember
from gambrel.analysis.question import Question, ask, fields_of
from gambrel.errors import InputError

P = ParamSpec("P")
R = TypeVar("R")
#: ``file.py:function`` and ``package.module:Class`` would run code.
_CODE: Final = re.compile(r"^(?:.+\.py|[A-Za-z_][\w.]*):[A-Za-z_]\w*$")
#: What may be given without its name, in this order.
_FIRST: Final = ("device_file", "model", "time", "hardware", "change", "inputs")


class Asked(Generic[P, R]):
    """A public function of Python: keywords in, a result out.

    Args:
        verb: One of `gambrel.analysis.question.VERBS`.
        answer: From a question to the result; faces other than Python call it.
    """

    def __init__(self, verb: str, answer: Callable[Concatenate[Question, P], R]) -> None:
        functools.update_wrapper(self, answer)
        self.verb = verb
        self.answer = answer
        known = {field.name: field for field in fields_of(verb, "python")}
        self._first = [name for name in _FIRST if name in known][:3]
        self._fields = known

    def __call__(self, *given: Any, **named: Any) -> R:
        """Asks; `help` and the documentation list the keywords."""
        if len(given) > len(self._first):
            raise InputError(
                f"gambrel {self.verb} takes {', '.join(self._first)} in this order; name the rest."
            )
        both = [name for name in self._first[: len(given)] if name in named]
        if both:
            raise InputError(f"{both[0]} is given twice; give it once.")
        values = dict(zip(self._first, given, strict=False)) | named
        found = self.answer(ask(self.verb, values))  # type: ignore[call-arg]
        remember(found, self.verb, values)
        return found

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        rest = [name for name in self._fields if name not in self._first]
        parameters = [self._parameter(n, kinds.POSITIONAL_OR_KEYWORD) for n in self._first]
        return inspect.Signature(
            [*parameters, *(self._parameter(n, kinds.KEYWORD_ONLY) for n in rest)]
        )

    def _parameter(self, name: str, kind: Any) -> inspect.Parameter:
        return inspect.Parameter(name, kind, default=self._fields[name].default)


def refuse_code(question: Question, remedy: str) -> None:
    """Refuses models that are code, for faces which run none.

    Args:
        question: With any models.
        remedy: What to do instead.

    Raises:
        InputError: A model would be run.
    """
    for model in (*question.several("model"), question.draft):
        if model is not None and _CODE.match(str(model)):
            raise InputError(f"{model} is code, which this server does not run. {remedy}")


def asks(
    verb: str,
) -> Callable[[Callable[Concatenate[Question, P], R]], Asked[P, R]]:
    """Makes a public function of one that takes a `Question`."""

    def decorate(answer: Callable[Concatenate[Question, P], R]) -> Asked[P, R]:
        asked = Asked(verb, answer)
        listed = "\n".join(_described(field) for field in fields_of(verb, "python"))
        asked.__doc__ = f"{(answer.__doc__ or '').rstrip()}\n\n    Args:\n{listed}\n"
        return asked

    return decorate


def _described(field: Field) -> str:
    unit = f" Unit: {field.kind.unit}." if field.kind.unit not in {"", "1"} else ""
    choices = f" One of {', '.join(field.kind.choices)}." if field.kind.choices else ""
    return f"        {field.name}: {field.help}{choices}{unit}"
