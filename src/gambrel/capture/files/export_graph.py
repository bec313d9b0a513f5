"""The graph of an exported program (torch.export's JSON) at given sizes, as a workload."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any, Final

from gambrel.capture.aten import Described, TensorArg, describe, flatten
from gambrel.capture.files.export_tensors import DTYPES, GraphValue, Tensors
from gambrel.capture.files.lowering import lower
from gambrel.errors import FileFormatError
from gambrel.workload import Op, Role, Workload

#: What the signature calls an input → its role, and where its name stands.
_ROLES: Final[dict[str, tuple[Role, str]]] = {
    "parameter": (Role.WEIGHT, "parameter_name"),
    "buffer": (Role.CONSTANT, "buffer_name"),
    "tensor_constant": (Role.CONSTANT, "tensor_constant_name"),
    "user_input": (Role.INPUT, ""),
}
#: Kinds that the recorder of live models leaves out as well.
_FREE: Final = frozenset({"view", "sync"})
#: Deepest nest of graphs within graphs.
_MAX_DEPTH: Final = 32
#: Keyword-only in the schemas of ATen; older files do not mark them.
_KEYWORD_ONLY: Final = frozenset(
    {"dtype", "layout", "device", "pin_memory", "memory_format", "alpha", "approximate"}
    | {"rounding_mode", "enable_gqa", "correction", "generator"}
)
_FRAME: Final = re.compile(r'File "([^"]+)", line (\d+)')
_TORCH: Final = re.compile(r"(?:^|[/\\](?:site|dist)-packages[/\\])torch[/\\]")


@dataclass(slots=True)
class _Scope:
    """A graph, and what its names mean."""

    graph: Mapping[str, Any]
    tensors: Tensors
    ops: list[Op]
    depth: int = 0
    values: dict[str, GraphValue] = field(default_factory=dict)

    def value(self, name: str) -> GraphValue:
        """The value of a name; made from the file's description when it is new."""
        found = self.values.get(name)
        if found is None:
            meta = self.graph["tensor_values"].get(name)
            if meta is None:
                raise FileFormatError(f"the tensor {name!r} is not described.")
            found = self.tensors.create(meta, self.graph.get("sym_int_values") or {})
            self.values[name] = found
        return found

    def size(self, entry: Any) -> Any:
        """One size, or a list of them."""
        if isinstance(entry, list):
            return [self.size(e) for e in entry]
        return self.tensors.size(entry, self.graph.get("sym_int_values") or {})


def build_workload(
    program: Mapping[str, Any], sizes: Mapping[str, int], *, name: str, origin: str
) -> Workload:
    """The workload of an exported program at given values of its symbols.

    Args:
        program: The decoded JSON.
        sizes: A value for each symbol of the program.
        name: Of the workload.
        origin: Where it comes from.

    Raises:
        FileFormatError: The program contradicts itself or lacks a part.
    """
    graph = program["graph_module"]["graph"]
    scope = _Scope(graph, Tensors(sizes), [])
    _declare_inputs(scope, program["graph_module"]["signature"]["input_specs"])
    for node in graph["nodes"]:
        _walk(scope, node)
    outputs = [scope.value(n) for n in _names(graph.get("outputs") or ())]
    return scope.tensors.workload(name, scope.ops, outputs, origin)


@lru_cache(maxsize=4096)
def module_path(stack: str) -> str:
    """The innermost module of a stack ``key,path,type;key,path,type``.

    Paths are ``layer1.0.conv1``; older exporters write ``L['self'].layer1.0.conv1``.
    """
    last = stack.split(";")[-1].split(",")
    if len(last) < 3:
        return ""
    return last[1].removeprefix("L['self']").removeprefix(".").split("@")[0]


@lru_cache(maxsize=4096)
def source_line(trace: str) -> str:
    """``file.py:line`` of the innermost frame that is not torch's own; empty when unknown."""
    frames = [(path, line) for path, line in _FRAME.findall(trace) if not _TORCH.search(path)]
    if not frames:
        return ""
    path, line = frames[-1]
    name = PureWindowsPath(path).name if "\\" in path else PurePosixPath(path).name
    return f"{name}:{line}"


def _declare_inputs(scope: _Scope, specs: list[Mapping[str, Any]]) -> None:
    for spec in specs:
        ((kind, body),) = spec.items()
        role, named = _ROLES.get(kind, (Role.INPUT, ""))
        argument = body.get("arg") or {}
        name = argument.get("name") or (argument.get("as_tensor") or {}).get("name")
        if name is None or name not in scope.graph["tensor_values"]:
            continue  # a number, a text, None or an object
        value = scope.value(name)
        value.memory.role, value.memory.name = role, str(body.get(named) or name)
        if role is Role.WEIGHT:
            scope.tensors.entry(value)  # read by an op or not


