"""What an inertly read checkpoint holds: modules, hyper-parameters, parameters."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from gambrel.capture.files.records import Instance, Name, TensorInfo

#: Deepest nest of modules, and of dicts in which a state dict may hide.
MAX_DEPTH: Final = 64
MAX_NESTING: Final = 4
#: Most modules that are listed: a cycle or a doubling tree is no model.
MAX_MODULES: Final = 200_000

#: Names under which checkpoints keep the weights, best first.
_USUAL: Final = ("ema", "model", "state_dict", "model_state_dict", "module", "net", "weights")
#: Attributes that every module has and that say nothing.
_BOOKKEEPING: Final = frozenset({"training", "dump_patches"})


@dataclass(frozen=True, slots=True)
class ModuleInfo:
    """One module of a pickled model.

    Attributes:
        path: For example ``"layer1.0.conv1"``; empty for the model itself.
        cls: Name of its class.
        options: Plain attributes: kernel sizes, features, flags.
        parameters: By name, e.g. ``"weight"``.
        buffers: By name.
    """

    path: str
    cls: str
    options: dict[str, Any] = field(default_factory=dict)
    parameters: dict[str, TensorInfo] = field(default_factory=dict)
    buffers: dict[str, TensorInfo] = field(default_factory=dict)


def is_module(value: Any) -> bool:
    """Whether a value is a pickled ``torch.nn.Module``."""
    state = value.state if isinstance(value, Instance) else None
    return isinstance(state, dict) and "_modules" in state and "_parameters" in state


def find_module(root: Any) -> Instance | None:
    """The model in a checkpoint: the root itself or under one of the usual names."""
    if is_module(root):
        return root if isinstance(root, Instance) else None
    if isinstance(root, dict):
        for name in _USUAL:
            found = root.get(name)
            if is_module(found) and isinstance(found, Instance):
                return found
    return None


def walk_modules(root: Instance) -> Iterator[ModuleInfo]:
    """All modules, parents first; a module reached twice is listed twice, a cycle is not."""
    stack: list[tuple[str, Instance, tuple[int, ...]]] = [("", root, ())]
    listed = 0
    while stack and listed < MAX_MODULES:
        path, module, above = stack.pop()
        listed += 1
        state = module.state if isinstance(module.state, dict) else {}
        yield ModuleInfo(
            path=path,
            cls=module.cls,
            options=_options(state),
            parameters=_tensors(state.get("_parameters")),
            buffers=_tensors(state.get("_buffers")),
        )
        if id(module) in above or len(above) >= MAX_DEPTH:
            continue
        children = state.get("_modules")
        for name, child in reversed(list(children.items() if isinstance(children, dict) else ())):
            if is_module(child) and id(child) not in (*above, id(module)):
                inner = f"{path}.{name}" if path else str(name)
                stack.append((inner, child, (*above, id(module))))


def state_dict(root: Any) -> dict[str, TensorInfo]:
    """Names and forms of all tensors: of the module in a checkpoint, or of its state dict."""
    module = find_module(root)
    if module is not None:
        return {
            f"{info.path}.{name}" if info.path else name: tensor
            for info in walk_modules(module)
            for name, tensor in (info.parameters | info.buffers).items()
        }
    return _nested_state_dict(root, MAX_NESTING)


def _nested_state_dict(value: Any, depth: int) -> dict[str, TensorInfo]:
    if isinstance(value, Instance) and isinstance(value.state, dict):
        value = dict(_pairs(value)) or value.state
    if not isinstance(value, dict) or depth == 0:
        return {}
    own = _tensors(value)
    if own:
        return own
    ordered = [value[n] for n in _USUAL if n in value] + list(value.values())[:100]
    return next((d for d in (_nested_state_dict(v, depth - 1) for v in ordered) if d), {})


def _pairs(value: Instance) -> list[tuple[Any, Any]]:
    return [i for i in value.items if isinstance(i, tuple) and len(i) == 2 and _plain(i[0])]


def _tensors(value: Any) -> dict[str, TensorInfo]:
    if not isinstance(value, dict):
        return {}
    return {str(k): v for k, v in value.items() if isinstance(v, TensorInfo)}


def _options(state: dict[Any, Any]) -> dict[str, Any]:
    return {
        str(name): value
        for name, value in state.items()
        if not str(name).startswith("_") and name not in _BOOKKEEPING and _plain(value)
    }


def _plain(value: Any) -> bool:
    """A number, a text, a name, None, or a short tuple of them."""
    if isinstance(value, tuple):
        return len(value) <= 8 and all(isinstance(v, (int, float, str)) for v in value)
    return value is None or isinstance(value, (bool, int, float, str, Name))
