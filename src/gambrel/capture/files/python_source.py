"""A model given as the user's own code: ``file.py:function`` or ``package.module:Class``.

This code is run: whoever names it wants that. Nothing is left behind: no bytecode beside the file,
no change of ``sys.path``.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from gambrel.capture.inputs import ExampleInput, example_call, holds_tensors
from gambrel.errors import (
    CaptureError,
    FileFormatError,
    InputError,
    MissingExtraError,
    kind_and_line,
)

_TARGET: Final = re.compile(r"(?P<place>.+):(?P<name>[A-Za-z_]\w*)")


@dataclass(frozen=True, slots=True, kw_only=True)
class Loaded:
    """A model and what to call it with.

    Attributes:
        model: A ``torch.nn.Module``, or a function of JAX.
        args: Positional arguments; none, and no keyword arguments, where none are known.
        kwargs: Keyword arguments.
    """

    model: Any
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)


def load_target(
    target: str,
    inputs: Sequence[str | Sequence[int] | ExampleInput] = (),
    *,
    device: str = "meta",
    functions: bool = False,
) -> Loaded:
    """Runs the user's code and returns the model that it makes.

    Args:
        target: ``"path/file.py:name"`` or ``"package.module:name"``. The name is a function
            without required arguments that returns a model, ``(model, inputs)`` or ``(model,
            args, kwargs)``; a class that is built without arguments; or a model. With JAX also the
            function itself, with arguments.
        inputs: Descriptions of the example inputs where the code gives none; see
            `gambrel.capture.inputs.example_call`.
        device: Where those are made; ``"meta"`` gives them no values.
        functions: Whether functions of JAX are models.

    Raises:
        InputError: The target has another form, or names nothing.
        CaptureError: The code fails, or returns something else.
    """
    found = _TARGET.fullmatch(target)
    if found is None:
        raise InputError(
            f"{target!r} names no model in code; write file.py:function or package.module:Class."
        )
    place, name = found["place"], found["name"]
    with _clean_import(Path(place).parent if place.endswith(".py") else Path()):
        module = _import(place)
        made = _call(module, name, target, functions)
    model, args, kwargs = _split(made, target, functions)
    if not args and not kwargs and inputs:
        args, kwargs = example_call(model, inputs, device=device)
    return Loaded(model=model, args=args, kwargs=kwargs)


def import_problem(path: Path) -> ModuleType:
    """Runs a file and returns it as a module; as `load_target`, without a name to call."""
    with _clean_import(path.parent):
        return _import(str(path))


def as_module(function: Any) -> Any:
    """A plain function as a module that calls it, so that it can be captured and run like one."""
    import torch

    class Function(torch.nn.Module):  # type: ignore[misc]
        """Calls a function."""

        def forward(self, *args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

    return Function().eval()


@contextmanager
def _clean_import(folder: Path) -> Iterator[None]:
    """The file's own folder can be imported from, for the time being; no bytecode is written.

    What the code prints goes to stderr: stdout belongs to the answer, which may be JSON.
    """
    path, bytecode = list(sys.path), sys.dont_write_bytecode
    sys.path.insert(0, str(folder.resolve()))
    sys.dont_write_bytecode = True
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = bytecode


def _import(place: str) -> ModuleType:
    try:
        return (
            _import_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
        )
    except FileFormatError:
        raise
    except ModuleNotFoundError as error:
        if error.name == place.partition(".")[0] or error.name == place:
            raise InputError(
                f"no module {place!r}; give the path of a file, e.g. models/net.py:build."
            ) from None
        raise CaptureError(
            f"{place} needs the module {error.name!r}, not installed here."
        ) from None
    except Exception as error:
        raise CaptureError(f"{place} cannot be imported: {kind_and_line(error)}") from error


def _import_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise FileFormatError(f"no such file: {path}. Check the path before the colon.")
    name = f"_gambrel_user_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise FileFormatError(f"{path} cannot be read as Python.")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses and pickling look their module up while it runs
    try:
        spec.loader.exec_module(module)
    except BaseException:
        sys.modules.pop(name, None)
        raise
    return module


def _call(module: ModuleType, name: str, target: str, functions: bool) -> Any:
    if not hasattr(module, name):
        public = [n for n, v in vars(module).items() if callable(v) and not n.startswith("_")]
        here = [n for n in public if getattr(vars(module)[n], "__module__", "") == module.__name__]
        raise InputError(
            f"{target}: no {name!r} there; it defines {', '.join(here[:8]) or 'nothing callable'}."
        )
    value = getattr(module, name)
    if _is_model(value) or not callable(value) or (functions and _takes_arrays(value)):
        return value
    try:
        return value()
    except TypeError as error:
        if "argument" in str(error):
            raise CaptureError(
                f"{target} needs arguments ({error}); name a function without any that returns "
                "(model, inputs)."
            ) from error
        raise CaptureError(f"{target} failed: {kind_and_line(error)}") from error
    except Exception as error:
        raise CaptureError(f"{target} failed: {kind_and_line(error)}") from error


def _takes_arrays(value: Any) -> bool:
    """Whether a callable can be a function or a module of JAX, rather than what makes one."""
    if "jax" not in sys.modules or isinstance(value, type):
        return False
    try:
        parameters = inspect.signature(value).parameters.values()
    except (TypeError, ValueError):
        return True
    return any(p.default is p.empty and p.kind in _POSITIONAL for p in parameters)


_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


def _split(made: Any, target: str, functions: bool) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Model, args, kwargs from what the code returned."""
    model, *rest = made if isinstance(made, tuple) and made else (made,)
    jax_function = functions and "jax" in sys.modules and callable(model)
    jax_function = jax_function and not any(map(holds_tensors, rest))
    if not _is_model(model) and not jax_function and rest and _is_plain_function(model):
        model = as_module(model)
    if not _is_model(model) and not jax_function:
        raise CaptureError(
            f"{target} returned {_a(model)}, not a torch.nn.Module; return the model, "
            "(model, inputs), or (function, inputs)."
        )
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if rest:
        args, kwargs = _arguments(rest[0], kwargs)
    if len(rest) == 2 and isinstance(rest[1], dict):
        kwargs = {**kwargs, **rest[1]}
    elif len(rest) > 1:
        raise CaptureError(
            f"{target} returned {len(made)} values; return (model, inputs) or "
            "(model, args, kwargs)."
        )
    return model, args, kwargs


def _is_plain_function(value: Any) -> bool:
    return callable(value) and not isinstance(value, type)


def _arguments(given: Any, kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(given, dict):
        return (), dict(given)
    return (tuple(given) if isinstance(given, (tuple, list)) else (given,)), kwargs


def _is_model(value: Any) -> bool:
    torch = sys.modules.get("torch")
    if torch is None and "jax" in sys.modules:
        return False
    if torch is None and importlib.util.find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "capturing a model from code")
    return torch is not None and isinstance(value, torch.nn.Module)


def _a(value: Any) -> str:
    kind = type(value).__name__
    return f"{'an' if kind[:1].lower() in 'aeiou' else 'a'} {kind}"