def _walk(scope: _Scope, node: Mapping[str, Any]) -> None:
    op, overload = _split(str(node["target"]))
    inner = next((a["arg"]["as_graph"] for a in node["inputs"] if a["arg"].get("as_graph")), None)
    if inner is not None and op in _WRAPPERS:
        _inline(scope, node, inner["graph"])
        return
    args, kwargs = _arguments(scope, node)
    results = [scope.value(n) for n in _names(node.get("outputs") or ())]
    described = describe(op, overload, args, kwargs, [r.arg for r in results])
    read = next(flatten(args), None)
    in_place = op.endswith("_") and not op.endswith("__")
    if read is not None and (in_place or _is_alias(op, described)):
        for result in results:
            result.memory = scope.tensors.of(read).memory
    if described.kind in _FREE:
        return
    given = {id(scope.tensors.of(t).memory) for t in (*flatten(args), *flatten(kwargs))}
    for step, meaning in lower(op, described, scope.tensors):
        _append(scope, node, step, meaning, given)


#: Ops that only run another graph: with gradients on or off, under autocast, checkpointed.
_WRAPPERS: Final = frozenset(
    {
        "higher_order.wrap_with_set_grad_enabled",
        "higher_order.wrap_with_autocast",
        "higher_order.tag_activation_checkpoint",
        "higher_order.wrap",
    }
)


def _inline(scope: _Scope, node: Mapping[str, Any], graph: Mapping[str, Any]) -> None:
    """Walks a graph that an op runs: its inputs are the op's tensors, its outputs the results."""
    if scope.depth >= _MAX_DEPTH:
        raise FileFormatError(f"graphs nested more than {_MAX_DEPTH} deep; refused.")
    args, kwargs = _arguments(scope, node)
    inside = _Scope(graph, scope.tensors, scope.ops, scope.depth + 1)
    given = [scope.tensors.of(t) for t in (*flatten(args), *flatten(kwargs))]
    for name, value in zip(_names(graph.get("inputs") or ()), given, strict=False):
        inside.values[name] = value
    for child in graph["nodes"]:
        _walk(inside, child)
    results = [inside.value(n) for n in _names(graph.get("outputs") or ())]
    for name, value in zip(_names(node.get("outputs") or ()), results, strict=False):
        scope.values[name] = value


def _append(
    scope: _Scope, node: Mapping[str, Any], op: str, found: Described, given: set[int]
) -> None:
    """Adds an op: inputs in their present version, then the writes, then the outputs.

    Memory of an argument (``given``) that is written gets a new version.
    """
    tensors = scope.tensors
    inputs = tuple(tensors.entry(tensors.of(t)) for t in found.inputs)
    written = [tensors.of(t) for t in found.outputs]
    for memory in {id(v.memory): v.memory for v in written}.values():
        memory.version += op.endswith("_") or id(memory) in given
    metadata = node.get("metadata") or {}
    scope.ops.append(
        Op(
            kind=found.kind,
            inputs=inputs,
            outputs=tuple(map(tensors.entry, written)),
            sizes=found.sizes,
            attrs=found.attrs,
            name=op,
            module=module_path(str(metadata.get("nn_module_stack") or "")),
            source=source_line(str(metadata.get("stack_trace") or "")),
        )
    )


def _is_alias(op: str, described: Described) -> bool:
    allocates = op.rpartition(".")[2].startswith(("empty", "new_empty"))
    return described.kind == "view" and not allocates


def _arguments(scope: _Scope, node: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Arguments by position and by name; ``kind`` 2 marks the latter."""
    args: list[Any] = []
    kwargs: dict[str, Any] = {}
    for given in node["inputs"]:
        value = _argument(scope, given["arg"])
        if given.get("kind") == 2 or given["name"] in _KEYWORD_ONLY:
            kwargs[given["name"]] = value
        else:
            args.append(value)
    return args, kwargs


def _argument(scope: _Scope, arg: Mapping[str, Any]) -> Any:
    kind, value = next(iter(arg.items()))
    if kind == "as_none" or value is None:
        return None
    if kind == "as_tensor":
        return scope.value(value["name"]).arg
    if kind in ("as_tensors", "as_optional_tensors", "as_nested_tensors"):
        return [_member(scope, item) for item in value]
    if kind in ("as_sym_int", "as_sym_ints"):
        return scope.size(value)
    return DTYPES.get(value) if kind == "as_scalar_type" else value


def _member(scope: _Scope, item: Any) -> TensorArg | list[Any] | None:
    """A tensor of a list: by name, or wrapped once more, or absent."""
    if isinstance(item, list):
        return [_member(scope, inner) for inner in item]
    inner = item.get("as_tensor", item)
    return scope.value(inner["name"]).arg if isinstance(inner, dict) and "name" in inner else None


def _names(outputs: Any) -> Iterator[str]:
    """Names of the tensors among inputs or outputs."""
    for output in outputs:
        for kind, value in output.items():
            if value is None or kind not in ("as_tensor", "as_tensors", "as_optional_tensors"):
                continue
            for item in value if isinstance(value, list) else [value]:
                inner = item.get("as_tensor", item)
                if isinstance(inner, dict) and "name" in inner:
                    yield inner["name"]


def _split(target: str) -> tuple[str, str]:
    """``torch.ops.aten.add.Tensor`` → ``aten.add``, ``Tensor``."""
    parts = target.removeprefix("torch.ops.").split(".")
    if target.startswith("torch.ops.") and len(parts) == 3:
        return f"{parts[0]}.{parts[1]}", parts[2]
    if target.startswith(("_operator.", "operator.", "math.", "torch.sym_")):
        return "aten.sym_size", "int"  # arithmetic on sizes is the host's
    return target.removeprefix("torch.ops."), "default"
