"""Files that run code when loaded; only after the user's explicit word (``--trust``)."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from gambrel.errors import CaptureError, MissingExtraError
from gambrel.workload import Workload

#: What ultralytics' detection models take when nothing else is said.
_ULTRALYTICS_INPUT = (1, 3, 640, 640)


def capture_trusted(path: Path, input_shapes: Sequence[tuple[int, ...]] = ()) -> Workload:
    """Loads a pickled module or a TorchScript file with its own code and captures it.

    Args:
        path: The file. It can do anything that the user can.
        input_shapes: Shapes of the example inputs.

    Raises:
        CaptureError: It cannot be loaded, holds no module, or example inputs are missing.
        MissingExtraError: torch is not installed.
    """
    if find_spec("torch") is None:
        raise MissingExtraError("torch", "torch", "loading a model with its own code")
    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    model, shapes = _load(path), tuple(input_shapes)
    if not shapes and hasattr(model, "yaml") and hasattr(model, "stride"):
        shapes = (_ULTRALYTICS_INPUT,)
    if not shapes:
        raise CaptureError(f"{path}: the model needs example inputs; say --input 1x3x224x224.")
    import torch

    floating = [p.dtype for p in model.parameters() if p.dtype.is_floating_point]
    dtype = floating[0] if floating else torch.float32
    inputs = tuple(torch.empty(s, dtype=dtype, device="meta") for s in shapes)
    return capture(model.eval(), inputs, name=path.stem, origin=f"{path.name}, run with --trust")


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
