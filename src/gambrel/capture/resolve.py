"""From what a user names as a model (a name, a path, a module, a workload) to a workload."""

from __future__ import annotations

import contextlib
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from gambrel.capture.inputs import example_call, given_call, holds_tensors, need_inputs
from gambrel.capture.jax.functions import function_name, is_function
from gambrel.capture.named_op import is_named_op, named_op
from gambrel.capture.readers import from_coreml, of_config
from gambrel.capture.request import (
    Request,
    ResolvedModel,
    is_for_all,
    refuse_inputs,
    refuse_what_was_ignored,
)
from gambrel.dtypes import names_parts
from gambrel.errors import (
    CaptureError,
    FileFormatError,
    InputError,
    UnknownNameError,
    WorkloadError,
)
from gambrel.fileio import check_name
from gambrel.hub import folder_of, is_hub, title_of
from gambrel.workload import Workload

_TARGET = re.compile(r"^(?P<place>.+?\.py|[A-Za-z_][\w.]*):(?P<name>[A-Za-z_]\w*)$")


#: Models of the installed timm.
_TIMM = "timm/"


def resolve_model(model: Any, request: Request | None = None) -> ResolvedModel:
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
    if request.autocast and request.precision:
        raise InputError(
            f"--autocast {request.autocast} chooses the formats op by op; leave --precision "
            f"{request.precision} out, or --autocast."
        )
    resolved = _resolved(model, request)
    refuse_what_was_ignored(resolved, request)
    return resolved


def _resolved(model: Any, request: Request) -> ResolvedModel:
    if isinstance(model, Workload):
        return ResolvedModel(workload=model)
    if isinstance(model, (str, Path)):
        return _from_text(str(model), request)
    if _is_module(model):
        return ResolvedModel(workload=_capture(model, request))
    if callable(model) and holds_tensors(request.inputs):
        from gambrel.capture.files.python_source import as_module

        name = getattr(model, "__name__", type(model).__name__)
        return ResolvedModel(workload=_capture(as_module(model), request, name))
    if is_function(model):
        return ResolvedModel(workload=_capture_function(model, request))
    raise InputError(
        f"cannot analyze a {type(model).__name__}; give a model's name, a file, "
        "a torch.nn.Module or a function of JAX with example inputs, or a Workload."
    )


def _from_text(text: str, request: Request) -> ResolvedModel:
    if is_named_op(text):
        refuse_inputs(f"{text} is one op", request)
        return ResolvedModel(workload=named_op(text))
    if is_hub(text):
        return _from_hub(text, request)
    if text.startswith(_TIMM) and not Path(text).exists():
        return _from_timm(text, request)
    check_name(Path(text))
    found = _TARGET.match(text)
    if found and not Path(text).exists():
        return _from_code(text, request)
    path = Path(text)
    if path.is_file() or path.is_dir():
        return _from_file(path, request)
    if _has_suffix(path) or ("/" in text and _looks_like_path(path)):
        return _missing_file(path, request)
    return from_zoo(text, request)


def _has_suffix(path: Path) -> bool:
    """Whether a path ends as files of models do."""
    if not path.suffix:
        return False
    from gambrel.capture.formats import SUFFIXES  # loads what tells files apart

    return path.suffix.lower() in SUFFIXES


def _from_timm(name: str, request: Request) -> ResolvedModel:
    from importlib.util import find_spec

    if find_spec("timm") is None and not request.train and not request.autocast:
        with contextlib.suppress(UnknownNameError):
            return from_zoo(name.removeprefix(_TIMM), request)
    from gambrel.capture.torch.timm_models import workload_from_timm

    refuse_inputs(f"{name} is a model of timm", request)
    if request.phase is not None:
        raise InputError(f"{name} has no phase {request.phase!r}; it has one forward pass.")
    return ResolvedModel(
        workload=workload_from_timm(
            name, sizes=request.sizes, train=request.train, autocast=request.autocast
        )
    )


def _looks_like_path(path: Path) -> bool:
    return path.is_absolute() or path.parts[0] in {".", "..", "~"} or path.parent.is_dir()


def _missing_file(path: Path, request: Request) -> ResolvedModel:
    """A file that is not there but is named after a zoo model stands for that architecture."""
    if path.suffix.lower() in {".pt", ".pth"} and path.parent == Path():
        try:
            known = from_zoo(path.stem, request)
        except UnknownNameError:
            known = None
        if known is not None:
            note = f"no file {path.name} here: this is the built-in {known.workload.name}."
            return ResolvedModel(workload=known.workload, notes=(note, *known.notes))
    raise FileFormatError(
        f"no such file: {path}. Give an existing file, or a name from 'gambrel models list'."
    )


