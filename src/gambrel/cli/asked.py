"""What check, select, compare and what-if all let a user choose about the model: declared once."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from gambrel.cli import choices

_Sparse = Annotated[
    bool, typer.Option("--sparse", help="Hold products with weights against sparse peaks.")
]
_Engine = Annotated[
    str | None, typer.Option(help="Hold matrix work against this engine only, e.g. dla.")
]
_Train = Annotated[
    bool, typer.Option("--train", help="Include backward and optimizer (models as code).")
]

#: Option → type with help, and default; in the order of the help.
_OPTIONS: Final[dict[str, tuple[Any, Any]]] = {
    "seq": (choices.Seq, None),
    "context": (choices.Context, None),
    "image": (choices.Image, None),
    "phase": (choices.Phase, None),
    "size": (choices.Size, None),
    "runtime": (choices.Runtime, None),
    "sparse": (_Sparse, False),
    "engine": (_Engine, None),
    "train": (_Train, False),
    "trust": (choices.Trust, False),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The choices.

    Attributes:
        sizes: Size → value; None is the model's own.
        phase: For language models.
        runtime: How the model is executed.
        sparsity: Whether products with weights meet the sparse peaks.
        engine: Hold matrix work against this one only.
        train: Include backward and optimizer.
        trust: Whether files may run code.
    """

    sizes: dict[str, int | None]
    phase: str | None
    runtime: str | None
    sparsity: bool
    engine: str | None
    train: bool
    trust: bool

    @property
    def arguments(self) -> dict[str, Any]:
        """For the functions of `gambrel.api.advise`."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


def asks(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command the options of a question; it takes them as one argument, ``asked``."""

    @functools.wraps(command)
    def wrapper(**given: Any) -> None:
        own = {name: given.pop(name) for name in _OPTIONS}
        command(**given, asked=_asked(**own))

    signature = inspect.signature(command, eval_str=True)
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        if name != "asked":
            parameters.append(parameter)
            continue
        parameters += [
            inspect.Parameter(option, parameter.kind, default=default, annotation=annotation)
            for option, (annotation, default) in _OPTIONS.items()
        ]
    wrapper.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    wrapper.__annotations__ = {p.name: p.annotation for p in parameters} | {"return": None}
    return wrapper


def _asked(
    *,
    seq: int | None,
    context: int | None,
    image: int | None,
    size: list[str] | None,
    sparse: bool,
    **plain: Any,
) -> Asked:
    return Asked(sizes=choices.sizes_of(seq, context, image, size), sparsity=sparse, **plain)
