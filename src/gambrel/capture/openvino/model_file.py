"""An OpenVINO IR opened: its layers with their ports, in an order in which they can run."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from gambrel.capture.files.archive import check_file
from gambrel.capture.onnx.attributes import checked_shape
from gambrel.errors import FileFormatError, told

#: The structure of the largest language models is some 20 MB.
_MAX_BYTES: Final = 256 * 2**20
_MAX_LAYERS: Final = 400_000
#: Element types → onnx.TensorProto.DataType, the numbers of `capture.onnx.edges.DTYPES`.
CODES: Final[dict[str, int]] = {
    "f64": 11,
    "fp64": 11,
    "f32": 1,
    "fp32": 1,
    "f16": 10,
    "fp16": 10,
    "bf16": 16,
    "f8e4m3": 17,
    "f8e5m2": 19,
    "f8e8m0": 24,
    "f4e2m1": 23,
    "i64": 7,
    "i32": 6,
    "i16": 5,
    "i8": 3,
    "i4": 22,
    "nf4": 22,
    "u64": 13,
    "u32": 12,
    "u16": 4,
    "u8": 2,
    "u4": 21,
    "u2": 25,
    "boolean": 9,
    "bool": 9,
}

#: Sizes, -1 where open, and the number of the element type.
Port = tuple[tuple[int, ...], int]


@dataclass(slots=True)
class IrLayer:
    """A layer of the file.

    Attributes:
        id: Its number.
        kind: Its type, e.g. ``"Convolution"``.
        name: As the file calls it.
        data: Its attributes, as texts.
        inputs: Port → form.
        outputs: Port → form.
        sources: Port → layer and port that feed it.
        bodies: Layers of the bodies of a loop or of both branches of an If.
        maps: How ports of the layer and of its bodies are tied together, as texts.
    """

    id: str
    kind: str
    name: str
    data: dict[str, str]
    inputs: dict[str, Port]
    outputs: dict[str, Port]
    sources: dict[str, tuple[str, str]] = field(default_factory=dict)
    bodies: list[list[IrLayer]] = field(default_factory=list)
    maps: list[list[dict[str, str]]] = field(default_factory=list)


def open_model(path: Path) -> list[IrLayer]:
    """The layers of a file, every one behind those that feed it.

    Raises:
        FileFormatError: It is no XML, no IR, or too large.
    """
    size = check_file(path)
    if size > _MAX_BYTES:
        raise FileFormatError(f"{size:,} bytes of structure are more than any model; refused.")
    text = path.read_bytes()
    if b"<!DOCTYPE" in text or b"<!ENTITY" in text:
        raise FileFormatError("declares a document type or entities, which no IR does; refused.")
    if text.count(b"<layer ") > _MAX_LAYERS:
        raise FileFormatError(f"more than {_MAX_LAYERS:,} layers; refused.")
    try:
        root = ElementTree.fromstring(text)
    except (ElementTree.ParseError, LookupError) as error:
        raise FileFormatError(f"damaged or truncated XML ({error}); save it again.") from None
    if root.tag != "net":
        raise FileFormatError(f"XML of another kind (<{told(root.tag)}>, not <net>).")
    if int(root.get("version", "0")) < 10:
        version = told(root.get("version", "?"))
        raise FileFormatError(
            f"IR version {version}; convert the model with OpenVINO 2020.1 or newer."
        )
    return _layers(root, 0)


def _layers(net: ElementTree.Element, depth: int) -> list[IrLayer]:
    if depth > 20:
        raise FileFormatError("bodies nested more than 20 deep; refused.")
    listed = net.find("layers")
    if listed is None or not len(listed):
        raise FileFormatError("holds no layers; was the conversion interrupted?")
    layers = {layer.id: layer for layer in (_layer(e, depth) for e in listed)}
    for edge in net.iterfind("edges/edge"):
        target = layers.get(edge.get("to-layer", ""))
        source = layers.get(edge.get("from-layer", ""))
        if target is None or source is None:
            raise FileFormatError("an edge names a layer that does not exist.")
        target.sources[edge.get("to-port", "")] = (source.id, edge.get("from-port", ""))
    return _ordered(layers)


def _layer(element: ElementTree.Element, depth: int) -> IrLayer:
    data = element.find("data")
    name = element.get("name", "")
    layer = IrLayer(
        id=element.get("id", ""),
        kind=element.get("type", ""),
        name=name,
        data={} if data is None else dict(data.attrib),
        inputs=_ports(element.find("input"), name),
        outputs=_ports(element.find("output"), name),
    )
    for tag in ("body", "then_body", "else_body"):
        body = element.find(tag)
        if body is not None:
            layer.bodies.append(_layers(body, depth + 1))
    for tag in ("port_map", "then_port_map", "else_port_map", "back_edges"):
        found = element.find(tag)
        if found is not None:
            layer.maps.append([{"tag": e.tag, **e.attrib} for e in found])
    return layer


def _ports(element: ElementTree.Element | None, name: str) -> dict[str, Port]:
    found: dict[str, Port] = {}
    for port in () if element is None else element:
        sizes = [int(dim.text or "") for dim in port.iterfind("dim")]
        checked_shape([n if n != -1 else 1 for n in sizes], name)
        found[port.get("id", "")] = (tuple(sizes), CODES.get(port.get("precision", "").lower(), 0))
    return found


def _ordered(layers: dict[str, IrLayer]) -> list[IrLayer]:
    """Every layer behind its sources, otherwise in the order of the file.

    Raises:
        FileFormatError: They run in a circle.
    """
    found: list[IrLayer] = []
    state: dict[str, int] = {}
    for first in layers:
        stack = [first]
        while stack:
            key = stack[-1]
            if state.get(key) == 2:
                stack.pop()
                continue
            waiting = [s for s, _ in layers[key].sources.values() if state.get(s) != 2]
            if state.get(key) == 1 and waiting:
                raise FileFormatError("the layers of the graph run in a circle.")
            state[key] = 1
            if waiting:
                stack.extend(waiting)
                continue
            state[key] = 2
            found.append(layers[stack.pop()])
    return found
