"""From what a user names as a model (a name, a path, a module, a workload) to a workload."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gambrel.capture.inputs import ExampleInput, given_call, need_inputs
from gambrel.errors import CaptureError, FileFormatError, InputError, UnknownNameError
from gambrel.fileio import check_name
from gambrel.workload import Workload

_TARGET = re.compile(r"^(?P<place>.+?\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)$")
_FILE_SUFFIXES = frozenset(
    {".pt", ".pth", ".pt2", ".onnx", ".json", ".safetensors", ".gguf", ".bin", ".ckpt", ".py"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """How to turn a model into a workload.

    Attributes:
        inputs: Example inputs of a module, live, from code or from a trusted file: one tensor, a
            tuple of positional arguments, or a dict of keyword arguments.
        kwargs: Its keyword arguments.
        input_shapes: Descriptions of example inputs (shape, format, name) in their place.
        phase: ``"prefill"`` or ``"decode"`` for language models.
        train: Include backward and optimizer.
        trust: The user's explicit word that a file may run code.
        sizes: Sizes already chosen; a configuration file is built or captured at these.
        precision: Number formats, part by part; applied to a language model's configuration.
        keep_open: Leave sizes open even where windows of attention make memory depend on them in
            another way than a polynomial.
        served: A configuration runs as serving frameworks store it: q, k, v and gate, up as one
            product each.
    """

    inputs: Any = None
    kwargs: Mapping[str, Any] | None = None
    input_shapes: Sequence[ExampleInput | Sequence[int] | str] = ()
    phase: str | None = None
    train: bool = False
    trust: bool = False
    sizes: Mapping[str, int | None] = field(default_factory=dict)
    precision: str | None = None
    keep_open: bool = False
    served: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolved:
    """A workload, and what the user should know of how it was found."""

    workload: Workload
    notes: tuple[str, ...] = ()


def resolve_model(model: Any, request: Request | None = None) -> Resolved:
    """Returns the workload that ``model`` stands for.

    Args:
        model: A `Workload`, a ``torch.nn.Module``, the path of a model file, ``"file.py:function"``
            or ``"package.module:Class"``, or the name of a zoo entry.
        request: Example inputs, phase and the like.

    Raises:
        UnknownNameError: No such model.
        FileFormatError: The file is missing, broken or of a kind that cannot be read.
        CaptureError: The model cannot be captured as asked.
    """
    request = request or Request()
    if isinstance(model, Workload):
        return Resolved(workload=model)
    if isinstance(model, (str, Path)):
        return _from_text(str(model), request)
    if _is_module(model):
        return Resolved(workload=_capture(model, request))
    raise InputError(
        f"cannot analyze a {type(model).__name__}; give a model's name, a file, "
        "a torch.nn.Module with example inputs, or a Workload."
    )


def _from_text(text: str, request: Request) -> Resolved:
    check_name(Path(text))
    found = _TARGET.match(text)
    if found and not Path(text).exists():
        return _from_code(text, request)
    path = Path(text)
    if path.is_file() or path.is_dir():
        return _from_file(path, request)
    if path.suffix.lower() in _FILE_SUFFIXES or ("/" in text and _looks_like_path(path)):
        return _missing_file(path, request)
    return _from_zoo(text, request)


def _looks_like_path(path: Path) -> bool:
    return path.is_absolute() or path.parts[0] in {".", "..", "~"} or path.parent.is_dir()


def _missing_file(path: Path, request: Request) -> Resolved:
    """A file that is not there but is named after a zoo model stands for that architecture."""
    if path.suffix.lower() in {".pt", ".pth"} and path.parent == Path():
        try:
            known = _from_zoo(path.stem, request)
        except UnknownNameError:
            known = None
        if known is not None:
            note = f"no file {path.name} here: this is the built-in {known.workload.name}."
            return Resolved(workload=known.workload, notes=(note, *known.notes))
    raise FileFormatError(
        f"no such file: {path}. Give an existing file, or a name from 'gambrel models list'."
    )


def _from_zoo(name: str, request: Request) -> Resolved:
    from gambrel.capture import pipelines, zoo

    _refuse_inputs(f"{name} is a built-in model", request)
    if request.train:
        raise CaptureError(
            f"{name}: the built-in models are inference workloads; for a training step give a "
            "file.py:function, or in Python the module itself with inputs and train=True."
        )
    pipeline = pipelines.find(name)
    if pipeline is not None:
        return Resolved(workload=pipelines.load(pipeline, request.sizes, request.phase))
    try:
        summary, note = zoo.find(name, phase=request.phase)
    except UnknownNameError:
        from gambrel.llm.known import config_of

        named = config_of(name)
        if named is None:
            raise
        return _of_config(named[1], request, named[0])
    return Resolved(workload=zoo.load(summary.name), notes=(note,) if note else ())


def _from_code(target: str, request: Request) -> Resolved:
    from gambrel.capture.files.python_source import load_target
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()  # the user's code may import it
    loaded = load_target(target, request.input_shapes)
    given = given_call(loaded.model, request.inputs, request.kwargs)
    args, kwargs = given if any(given) else (loaded.args, loaded.kwargs)
    if not args and not kwargs:
        raise need_inputs(target)
    workload = _capture_live(loaded.model, args, kwargs, request, name=target)
    return Resolved(workload=workload)


def _from_file(path: Path, request: Request) -> Resolved:
    from gambrel.capture.files.identify import identify

    if _is_pipeline(path):
        return _read_pipeline(path, request)
    if path.is_dir() and (path / "config.json").is_file():
        return _read_folder(path, request)
    kind = identify(path).value
    reader = _READERS.get(kind)
    if kind not in _RUN:
        _refuse_inputs(f"{path.name} is a description of a model ({kind})", request)
    if reader is None:
        raise FileFormatError(f"{path}: {kind} files cannot be analyzed yet. {_WAYS_OUT}")
    return reader(path, request)


def _is_pipeline(path: Path) -> bool:
    """A diffusers folder, or the index in it."""
    return path.name == "model_index.json" or (path / "model_index.json").is_file()


def _read_pipeline(path: Path, request: Request) -> Resolved:
    from gambrel.capture.torch.diffusers import workload_from_folder

    return Resolved(workload=workload_from_folder(path, request.sizes))


_WAYS_OUT = (
    "Give a name from 'gambrel models list', a file.py:function, a .pt2 export or a config.json."
)


def _read_pt2(path: Path, _: Request) -> Resolved:
    from gambrel.capture.files.pt2 import read_pt2

    return Resolved(workload=read_pt2(path))


def _read_onnx(path: Path, request: Request) -> Resolved:
    from gambrel.capture.onnx.reader import read_onnx

    if request.train:
        raise CaptureError(
            f"{path.name} describes an inference step; for a training step give a file.py:function."
        )
    return Resolved(workload=read_onnx(path, request.sizes))


def _read_config(path: Path, request: Request) -> Resolved:
    import json

    if request.train:
        raise CaptureError(
            f"{path.name} describes an inference step; for a training step of a language model run "
            "'gambrel train-plan', or give a file.py:function."
        )
    return _of_config(json.loads(path.read_text(encoding="utf-8")), request)


def _of_config(config: Any, request: Request, name: str = "") -> Resolved:
    """The model of a configuration: in closed form where its type is known, else captured."""
    from gambrel.capture.closed_form import is_closed_form, workload_of_config

    sizes = {k: v for k, v in request.sizes.items() if v is not None}
    if is_closed_form(config):
        found = workload_of_config(
            config,
            phase=request.phase,
            sizes=sizes,
            precision=request.precision,
            keep_open=request.keep_open,
            name=name,
            served=request.served,
        )
        return Resolved(workload=found)
    from gambrel.capture.torch.huggingface import workload_from_config

    return Resolved(workload=workload_from_config(config, phase=request.phase, name=name, **sizes))


def _read_folder(path: Path, request: Request) -> Resolved:
    """The model of a folder, its weights as wide as the checkpoint beside the configuration."""
    from gambrel.capture.checkpoint_folder import workload_from_checkpoint

    found = None
    if request.precision is None and not request.keep_open:
        found = workload_from_checkpoint(path, phase=request.phase, sizes=request.sizes)
    return _from_file(path / "config.json", request) if found is None else Resolved(workload=found)


def _read_gguf(path: Path, request: Request) -> Resolved:
    from gambrel.capture.gguf import workload_from_gguf

    found = workload_from_gguf(
        path, phase=request.phase, sizes=request.sizes, precision=request.precision
    )
    return Resolved(workload=found)


def _read_checkpoint(path: Path, request: Request) -> Resolved:
    from gambrel.capture.files.checkpoint import match_checkpoint

    ran = False

    def run(file: Path) -> Workload:
        from gambrel.capture.files.trusted import capture_trusted

        nonlocal ran
        ran = True
        return capture_trusted(
            file, request.input_shapes, request.inputs, request.kwargs, train=request.train
        )

    matched = match_checkpoint(path, run if request.trust else None)
    if not ran:
        _refuse_inputs(f"{path.name} is {matched.workload.name}, a built-in model", request)
    return Resolved(workload=matched.workload, notes=matched.notes)


def _refuse_inputs(what: str, request: Request) -> None:
    """Example inputs where nothing is run with them: their sizes would be ignored."""
    if request.inputs is None and not request.kwargs and not request.input_shapes:
        return
    raise InputError(
        f"{what}, which takes no example inputs; leave them out and choose its sizes "
        "(--batch, --seq, --image, --size NAME=N; in Python batch_size=, seq=, image=, sizes=)."
    )


def _read_workload(path: Path, _: Request) -> Resolved:
    from gambrel.workload.serialize import load_workload

    return Resolved(workload=load_workload(path))


def _read_analysis(path: Path, _: Request) -> Resolved:
    from gambrel.report import load_analysis

    workload = load_analysis(path).workload
    if workload is None:
        raise FileFormatError(f"{path}: this analysis carries no workload; analyze the model.")
    return Resolved(workload=workload)


def _read_python(path: Path, _: Request) -> Resolved:
    raise InputError(f"{path}: name the function or class that makes the model, e.g. {path}:build.")


#: Kinds of which a file may hold a module that is run with the user's example inputs.
_RUN = frozenset({"checkpoint", "safetensors", "torchscript", "python"})

_READERS: dict[str, Callable[[Path, Request], Resolved]] = {
    "pt2": _read_pt2,
    "onnx": _read_onnx,
    "config": _read_config,
    "gguf": _read_gguf,
    "checkpoint": _read_checkpoint,
    "safetensors": _read_checkpoint,
    "torchscript": _read_checkpoint,
    "workload": _read_workload,
    "analysis": _read_analysis,
    "python": _read_python,
}


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _capture(model: Any, request: Request) -> Workload:
    if request.inputs is None and not request.kwargs:
        raise InputError(
            f"{type(model).__name__} is a live module: give example inputs, "
            "e.g. gambrel.analyze(model, 'h100', inputs=torch.randn(1, 3, 224, 224))."
        )
    args, kwargs = given_call(model, request.inputs, request.kwargs)
    return _capture_live(model, args, kwargs, request, name=type(model).__name__)


def _capture_live(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], request: Request, name: str
) -> Workload:
    from gambrel.capture.torch import capture

    return capture(model, args, dict(kwargs), train=request.train, name=name)
