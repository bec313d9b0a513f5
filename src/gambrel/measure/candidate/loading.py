"""A candidate from its code: a function or module that is called with the reference's inputs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from gambrel.errors import CaptureError, InputError


def load_candidate(target: str, state: dict[str, Any], device: Any) -> Any:
    """What is called.

    Args:
        target: ``file.py:name``: a function without arguments that returns a callable (or a pair
            whose first member is one), a class that takes the arguments of the reference's
            ``get_init_inputs``, or a module.
        state: The reference's weights; loaded where the candidate has the same names.
        device: Where it runs.

    Raises:
        InputError: The target names nothing that can be called.
        CaptureError: It fails.
    """
    import torch

    from gambrel.capture.files.python_source import import_problem

    place, _, name = target.rpartition(":")
    module = import_problem(Path(place))
    if not hasattr(module, name):
        raise InputError(f"{target}: there is no {name!r}.")
    made = _built(getattr(module, name), module)
    function = made[0] if isinstance(made, tuple) else made
    if not callable(function):
        raise CaptureError(f"{target} gives a {type(function).__name__}, which cannot be called.")
    if isinstance(function, torch.nn.Module):
        function = function.to(device).eval()
        own = function.state_dict()
        known = {k: v for k, v in state.items() if k in own and own[k].shape == v.shape}
        if known:
            function.load_state_dict(known, strict=False)
    return function


def _built(value: Any, module: Any) -> Any:
    import torch

    if isinstance(value, torch.nn.Module):
        return value
    if isinstance(value, type):
        given: list[Any] = getattr(module, "get_init_inputs", list)()
        return value(*given)
    return value()
