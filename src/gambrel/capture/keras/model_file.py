"""The graph in a ``.keras`` archive: layers, how often each is called, with what."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from gambrel.capture.files.archive import open_zip, read_member
from gambrel.errors import FileFormatError, told

CONFIG: Final = "config.json"
#: Larger descriptions are no models; nested deeper, hostile.
MAX_CONFIG_BYTES: Final = 50_000_000
_MAX_DEPTH: Final = 30
_GRAPHS: Final = ("Functional", "Model", "Sequential")


@dataclass(frozen=True, slots=True)
class TensorRef:
    """A result of a call.

    Attributes:
        layer: Name of the layer.
        call: Which of its calls.
        index: Which of the results.
    """

    layer: str
    call: int
    index: int


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasLayer:
    """A layer of the graph.

    Attributes:
        kind: Name of its class.
        name: In the graph.
        config: Its arguments.
        calls: Positional arguments of each call: references, numbers, lists of either.
        keywords: Numbers and flags by name of each call.
        inner: The graph of a nested model.
    """

    kind: str
    name: str
    config: dict[str, Any]
    calls: tuple[tuple[Any, ...], ...] = ()
    keywords: tuple[dict[str, Any], ...] = ()
    inner: KerasGraph | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class KerasGraph:
    """A model.

    Attributes:
        layers: By name.
        inputs: References, in order.
        outputs: References, in order.
        shapes: What the file says of results, sizes that it leaves open as None.
    """

    layers: dict[str, KerasLayer]
    inputs: tuple[TensorRef, ...]
    outputs: tuple[TensorRef, ...]
    shapes: dict[TensorRef, tuple[int | None, ...]] = field(default_factory=dict)


def open_keras(path: Path) -> KerasGraph:
    """Reads the graph of an archive; nothing in it is run, weights are not read.

    Raises:
        FileFormatError: It is damaged, or its model is code.
    """
    with open_zip(path) as archive:
        if CONFIG not in archive.namelist():
            raise FileFormatError(f"holds no {CONFIG}")
        config = json.loads(read_member(archive, CONFIG, MAX_CONFIG_BYTES))
    return graph_of(config)


def graph_of(config: dict[str, Any], depth: int = 0) -> KerasGraph:
    """The graph of a model's configuration.

    Raises:
        FileFormatError: The model is a class of the user's, or nested too deeply.
    """
    kind = str(config["class_name"])
    if kind not in _GRAPHS or depth > _MAX_DEPTH or "layers" not in config["config"]:
        raise FileFormatError(
            f"the model is a class of its own ({told(kind)}), whose layers are code: load it in a "
            "function (keras.saving.load_model, KERAS_BACKEND=jax) and give file.py:function."
        )
    inner = config["config"]
    entries = inner["layers"]
    return _sequential(inner, entries, depth) if kind == "Sequential" else _functional(
        inner, entries, depth
    )  # fmt: skip


def _layer(entry: dict[str, Any], calls: tuple[tuple[Any, ...], ...], depth: int) -> KerasLayer:
    config = entry["config"]
    kind = str(entry["class_name"])
    nested = graph_of(entry, depth + 1) if kind in _GRAPHS and "layers" in config else None
    own = {**config, "_built": entry.get("build_config") or {}}
    name = str(entry.get("name") or config.get("name"))
    return KerasLayer(kind=kind, name=name, config=own, calls=calls, inner=nested)


def _sequential(config: dict[str, Any], entries: list[dict[str, Any]], depth: int) -> KerasGraph:
    layers: dict[str, KerasLayer] = {}
    before: TensorRef | None = None
    given = config.get("build_input_shape")
    if entries and entries[0]["class_name"] != "InputLayer":
        given = given or (entries[0].get("build_config") or {}).get("input_shape")
        if given is None:
            raise FileFormatError("the model was saved before it was built; its sizes are open.")
        start = {"class_name": "InputLayer", "name": "input", "config": {"batch_shape": given}}
        entries = [start, *entries]
    for entry in entries:
        layer = _layer(entry, () if before is None else ((before,),), depth)
        if layer.name in layers:
            raise FileFormatError(f"two layers are called {told(layer.name)}.")
        layers[layer.name] = layer
        before = TensorRef(layer.name, 0, 0)
    if before is None:
        raise FileFormatError("holds no layers.")
    first = TensorRef(next(iter(layers)), 0, 0)
    return KerasGraph(layers=layers, inputs=(first,), outputs=(before,))


def _functional(config: dict[str, Any], entries: list[dict[str, Any]], depth: int) -> KerasGraph:
    shapes: dict[TensorRef, tuple[int | None, ...]] = {}
    layers: dict[str, KerasLayer] = {}
    for entry in entries:
        calls = tuple(_arguments(node, shapes) for node in entry.get("inbound_nodes", ()))
        layer = replace(_layer(entry, calls, depth), keywords=tuple(_keywords(entry)))
        layers[layer.name] = layer
    return KerasGraph(
        layers=layers,
        inputs=tuple(_listed(config["input_layers"])),
        outputs=tuple(_listed(config["output_layers"])),
        shapes=shapes,
    )


def _arguments(node: Any, shapes: dict[TensorRef, tuple[int | None, ...]]) -> tuple[Any, ...]:
    """The tensors and numbers of one call."""
    if isinstance(node, list):  # as Keras 2 wrote it: name, call, result, keywords
        return (tuple(TensorRef(str(e[0]), int(e[1]), int(e[2])) for e in node),)
    tensors = [_read(value, shapes) for value in node.get("args", ())]
    named = [_read(value, shapes) for value in (node.get("kwargs") or {}).values()]
    return (*tensors, *(value for value in named if isinstance(value, TensorRef)))


def _keywords(entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """What each call was given by name and is no tensor."""
    for node in entry.get("inbound_nodes", ()):
        named = (node.get("kwargs") or {}) if isinstance(node, dict) else {}
        yield {k: v for k, v in named.items() if isinstance(v, (bool, int, float, str))}


def _read(value: Any, shapes: dict[TensorRef, tuple[int | None, ...]]) -> Any:
    if isinstance(value, list):
        return tuple(_read(one, shapes) for one in value)
    if isinstance(value, dict) and value.get("class_name") == "__keras_tensor__":
        layer, call, index = value["config"]["keras_history"]
        ref = TensorRef(str(layer), int(call), int(index))
        shapes[ref] = tuple(value["config"]["shape"])
        return ref
    return value


def _listed(value: Any) -> Iterator[TensorRef]:
    """``["x", 0, 0]``, a list or a mapping of such."""
    if isinstance(value, dict):
        value = list(value.values())
    if value and isinstance(value[0], str):
        value = [value]
    for layer, call, index in value:
        yield TensorRef(str(layer), int(call), int(index))