def from_zoo(name: str, request: Request) -> ResolvedModel:
    """The built-in model that a name means; see `resolve_model`."""
    from gambrel.capture import pipelines, zoo
    from gambrel.llm.known import config_of

    refuse_inputs(f"{name} is a built-in model", request)
    pipeline = pipelines.find(name)
    if pipeline is not None:
        return ResolvedModel(workload=pipelines.load(pipeline, request.sizes, request.phase))
    if request.layers != "code" or names_parts(request.precision):
        # What the zoo has is the model's own code, in one format.
        base, phase = _phase_of(name)
        if (named := config_of(base)) is not None:
            return of_config(named[1], replace(request, phase=request.phase or phase), named[0])
    try:
        summary, note = zoo.find(name, phase=request.phase)
    except (UnknownNameError, InputError) as error:  # not there, or captured without phases
        if (named := config_of(name)) is None:
            raise
        if isinstance(error, UnknownNameError) or request.phase != zoo.PHASES[0]:
            return of_config(named[1], request, named[0])
        summary, note = zoo.find(name)  # reading the prompt is the forward pass it has
    found = zoo.load(summary.name)
    if request.train or request.autocast:
        found = _again(found, request)
    elif _of_another_side(found, request.sizes):
        found = replace(_again(found, request), chosen_dtype=found.chosen_dtype)
    return ResolvedModel(workload=found, notes=(note,) if note else ())


def _of_another_side(built_in: Workload, sizes: Mapping[str, int | None]) -> bool:
    """Whether images of a side are asked for that the stored network is not exact for."""
    side = sizes.get("image")
    image = next((s for s in built_in.symbols if s.name == "image"), None)
    if side is None or image is None:
        return side is not None
    try:
        image.check(side)
    except WorkloadError:
        return True
    return False


def _again(built_in: Workload, request: Request) -> Workload:
    """A built-in network from the code that it was captured from.

    That has its backward pass, casts, and any side of the image. Unchanged where that code is of no
    library of networks.
    """
    from gambrel.capture import zoo

    library, _, *named = built_in.origin.split()
    model, *given = named or [""]
    asked = {"sizes": request.sizes, "train": request.train, "autocast": request.autocast}
    if library == "torchvision":
        from gambrel.capture.torch.torchvision_models import workload_from_torchvision

        built = dict(word.split("=") for word in given)
        return workload_from_torchvision(model, built_in, built=built, **asked)  # type: ignore[arg-type]
    if library == "timm":
        from gambrel.capture.torch.timm_models import workload_from_timm

        found = workload_from_timm(f"{_TIMM}{model}", like=built_in, **asked)  # type: ignore[arg-type]
        return replace(found, name=built_in.name)
    found = built_in
    if request.autocast:
        from gambrel.capture.mixed_precision import in_autocast

        found = replace(in_autocast(found, request.autocast), chosen_dtype=True)
    if request.train and zoo.phase_of(built_in.name) is None:
        from gambrel.capture.backpropagation import training_step

        return replace(training_step(found), chosen_dtype=True)
    return found


def _phase_of(name: str) -> tuple[str, str | None]:
    """``llama-3-8b-decode`` → (``llama-3-8b``, ``decode``)."""
    base, _, last = name.lower().rpartition("-")
    return (base, last) if last in {"prefill", "decode"} else (name, None)


def has_parts(workload: Workload, model: Any, layers: str, precision: str | None = None) -> bool:
    """Whether a number format applies to the parts of a model: one workload for each format.

    Args:
        workload: As it is in no format that was asked for.
        model: Its source.
        layers: Whose layers run, as `gambrel.runtimes.Runtime.layers` has it.
        precision: The format.
    """
    from gambrel.llm.known import config_of

    if workload.recipe:
        return True
    if is_for_all(layers, precision):
        return False
    if not isinstance(model, (str, Path)) or str(model).endswith(".json") or is_hub(model):
        return isinstance(model, (str, Path))
    by_part = layers != "code" or names_parts(precision)
    return by_part and config_of(_phase_of(str(model))[0]) is not None


