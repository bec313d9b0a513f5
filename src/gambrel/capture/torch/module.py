"""A module for the time of a capture: parameters and buffers on meta, every forward noted."""

from __future__ import annotations

import itertools
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import torch

from gambrel.capture.torch.experts import static_forward
from gambrel.capture.torch.twins import is_wrapper
from gambrel.errors import CaptureError
from gambrel.workload import Role

if TYPE_CHECKING:
    from gambrel.capture.torch.session import Session


@contextmanager
def meta_module(model: Any, session: Session) -> Iterator[None]:
    """Replaces what the module holds and puts it back, attributes set meanwhile included.

    Raises:
        CaptureError: A lazy parameter without a shape, or a wrapped or quantized one.
    """
    modules = dict(_unique_modules(model))
    saved = [(m, dict(m.__dict__), _contents(m)) for m in modules]
    try:
        for module, path in modules.items():
            _prepare(module, path, session)
        _label_scripted(model, session)
        yield
    finally:
        for module, attributes, state in saved:
            _restore(module, attributes, state)


def _unique_modules(model: Any) -> Iterator[tuple[Any, str]]:
    for path, module in model.named_modules():
        if not isinstance(module, torch.jit.ScriptModule):
            yield module, path


def _label_scripted(model: Any, session: Session) -> None:
    """Names the weights of compiled modules, which are run as they are."""
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            prefix = f"{path}." if path else ""
            for name, parameter in module.named_parameters(recurse=False):
                _label(parameter, Role.WEIGHT, prefix + name, session)
            for name, buffer in module.named_buffers(recurse=False):
                _label(buffer, Role.BUFFER, prefix + name, session)


def _label(tensor: Any, role: Role, name: str, session: Session) -> None:
    """Names what a compiled module hands to its ops, or its meta twin where that runs instead."""
    if session.options.execute or tensor.is_meta:
        session.ledger.label(tensor, role, name)
    else:
        session.twins.adopt(tensor, role, name, known=role is Role.BUFFER)


def enter_parameters(model: Any, session: Session) -> None:
    """Gives every parameter that the run did not read completely an entry as a whole."""
    scripted = {
        id(p)
        for module in model.modules()
        if isinstance(module, torch.jit.ScriptModule)
        for p in module.parameters(recurse=False)
    }

    def kept(name: str, parameter: Any) -> Any:
        own = session.options.execute or (id(parameter) in scripted and parameter.is_meta)
        return parameter if own else session.twins.adopt(parameter, Role.WEIGHT, name)

    plain = ((n, p) for n, p in model.named_parameters() if not is_wrapper(p))
    session.ledger.enter_whole(itertools.starmap(kept, plain))


def _prepare(module: Any, path: str, session: Session) -> None:
    prefix = f"{path}." if path else ""
    for name, parameter in module._parameters.items():
        if parameter is not None:
            module._parameters[name] = _parameter(parameter, prefix + name, path, session)
    for name, buffer in module._buffers.items():
        if buffer is not None:
            module._buffers[name] = _buffer(buffer, prefix + name, session)
    module.__dict__["forward"] = session.scopes.wrap(module, path, static_forward(module, session))
    if session.options.train:
        module.__dict__["training"] = True


def _parameter(parameter: Any, name: str, path: str, session: Session) -> Any:
    if torch.nn.parameter.is_lazy(parameter):
        raise CaptureError(
            f"parameter {name!r} is lazy and has no shape yet; call the model once with real "
            "inputs, then capture it."
        )
    if session.options.execute:
        session.ledger.label(parameter, Role.WEIGHT, name)
        session.recorder.owners.setdefault(id(parameter), path)
        return parameter
    known = session.twins.parameter(parameter, name)
    session.recorder.owners.setdefault(id(known), path)
    return known


def _buffer(buffer: Any, name: str, session: Session) -> Any:
    if session.options.execute:
        kept = buffer.clone()
        session.ledger.label(kept, Role.BUFFER, name)
        return kept
    return session.twins.adopt(buffer, Role.BUFFER, name)


def _contents(module: Any) -> list[tuple[dict[Any, Any], dict[Any, Any]]]:
    """Every dict that the module holds (parameters, hooks, ...), with a copy of its contents."""
    held = [v for v in module.__dict__.values() if type(v) in (dict, OrderedDict)]
    return [(v, dict(v)) for v in held]


def _restore(
    module: Any,
    attributes: dict[str, Any],
    contents: list[tuple[dict[Any, Any], dict[Any, Any]]],
) -> None:
    for held, content in contents:
        held.clear()
        held.update(content)
    module.__dict__.clear()
    module.__dict__.update(attributes)
