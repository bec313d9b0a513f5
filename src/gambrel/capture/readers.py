"""One reader for each format of files: from a path and a request to a workload."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any, TypeAlias

from gambrel.capture.request import Request, ResolvedModel, refuse_inputs
from gambrel.errors import CaptureError, FileFormatError, InputError
from gambrel.workload import Workload

FileReader: TypeAlias = Callable[[Path, Request], ResolvedModel]


def _read_by(place: str, *, sized: bool = True) -> FileReader:
    """A reader whose module is loaded when a file of its format is read.

    Args:
        place: ``module:function`` of this package.
        sized: Whether the function takes sizes beside the path.
    """

    def read(path: Path, request: Request) -> ResolvedModel:
        module, _, function = place.partition(":")
        found = getattr(import_module(f"gambrel.{module}"), function)
        return ResolvedModel(workload=found(path, request.sizes) if sized else found(path))

    return read


from_pt2 = _read_by("capture.files.pt2:read_pt2", sized=False)
from_onnx = _read_by("capture.onnx.reader:read_onnx")
from_tflite = _read_by("capture.tflite.reader:read_tflite")
from_openvino = _read_by("capture.openvino.reader:read_openvino")
from_keras = _read_by("capture.keras.reader:read_keras")
from_coreml = _read_by("capture.coreml.reader:read_coreml", sized=False)
from_stablehlo = _read_by("capture.xla.reader:read_stablehlo")
from_hlo = _read_by("capture.xla.reader:read_hlo")
from_workload = _read_by("workload.serialize:load_workload", sized=False)


def from_config(path: Path, request: Request) -> ResolvedModel:
    """The configuration of a model of Hugging Face."""
    import json

    return of_config(json.loads(path.read_text(encoding="utf-8")), request)


def from_gguf(path: Path, request: Request) -> ResolvedModel:
    """A GGUF file: header only."""
    from gambrel.capture.gguf import workload_from_gguf

    found = workload_from_gguf(
        path, phase=request.phase, sizes=request.sizes, precision=request.precision
    )
    return ResolvedModel(workload=found)


def from_checkpoint(path: Path, request: Request) -> ResolvedModel:
    """A checkpoint, read as data; run only where the user says so."""
    from gambrel.capture.files.checkpoint import match_checkpoint

    ran = False

    def run(file: Path) -> Workload:
        from gambrel.capture.files.trusted import capture_trusted

        nonlocal ran
        ran = True
        return capture_trusted(
            file,
            request.input_shapes,
            request.inputs,
            request.kwargs,
            train=request.train,
            autocast=request.autocast,
        )

    matched = match_checkpoint(path, run if request.trust else None)
    if not ran:
        refuse_inputs(f"{path.name} is {matched.workload.name}, a built-in model", request)
    return ResolvedModel(workload=matched.workload, notes=matched.notes)


def from_analysis(path: Path, _: Request) -> ResolvedModel:
    """The workload of a saved result."""
    from gambrel.report import load_analysis

    workload = load_analysis(path).workload
    if workload is None:
        raise FileFormatError(f"{path}: this analysis carries no workload; analyze the model.")
    return ResolvedModel(workload=workload)


def from_python(path: Path, request: Request) -> ResolvedModel:
    """Python code needs the name of what makes the model, unless it is a problem of KernelBench."""
    from gambrel.capture.kernelbench import is_problem, workload_of_problem

    if not is_problem(path):
        raise InputError(
            f"{path}: name the function or class that makes the model, e.g. {path}:build."
        )
    if not request.trust:
        raise InputError(
            f"{path} is code (Model, get_inputs, get_init_inputs); say --trust to run it, or name "
            f"its class: {path}:Model."
        )
    return ResolvedModel(workload=workload_of_problem(path))


def of_config(config: Any, request: Request, name: str = "") -> ResolvedModel:
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
            ranges=request.ranges,
            name=name,
            layers=request.layers,
        )
        return ResolvedModel(workload=found, notes=_engine_notes(config))
    if isinstance(config, dict) and "pretrained_cfg" in config:
        return _of_timm(config, request)
    from gambrel.capture.torch.huggingface import workload_from_config

    return ResolvedModel(
        workload=workload_from_config(config, phase=request.phase, name=name, **sizes)
    )


def _engine_notes(config: Any) -> tuple[str, ...]:
    """What an engine of TensorRT-LLM was built for, which one pass of the model does not show."""
    from gambrel.llm.config.tensorrt_llm import inner_of, is_tensorrt_llm

    mapping = inner_of(config).get("mapping") if is_tensorrt_llm(config) else None
    devices = mapping.get("world_size") if isinstance(mapping, dict) else None
    if not isinstance(devices, int) or devices <= 1:
        return ()
    return (
        f"The engine was built for {devices} devices: here the whole model runs on one; "
        "'gambrel serve-plan --config' splits it as the engine does.",
    )


def _of_timm(config: dict[str, Any], request: Request) -> ResolvedModel:
    """The configuration that timm puts beside its weights on the hub."""
    from gambrel.capture.torch.timm_models import PREFIX, workload_from_timm

    name, classes = config.get("architecture"), config.get("num_classes")
    if not isinstance(name, str) or not isinstance(classes, int):
        raise CaptureError("the configuration of timm lacks 'architecture' or 'num_classes'.")
    return ResolvedModel(
        workload=workload_from_timm(f"{PREFIX}{name}", sizes=request.sizes, classes=classes)
    )