def _from_code(target: str, request: Request) -> ResolvedModel:
    from gambrel.capture.files.python_source import load_target
    from gambrel.capture.kernelbench import is_problem, workload_of_problem
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()  # the user's code may import it
    place, _, name = target.rpartition(":")
    if name == "Model" and place.endswith(".py") and is_problem(Path(place)):
        return ResolvedModel(workload=workload_of_problem(Path(place)))
    loaded = load_target(target, request.input_shapes, functions=True)
    given = given_call(loaded.model, request.inputs, request.kwargs)
    args, kwargs = given if any(given) else (loaded.args, loaded.kwargs)
    if not args and not kwargs:
        raise need_inputs(target)
    workload = _capture_live(loaded.model, args, kwargs, request, name=target)
    return ResolvedModel(workload=workload)


def _from_file(path: Path, request: Request) -> ResolvedModel:
    if _is_pipeline(path):
        return _read_pipeline(path, request)
    if path.is_dir() and (path / "config.json").is_file():
        return _read_folder(path, request)
    if path.is_dir() and _is_coreml(path):
        return from_coreml(path, request)
    from gambrel.capture.files.identify import identify
    from gambrel.capture.formats import format_of

    row = format_of(identify(path))
    if not row.runs:
        refuse_inputs(f"{path.name} is a description of a model ({row.kind.value})", request)
    return row.reader(path, request)


def _from_hub(text: str, request: Request) -> ResolvedModel:
    from gambrel.capture.files.safetensors_index import has_checkpoint

    folder = folder_of(text)
    refuse_inputs(f"{title_of(folder)} is a model of the hub", request)
    resolved = _from_file(folder, request)
    resolved = replace(resolved, workload=replace(resolved.workload, name=title_of(folder)))
    if _is_pipeline(folder) or has_checkpoint(folder):
        return resolved
    note = f"{title_of(folder)}: no headers of weights; formats are those of its config.json."
    return replace(resolved, notes=(note, *resolved.notes))


def _is_coreml(folder: Path) -> bool:
    from gambrel.capture.coreml.model_file import is_package  # loaded where there is a folder

    return is_package(folder)


def _is_pipeline(path: Path) -> bool:
    """A diffusers folder, or the index in it."""
    return path.name == "model_index.json" or (path / "model_index.json").is_file()


def _read_pipeline(path: Path, request: Request) -> ResolvedModel:
    from gambrel.capture.torch.diffusers import workload_from_folder

    return ResolvedModel(workload=workload_from_folder(path, request.sizes))


def _read_folder(path: Path, request: Request) -> ResolvedModel:
    """The model of a folder, its weights as wide as the checkpoint beside the configuration."""
    from gambrel.capture.checkpoint_folder import workload_from_checkpoint

    found = None
    if request.precision is None and not request.keep_open:
        found = workload_from_checkpoint(path, phase=request.phase, sizes=request.sizes)
    return (
        _from_file(path / "config.json", request)
        if found is None
        else ResolvedModel(workload=found)
    )


def _is_module(model: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(model, torch.nn.Module)


def _capture(model: Any, request: Request, name: str = "") -> Workload:
    given = _call_of(model, request)
    if given is None:
        raise InputError(
            f"{type(model).__name__} is a live module: give example inputs, "
            "e.g. gambrel.analyze(model, 'h100', inputs=torch.randn(1, 3, 224, 224))."
        )
    return _capture_live(model, *given, request, name=name or type(model).__name__)


def _capture_function(model: Any, request: Request) -> Workload:
    given = _call_of(model, request)
    if given is None:
        raise InputError(
            f"{function_name(model)} is a function of JAX: give the forms of its arguments, e.g. "
            "gambrel.analyze(fn, 'tpu-v5e', jax.ShapeDtypeStruct((8, 128), 'bfloat16'))."
        )
    return _capture_live(model, *given, request, name="")


def _call_of(model: Any, request: Request) -> tuple[tuple[Any, ...], Mapping[str, Any]] | None:
    """What a live model is called with, or inputs of the shapes that are given; None of neither."""
    if request.inputs is not None or request.kwargs:
        return given_call(model, request.inputs, request.kwargs)
    return example_call(model, request.input_shapes) if request.input_shapes else None


def _capture_live(
    model: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], request: Request, name: str
) -> Workload:
    if not _is_module(model):
        from gambrel.capture.jax.capture import capture_jax

        if request.train:
            raise CaptureError(
                f"{name or function_name(model)} is a function of JAX: analyze its training step, "
                "e.g. jax.value_and_grad(loss) or the whole update, instead of train."
            )
        trips = request.sizes.get("trip")
        return capture_jax(model, args, kwargs, name=name, trips=trips)
    from gambrel.capture.torch import capture

    return capture(
        model, args, dict(kwargs), train=request.train, autocast=request.autocast, name=name
    )


__all__ = ["Request", "ResolvedModel", "from_zoo", "has_parts", "resolve_model"]
