"""Files that run code when loaded; only after the user's explicit word (``--trust``)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gambrel.capture.inputs import ExampleInput, example_call, given_call, need_inputs
from gambrel.errors import CaptureError, MissingExtraError
from gambrel.workload import Workload

#: What ultralytics' detection models take when nothing else is said.
_ULTRALYTICS_INPUT = (1, 3, 640, 640)


def capture_trusted(
    path: Path,
    inputs: Sequence[str | Sequence[int] | ExampleInput] = (),
    given: Any = None,
    named: Mapping[str, Any] | None = None,
    *,
    train: bool = False,
    autocast: str | None = None,
) -> Workload:
    """Loads a pickled module or a TorchScript file with its own code and captures it.

    Args:
        path: The file. It can do anything that the user can.
        inputs: Descriptions of the example inputs.
        given: Example inputs themselves; then no description is needed.
        named: Keyword arguments.
        train: Capture a training step.
        autocast: The format of ``torch.autocast`` around it.

    Raises:
        CaptureError: It cannot be loaded, holds no module, or example inputs are missing.
        MissingExtraError: torch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "loading a model with its own code")
    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    model = _load(path)
    args, kwargs = given_call(model, given, named)
    if not args and not kwargs:
        if not inputs and hasattr(model, "yaml") and hasattr(model, "stride"):
            inputs = (_ULTRALYTICS_INPUT,)
        if not inputs:
            raise need_inputs(str(path))
        args, kwargs = example_call(model, inputs)
    origin = f"{path.name}, run with --trust"
    return capture(
        model.eval(), args, kwargs, train=train, autocast=autocast, name=path.stem, origin=origin
    )


def _load(path: Path) -> Any:
    import torch

    from gambrel.capture.files.identify import FileKind, identify

    try:
        if identify(path) is FileKind.TORCHSCRIPT:
            return torch.jit.load(str(path), map_location="meta")
        loaded = torch.load(path, map_location="cpu", weights_only=False)
    except Exception as error:
        text = str(error).splitlines()[0][:200] if str(error) else ""
        raise CaptureError(
            f"{path} cannot be loaded ({type(error).__name__}: {text}); its code may need packages "
            "that are not installed here."
        ) from error
    for found in (loaded, *(loaded.get(k) for k in ("ema", "model") if isinstance(loaded, dict))):
        if isinstance(found, torch.nn.Module):
            return found
    raise CaptureError(f"{path} holds weights and no module; {_NO_GRAPH}")


_NO_GRAPH = "give the code that builds the model, as file.py:function."
