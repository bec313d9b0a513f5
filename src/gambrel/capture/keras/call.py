"""One call of a layer of Keras, as its rule sees it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Final

from gambrel.capture.graph.writer import Writer
from gambrel.capture.onnx.edges import Edge
from gambrel.workload import Role

#: onnx.TensorProto.DataType of the formats that layers compute in.
CODES: Final = {"float32": 1, "float16": 10, "bfloat16": 16, "float64": 11, "int32": 6, "int64": 7}


@dataclass(slots=True)
class LayerCall:
    """A call.

    Attributes:
        writer: Where steps go.
        kind: Name of the class of the layer.
        path: Of the layer; its weights are told by it.
        config: Its arguments.
        inputs: Tensors that go in.
        values: Everything else that it was called with.
        keywords: Of that, what had a name.
        stated: The form of the result, where the file says it.
    """

    writer: Writer
    kind: str
    path: str
    config: Mapping[str, Any]
    inputs: list[Edge]
    values: tuple[Any, ...] = ()
    stated: tuple[int, ...] | None = None
    keywords: Mapping[str, Any] = field(default_factory=dict)

    @property
    def x(self) -> Edge:
        """The first input.

        Raises:
            ValueError: There is none, or its form is unknown.
        """
        if not self.inputs or self.inputs[0].shape is None:
            raise ValueError(f"{self.kind} has an input of unknown form")
        return self.inputs[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the first input."""
        return self.x.shape or ()

    @property
    def channels_first(self) -> bool:
        """Whether channels stand before positions."""
        return self.config.get("data_format") == "channels_first"

    @property
    def channels(self) -> int:
        """Of the first input."""
        return self.shape[1 if self.channels_first else -1]

    @property
    def positions(self) -> tuple[int, ...]:
        """Sizes of an image, or the steps of a sequence."""
        return self.shape[2:] if self.channels_first else self.shape[1:-1]

    def image(self, positions: tuple[int, ...], channels: int) -> tuple[int, ...]:
        """The form of an image of the same batch."""
        middle = (channels, *positions) if self.channels_first else (*positions, channels)
        return (self.shape[0], *middle)

    def out(self, shape: tuple[int, ...], code: int | None = None) -> Edge:
        """A new edge."""
        if len(shape) == 0 or min(shape) < 1 or prod(shape) > 1 << 48:
            raise ValueError(f"{self.kind} makes an impossible form")
        return Edge(self.path, shape, self.code if code is None else code)

    @property
    def code(self) -> int:
        """The format that the layer computes in."""
        policy = self.config.get("dtype")
        if isinstance(policy, Mapping):
            policy = policy.get("config", {}).get("name")
        name = str(policy or "").removeprefix("mixed_")
        known = CODES.get(name)
        return known or (self.inputs[0].code if self.inputs else 1)

    def weight(self, name: str, shape: tuple[int, ...], role: Role = Role.WEIGHT) -> Edge:
        """A stored tensor of the layer: the same one in each of its calls."""
        edge = Edge(f"{self.path}.{name}", shape, self.code, None, role, (self.path, name))
        if prod(shape) < 1 or prod(shape) > 1 << 44:
            raise ValueError(f"{self.kind} has impossible weights")
        return self.writer.stored(edge)

    def whole(self, name: str, default: int | None = None) -> int:
        """A whole number among the arguments.

        Raises:
            ValueError: It is none.
        """
        value = self.config.get(name)
        value = default if value is None else value
        if isinstance(value, bool) or not isinstance(value, int) or not 0 < value < 1 << 40:
            raise ValueError(f"{self.kind} has {name}={value!r:.40}")
        return value

    def sizes(self, name: str, count: int, default: int = 1) -> tuple[int, ...]:
        """As many whole numbers as there are positions."""
        value = self.config.get(name)
        value = default if value is None else value
        listed = list(value) if isinstance(value, (list, tuple)) else [value] * count
        if len(listed) != count or any(type(n) is not int or not 0 <= n < 1 << 40 for n in listed):
            raise ValueError(f"{self.kind} has {name}={value!r:.40}")
        return tuple(listed)
