"""Functions of a model and of the operator sets, as the nodes that a call stands for."""

from __future__ import annotations

from typing import Any

from gambrel.capture.onnx.edges import Step


def instantiated(function: Any, call: Any) -> Any:
    """The function with the attributes of a call in the places that refer to them.

    Args:
        function: An ``onnx.FunctionProto``.
        call: The ``onnx.NodeProto`` that calls it.
    """
    given = {a.name: a for a in function.attribute_proto}
    given.update({a.name: a for a in call.attribute})
    found = type(function)()
    found.CopyFrom(function)
    _fill(found.node, given, 0)
    return found


def _fill(nodes: Any, given: dict[str, Any], depth: int) -> None:
    for node in nodes:
        kept = []
        for attribute in node.attribute:
            if attribute.ref_attr_name:
                source = given.get(attribute.ref_attr_name)
                if source is None:
                    continue  # left out by the call: the operator's default
                name = attribute.name
                attribute.CopyFrom(source)
                attribute.name = name
            elif attribute.HasField("g") and depth < 20:
                _fill(attribute.g.node, given, depth + 1)
            kept.append(attribute)
        if len(kept) < len(node.attribute):
            copies = [type(a).FromString(a.SerializeToString()) for a in kept]
            del node.attribute[:]
            node.attribute.extend(copies)


def body_of(schema: Any, node: Any, step: Step, version: int) -> Any:
    """The function that defines an operator in terms of others; None where there is none."""
    from onnx import FunctionProto

    try:
        if schema.has_context_dependent_function:
            types = [_type_bytes(edge) for edge in step.inputs]
            text = schema.get_context_dependent_function_with_opset_version(
                version, node.SerializeToString(), types
            )
        elif schema.has_function:
            text = schema.get_function_with_opset_version(version)
        else:
            return None
    except (RuntimeError, ValueError, TypeError):
        return None
    if not text:
        return None
    body = FunctionProto.FromString(text)
    return instantiated(body, _with_defaults(schema, node))


def _with_defaults(schema: Any, node: Any) -> Any:
    """The call with the operator's default for each attribute that it leaves out."""
    found = type(node)()
    found.CopyFrom(node)
    named = {a.name for a in node.attribute}
    for name, attribute in schema.attributes.items():
        if name not in named and attribute.default_value.name:
            found.attribute.append(attribute.default_value)
    return found


def _type_bytes(edge: Any) -> bytes:
    from gambrel.capture.onnx.shapes import type_of

    if edge is None or not edge.code:
        return b""
    return bytes(type_of(edge.shape, edge.code).SerializeToString())
