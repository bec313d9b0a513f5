"""An entry of the zoo: an architecture, its names, and the sizes to capture it at."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import product
from typing import Any

from gambrel.workload import Symbol, Workload

Point = Mapping[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """A model that was built once and can be captured at any sizes.

    Attributes:
        capture: Sizes → workload at these sizes.
        parameters: Distinct parameters of the model.
    """

    capture: Callable[[Point], Workload]
    parameters: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One entry.

    Attributes:
        name: Canonical name, e.g. ``"resnet50"``.
        family: The heading it is listed under.
        about: One line.
        build: Makes the model.
        symbols: Sizes that become symbolic, with the ranges claimed.
        values: For each symbol the values of the grid: degree + 1 of them.
        held_out: Points off the grid that verify the polynomials.
        aliases: Other names, without the phase.
        source: Package that the architecture comes from; with its version it is the origin.
        assumptions: Sentences to be printed with every result.
    """

    name: str
    family: str
    about: str
    build: Callable[[], Subject]
    symbols: tuple[Symbol, ...]
    values: Mapping[str, tuple[int, ...]]
    held_out: tuple[Point, ...]
    source: str
    aliases: tuple[str, ...] = ()
    assumptions: tuple[str, ...] = field(default=())

    @property
    def degrees(self) -> dict[str, int]:
        """Highest power of each symbol: one less than its values on the grid."""
        return {name: len(values) - 1 for name, values in self.values.items()}

    @property
    def points(self) -> list[dict[str, int]]:
        """All points of capture: the grid, then those held out."""
        grid = product(*self.values.values())
        return [dict(zip(self.values, p, strict=True)) for p in grid] + [
            dict(p) for p in self.held_out
        ]

    @property
    def origin(self) -> str:
        """For example ``"torchvision 0.28.0 resnet50"``."""
        from importlib.metadata import version

        package, _, rest = self.source.partition(" ")
        return f"{package} {version(package).split('+')[0]} {rest}".strip()


def classifier(
    name: str,
    about: str,
    build: Callable[[], Subject],
    aliases: tuple[str, ...],
    source: str,
    *,
    side: int | None = None,
    assumptions: tuple[str, ...] = (),
) -> Entry:
    """An image classifier; of any side that is a multiple of 32 where a default is given.

    Args:
        name: As of `Entry`, like the others.
        about: One line.
        build: Makes the model.
        aliases: Other names.
        source: Package and builder.
        side: The default, for networks of convolutions; None for a model made for one side.
        assumptions: Sentences to be printed with every result.
    """
    symbols, values = (batch(),), {"batch": (1, 3)}
    held_out: tuple[Point, ...] = ({"batch": 2}, {"batch": 8})
    if side is not None:
        image = Symbol(
            name="image", default=side, minimum=64, multiple_of=32, about="image side in pixels"
        )
        symbols, values = (*symbols, image), {**values, "image": (64, 160, 224)}
        held_out = ({"batch": 2, "image": 320}, {"batch": 7, "image": 96})
    return Entry(
        name=name,
        family="image classification",
        about=about,
        build=build,
        symbols=symbols,
        values=values,
        held_out=held_out,
        aliases=aliases,
        source=source,
        assumptions=assumptions,
    )


def module_subject(
    build: Callable[[], Any], inputs: Callable[[Any, Point], tuple[tuple[Any, ...], dict[str, Any]]]
) -> Subject:
    """A subject from a module and its example inputs at given sizes."""
    from gambrel.capture.torch import capture

    module = build()

    def at(point: Point) -> Workload:
        args, kwargs = inputs(module, point)
        return capture(module, args, kwargs, source=False)

    return Subject(capture=at, parameters=count_parameters(module))


def lean(make: Callable[[], Any]) -> Callable[[], Any]:
    """A builder in inference mode that needs no memory for weights."""

    def build() -> Any:
        from gambrel.capture.torch import ensure_torchvision, lean_init

        ensure_torchvision()
        with lean_init():
            return make().eval()

    return build


def count_parameters(module: Any) -> int:
    """Distinct parameters: those that are tied count once."""
    return sum(p.numel() for p in module.parameters())


def empty(*shape: int) -> Any:
    """An fp32 tensor without memory."""
    import torch

    return torch.empty(shape, device="meta")


def tokens(*shape: int) -> Any:
    """Token ids."""
    import torch

    return torch.zeros(shape, dtype=torch.long)


def batch(about: str = "images at once") -> Symbol:
    """The symbol of the batch size."""
    return Symbol(name="batch", default=1, about=about)
