"""Measured runs of whole models on NPUs, read from the collected tables; see its README for traps.

Each row names the zoo's model at the sizes at which it was timed. Rows in which layers ran
elsewhere than on the NPU are left out, and so are models of which the zoo has no equal.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

from gambrel.analysis.estimate.stream_work import StreamWork
from gambrel.analysis.estimate.tiled_fit import MeasuredRun
from gambrel.analysis.estimate.tiled_work import MOVE, NORM, TiledTable, TiledWork
from gambrel.analysis.plan import plan_of
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.capture.zoo import load
from gambrel.device.catalog import load as load_device
from gambrel.dtypes import width_bytes
from gambrel.ops import Conventions
from gambrel.runtimes import runtime

Sizes = tuple[tuple[str, int], ...]

#: AI Hub's model and component → zoo's name and sizes. Inputs as timed, which for four of them
#: differ from what the table states (their times fit no other size).
AIHUB: dict[tuple[str, str], tuple[str, Sizes]] = {
    ("albert_base_v2_hf", ""): ("albert-base-v2", ()),
    ("beit", ""): ("beit-base", ()),
    ("bert_base_uncased_hf", ""): ("bert-base-mlm", (("seq", 384),)),
    ("convnext_base", ""): ("convnext-base", ()),
    ("convnext_tiny", ""): ("convnext-tiny", ()),
    ("densenet121", ""): ("densenet121", ()),
    ("depth_anything", ""): ("depth-anything-small", ()),
    ("depth_anything_v2", ""): ("depth-anything-small", ()),
    ("detr_resnet50", ""): ("detr-resnet50", ()),
    ("detr_resnet101", ""): ("detr-resnet101", ()),
    ("dla102x", ""): ("dla102x", ()),
    ("easyocr", "EasyOCRDetector"): ("craft", ()),
    ("efficientformer", ""): ("efficientformer-l1", ()),
    ("efficientnet_b0", ""): ("efficientnet-b0", ()),
    ("efficientnet_b4", ""): ("efficientnet-b4", (("image", 224),)),
    ("efficientnet_v2_s", ""): ("efficientnet-v2-s", ()),
    ("electra_bert_base_discrim_google", ""): ("electra-base", ()),
    ("esrgan", ""): ("real-esrgan-x4plus", ()),
    ("fcn_resnet50", ""): ("fcn-resnet50", ()),
    ("googlenet", ""): ("googlenet", ()),
    ("inception_v3", ""): ("inception-v3-224", ()),
    ("mnasnet05", ""): ("mnasnet-0.5", ()),
    ("nasnet", ""): ("nasnet-large", ()),
    ("openai_clip", ""): ("clip-vit-b-16", ()),
    ("quicksrnetlarge", ""): ("quicksrnet-large", ()),
    ("quicksrnetmedium", ""): ("quicksrnet-medium", ()),
    ("real_esrgan_general_x4v3", ""): ("real-esrgan-general", ()),
    ("real_esrgan_x4plus", ""): ("real-esrgan-x4plus", ()),
    ("regnet", ""): ("regnet-x-3.2gf", ()),
    ("resnet101", ""): ("resnet101", ()),
    ("resnet18", ""): ("resnet18", ()),
    ("resnet50", ""): ("resnet50", ()),
    ("resnet_2plus1d", ""): ("r2plus1d-18", ()),
    ("resnet_3d", ""): ("r3d-18", ()),
    ("resnet_mixed", ""): ("mc3-18", ()),
    ("resnext101", ""): ("resnext101", ()),
    ("resnext50", ""): ("resnext50", ()),
    ("unet_segmentation", ""): ("unet", ()),
    ("vit", ""): ("vit-b-16", ()),
    ("whisper_base", "HfWhisperEncoder"): ("whisper-base-encoder", ()),
    ("whisper_small", "HfWhisperEncoder"): ("whisper-small-encoder", ()),
    ("whisper_tiny", "HfWhisperEncoder"): ("whisper-tiny-encoder", ()),
    ("whisper_large_v3_turbo", "HfWhisperEncoder"): ("whisper-large-v3-encoder", ()),
    ("wideresnet50", ""): ("wide-resnet50", ()),
    ("yolox", ""): ("yolox-s", ()),
    ("controlnet_canny", "vae"): ("sd15-vae-decoder", ()),
    ("controlnet_canny", "text_encoder"): ("clip-l-text", ()),
}
#: 3-D convolutions take 50 times as long in TensorFlow Lite: they do not run as one.
_NOT_TFLITE = frozenset({"r3d-18", "mc3-18", "r2plus1d-18"})
#: AI Hub's device → catalog.
QUALCOMM = {
    "Samsung Galaxy S24": "snapdragon-8-gen-3",
    "Snapdragon 8 Elite Gen 5 QRD": "snapdragon-8-elite-gen-5",
    "Snapdragon X Elite CRD": "snapdragon-x-elite",
    "QCS8550 (Proxy)": "qcs8550",
    "QCS8450 (Proxy)": "qcs8450",
    "QCS8275 (Proxy)": "qcs8275",
    "SA8295P ADP": "sa8295p",
    "SA7255P ADP": "sa7255p",
    "Dragonwing IQ-9075 EVK": "iq-9075",
    "Dragonwing Q-6690 MTP": "q-6690",
}
#: Name of constants → runtime, where they differ.
RUNTIMES = {
    "onnxruntime": "onnxruntime-qnn",
    "coreml": "coreml-ane",
    "dpu": "vitis-ai-dpu",
    "dpu-versal": "vitis-ai-versal",
}
#: Names of constants for Qualcomm's chips.
HEXAGON = ("qnn", "litert", "onnxruntime")
_RUNTIMES = {"qnn_dlc": "qnn", "tflite": "litert", "onnx": "onnxruntime"}
_FORMATS = {"float": "fp16", "w8a8": "int8", "w8a16": "int16"}

#: Of an image of 640 x 640, by YOLOs without anchors; classes of COCO.
YOLO_BOXES, YOLO_CLASSES = 8400, 80

#: Rockchip's model → zoo's.
RKNN = {
    "mobilenetv2-12": "mobilenet-v2",
    "yolov5n": "yolov5n",
    "yolov5s": "yolov5s",
    "yolov5m": "yolov5m",
    "yolov10s": "yolov10s",
    "yolo11s": "yolo11s",
    "yolo11m": "yolo11m",
    "yolox_s": "yolox-s",
    "yolox_m": "yolox-m",
}
ROCKCHIP = {
    "RK3588": "rk3588-npu",
    "RK3562": "rk3562",
    "RK3566 RK3568": "rk3568",
    "RV1109": "rv1109",
    "RK1808": "rk1808",
}
#: AXERA's model → zoo's.
AXERA = {
    "mobilenetv1": "mobilenet-v1",
    "mobilenetv2": "mobilenet-v2",
    "resnet18": "resnet18",
    "resnet50": "resnet50",
    "vgg16": "vgg16",
    "squeezenetv10": "squeezenet-1.0",
    "squeezenetv11": "squeezenet-1.1",
    "swin_t": "swin-t",
    "deit_t": "deit-t",
    "depth-anything-v2": "depth-anything-small",
    "yolov5s": "yolov5s",
    "yolov8l": "yolov8l",
    "yolov8x": "yolov8x",
    "yolov10s": "yolov10s",
    "yolo11s": "yolo11s",
    "yolo26n": "yolo26n",
    "yolo26s": "yolo26s",
    "yolo26m": "yolo26m",
    "yolox_s": "yolox-s",
}
_AXERA_CHIPS = {
    ("AX615", "2 Cores"): "ax615",
    ("AX620Q", "2.4T"): "ax620q",
    ("AX637", ""): "ax637",
    ("AX650N", "3 Cores"): "ax650n",
    ("AX650N", "1 Core"): "ax650n-one-core",
}


#: Hailo's model → zoo's. Its variants with batch norms in a transformer are other networks.
HAILO = {
    "davit_tiny": "davit-tiny",
    "deit_base": "deit-b",
    "deit_small": "deit-s",
    "deit_tiny": "deit-t",
    "dncnn3": "dncnn",
    "efficientnet_l": "efficientnet-el",
    "efficientnet_m": "efficientnet-em",
    "efficientnet_s": "efficientnet-es",
    "efficientnet_lite0": "efficientnet-lite0",
    "efficientnet_lite1": "efficientnet-lite1",
    "efficientnet_lite2": "efficientnet-lite2",
    "efficientnet_lite3": "efficientnet-lite3",
    "efficientnet_lite4": "efficientnet-lite4",
    "inception_v1": "googlenet",
    "face_attr_resnet_v1_18": "resnet18",
    "person_attr_resnet_v1_18": "resnet18",
    "nextvit_base": "nextvit-base",
    "nextvit_small": "nextvit-small",
    "poolformer_s12": "poolformer-s12",
    "regnetx_1.6gf": "regnet-x-1.6gf",
    "repvgg_a1": "repvgg-a1",
    "repvgg_a2": "repvgg-a2",
    "resmlp12_relu": "resmlp-12",
    "resnext50_32x4d": "resnext50",
    "swin_small": "swin-s",
    "swin_tiny": "swin-t",
    "vit_base": "vit-b-16",
    "vit_small": "deit-s",
    "vit_tiny": "deit-t",
    "yolov10b": "yolov10b",
    "yolov10s": "yolov10s",
    "yolov11l": "yolo11l",
    "yolov11n": "yolo11n",
    "yolov11s": "yolo11s",
    "yolov12n": "yolo12n",
    "yolov5m_6.1": "yolov5m",
    "yolov5s": "yolov5s",
    "yolov8l": "yolov8l",
    "yolov8s_bbox_decoding_only": "yolov8s",
    "yolov8s_pose": "yolov8s-pose",
    "yolov8x": "yolov8x",
    "yolov9c": "yolov9c",
    "yolox_l_leaky": "yolox-l",
    "yolox_s_leaky": "yolox-s",
    "yolox_tiny": "yolox-tiny",
    "zero_dce": "zero-dce",
}
#: Rates that the vendor publishes, with their source in each line.
HAILO_RATES = Path(__file__).parents[1] / "benchmarks/data/hailo/rates.csv"
#: One frame at a time on a Raspberry Pi 5, its transfers counted: nothing is fitted to them.
HAILO_CALLS = HAILO_RATES.with_name("calls.csv")
#: Times of the Edge TPU that Google publishes; see the README beside them.
CORAL_TIMES = Path(__file__).parents[1] / "benchmarks/data/coral/edgetpu.csv"
#: Times on iPhones that authors of networks publish; see the README beside them.
COREML_TIMES = Path(__file__).parents[1] / "benchmarks/data/coreml/neural_engine.csv"
#: Times that nothing is fitted to, of networks most of which are in the other file.
COREML_UNSEEN = COREML_TIMES.with_name("mobilenet_v4.csv")
#: The same of Macs.
COREML_MACS = COREML_TIMES.with_name("macs.csv")
#: Times on NPUs of Intel; see the README beside them.
INTEL_TIMES = Path(__file__).parents[1] / "benchmarks/data/openvino/npu.csv"
#: Of the same, with an old release or a chip that slept: nothing is fitted to them.
INTEL_UNSEEN = INTEL_TIMES.with_name("npu_unseen.csv")
#: Of small networks, one call from Python after another: how far ranges reach.
INTEL_CALLS = INTEL_TIMES.with_name("npu_calls.csv")
#: Detectors on Qualcomm's chips, which the folder has not; see the README beside them.
QUALCOMM_TIMES = Path(__file__).parents[1] / "benchmarks/data/qualcomm/detectors.csv"
#: The same of other releases, formats and runtimes, and of 2024: nothing is fitted to them.
QUALCOMM_UNSEEN = QUALCOMM_TIMES.with_name("detectors_unseen.csv")
QUALCOMM_NETWORKS = QUALCOMM_TIMES.with_name("networks_unseen.csv")
QUALCOMM_2024 = QUALCOMM_TIMES.with_name("detectors_2024.csv")
#: Times of batches on Huawei's inference chips; see the README beside them.
ASCEND_TIMES = Path(__file__).parents[1] / "benchmarks/data/ascend/networks.csv"
#: Times on boards with a BPU of Horizon's, rates of cards with an Axelera Metis; see the READMEs.
HORIZON_TIMES = Path(__file__).parents[1] / "benchmarks/data/horizon/networks.csv"
AXELERA_RATES = Path(__file__).parents[1] / "benchmarks/data/axelera/rates.csv"
#: Of an AXERA chip on a card, to which nothing is fitted but how far the range reaches.
AXERA_CARDS = Path(__file__).parents[1] / "benchmarks/data/axera/card.csv"
#: Submissions to MLPerf on Qualcomm's cards; see the README beside them.
QAIC_TIMES = Path(__file__).parents[1] / "benchmarks/data/qaic/mlperf.csv"
#: The same of the card of four chips, to which nothing is fitted.
QAIC_UNSEEN = QAIC_TIMES.with_name("ultra.csv")
#: Times on AMD's NPUs; see the README beside them.
RYZEN_TIMES = Path(__file__).parents[1] / "benchmarks/data/ryzen/networks.csv"
#: Times on ST's NPU, and of an older release of its compiler; see the README beside them.
STM32N6_TIMES = Path(__file__).parents[1] / "benchmarks/data/stm32n6/networks.csv"
STM32N6_UNSEEN = STM32N6_TIMES.with_name("release_2.csv")
#: Of networks whose activations or fallbacks go to the memory outside the chip: not fitted.
STM32N6_OUTSIDE = STM32N6_TIMES.with_name("external_ram.csv")
#: Times on boards with AMD's DPUs, of frames in flight as well; see the README beside them.
DPU_TIMES = Path(__file__).parents[1] / "benchmarks/data/dpu/model_zoo.csv"
#: Times on a Pixel 8; see the README beside them.
TENSOR_TIMES = Path(__file__).parents[1] / "benchmarks/data/tensor/edgetpu.csv"
_HAILO_CHIPS = {"HAILO8": "hailo-8", "HAILO10H": "hailo-10h", "HAILO15H": "hailo-15h"}
#: Columns of sizes, of those that differ from the zoo's.
_SIZES = ("batch", "image", "seq")
#: Rates below this are printed with one digit.
_SLOWEST_PER_S = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A measured run.

    Attributes:
        runtime: Of gambrel.
        device: Id in the catalog.
        model: Of the zoo.
        sizes: At which it was timed.
        precision: Number format.
        seconds: Of one inference.
        batch: Frames of a stream; 1 elsewhere.
    """

    runtime: str
    device: str
    model: str
    sizes: Sizes
    precision: str
    seconds: float
    batch: int = 1

    @property
    def measured(self) -> MeasuredRun | None:
        """For fitting; None where the form does not apply."""
        run = work_of(self.runtime, self.device, self.model, self.sizes, self.precision)
        return run and MeasuredRun(model=self.model, run=run, seconds=self.seconds)


def rows(folder: Path) -> tuple[Row, ...]:
    """All rows of latencies of one inference."""
    truth = folder / "truth"
    phones = (*timed("coreml", COREML_TIMES), *_tensor())
    notebooks = (*timed("openvino-npu", INTEL_TIMES), *timed("vitisai", RYZEN_TIMES))
    dpus = (r for name in ("dpu", "dpu-versal") for r in timed(name, DPU_TIMES))
    detectors = (r for name in HEXAGON for r in timed(name, QUALCOMM_TIMES))
    tables = (*_aihub(truth), *detectors, *_rknn(truth), *_axera(truth))
    servers = (*timed("cann", ASCEND_TIMES), *timed("qaic", QAIC_TIMES))
    boards = (*_coral(), *timed("openexplorer", HORIZON_TIMES), *timed("voyager", AXELERA_RATES))
    controllers = timed("st-neural-art", STM32N6_TIMES)
    return (*tables, *boards, *phones, *notebooks, *servers, *controllers, *dpus)


def streamed(folder: Path) -> tuple[Row, ...]:
    """Rows of streamed frames: seconds of a batch, at the vendor's rate."""
    return (*_hailo(folder / "truth"), *_published_rates())


def called() -> tuple[Row, ...]:
    """Frames that a host sends one by one, and waits for."""
    return tuple(
        Row(
            runtime="hailort", device=r["device"], model=r["model"], sizes=(("batch", 1),),
            precision="int8", seconds=float(r["ms"]) / 1e3,
        )
        for r in _read(HAILO_CALLS)
    )  # fmt: skip


def stream_work_of(row: Row) -> StreamWork:
    """What a batch of a row asks of a chip that streams frames."""
    return _stream(row.model, row.batch)


@cache
def _stream(model: str, batch: int) -> StreamWork:
    plan = plan_of(runtime("hailort"), load_device("hailo-8"), off_chip_only=False, on_chip_bytes=0)
    return bench(model, (("batch", batch),)).table("int8", plan).stream


def work_of(name: str, device: str, model: str, sizes: Sizes, precision: str) -> TiledTable | None:
    """What a compiler makes of a model; devices of one runtime share it."""
    del device
    return _work(name, model, sizes, precision)


@cache
def _work(name: str, model: str, sizes: Sizes, precision: str) -> TiledTable | None:
    # Formats and grouping are those of the chip's own compiler, whoever hands it the graph.
    own = runtime(RUNTIMES.get(name, name))
    tiled = runtime("qnn") if name in ("litert", "onnxruntime") else own
    # The memory of the others does not matter: their runtimes state one.
    device = load_device("coral-edge-tpu" if name == "edgetpu" else "snapdragon-8-gen-3")
    plan = plan_of(tiled, device, off_chip_only=name == "edgetpu", on_chip_bytes=0)
    plan = msgspec.structs.replace(plan, tiling=own.tiling)
    whole = bench(model, sizes).on(Machine(device, Settings()))
    found = whole.table(precision, plan).tiled
    if len(found.formats) != 1:
        return None
    return _classified(found) if name in HEXAGON and model.startswith("yolo") else found


def _classified(found: TiledTable) -> TiledTable:
    """With the best class of each box, which AI Hub's exports of detectors look for.

    The scores are turned so that those of a box are a row, then reduced to their maximum and to
    where it is.
    """
    scores = YOLO_BOXES * YOLO_CLASSES * width_bytes(found.formats[0]) / 2
    work = TiledWork(
        macs=0.0, dtype="", vector=(MOVE + 2 * NORM) * scores, moved_bytes=0.0, ahead_bytes=0.0
    )
    return msgspec.structs.replace(
        found,
        works=(*found.works, work),
        groups=(*found.groups, (len(found.works),)),
        counts=(*found.counts, 1),
    )


@cache
def bench(model: str, sizes: Sizes) -> Workbench:
    """A model of the zoo at sizes."""
    workload = load(model)
    return Workbench(workload, workload.resolve_symbols(dict(sizes)), Conventions())


def _read(path: Path) -> Iterator[dict[str, str]]:
    with path.open(newline="", encoding="utf-8") as file:
        yield from csv.DictReader(file)


def _aihub(truth: Path) -> Iterator[Row]:
    for r in _read(truth / "edge_aihub.csv"):
        known = r["runtime"] in _RUNTIMES and r["precision"] in _FORMATS and r["device"] in QUALCOMM
        whole = r["unit"] == "NPU" and r["npu_layers"] == r["total_layers"]
        match = AIHUB.get((r["model"], r["component"])) or AIHUB.get((r["model"], ""))
        if not (known and whole and match):
            continue
        if r["runtime"] == "tflite" and match[0] in _NOT_TFLITE:
            continue
        yield Row(
            runtime=_RUNTIMES[r["runtime"]],
            device=QUALCOMM[r["device"]],
            model=match[0],
            sizes=match[1],
            precision=_FORMATS[r["precision"]],
            seconds=float(r["latency_ms"]) / 1e3,
        )


def _rknn(truth: Path) -> Iterator[Row]:
    for r in _read(truth / "edge_rknn.csv"):
        chip = ROCKCHIP.get(r["device"])
        if r["model"] in RKNN and chip is not None:
            yield Row(
                runtime="rknn",
                device=chip,
                model=RKNN[r["model"]],
                sizes=(),
                precision="int8",
                seconds=1 / float(r["fps"]),
            )


def _axera(truth: Path) -> Iterator[Row]:
    for r in _read(truth / "edge_axera.csv"):
        cores = r["column"].partition("@")[2]
        chip = _AXERA_CHIPS.get((r["device"], cores))
        model = AXERA.get(r["model"].lower())
        if chip is not None and model is not None:
            yield Row(
                runtime="axera",
                device=chip,
                model=model,
                sizes=(),
                precision="int8",
                seconds=float(r["latency_ms"]) / 1e3,
            )


def _coral() -> Iterator[Row]:
    for r in _read(CORAL_TIMES):
        name, _, size = r["size"].partition("=")
        yield Row(
            runtime="edgetpu",
            device=r["device"],
            model=r["model"],
            sizes=((name, int(size)),) if name else (),
            precision="int8",
            seconds=float(r["ms"]) / 1e3,
        )


def timed(name: str, path: Path) -> Iterator[Row]:
    """Times under a runtime, of one of the files that have a line for each.

    A file without a column for it is of that runtime.
    """
    for r in _read(path):
        if r.get("runtime", name) != name:
            continue
        yield Row(
            runtime=name,
            device=r["device"],
            model=r["model"],
            sizes=tuple((name, int(r[name])) for name in _SIZES if r.get(name)),
            precision=r["format"],
            seconds=float(r["ms"]) / 1e3,
        )


def _tensor() -> Iterator[Row]:
    for r in _read(TENSOR_TIMES):
        yield Row(
            runtime="litert-edgetpu",
            device=r["device"],
            model=r["model"],
            sizes=(),
            precision="int8",
            seconds=float(r["ms"]) / 1e3,
        )


def _published_rates() -> Iterator[Row]:
    """Rates that the folder has not; YOLOv8n is kept back for a test."""
    for r in _read(HAILO_RATES):
        batch = int(r["batch"])
        yield Row(
            runtime="hailort",
            device=r["device"],
            model=r["model"],
            sizes=(("batch", batch),),
            precision="int8",
            seconds=batch / float(r["fps"]),
            batch=batch,
        )


def _hailo(truth: Path) -> Iterator[Row]:
    for r in _read(truth / "edge_hailo.csv"):
        chip = _HAILO_CHIPS.get(r["device"])
        model = HAILO.get(r["model"].strip("⭐ "))
        if chip is None or model is None or not r["fps"] or float(r["fps"]) < _SLOWEST_PER_S:
            continue
        batch = int(r["batch"])
        yield Row(
            runtime="hailort",
            device=chip,
            model=model,
            sizes=(("batch", batch),),
            precision="int8",
            seconds=batch / float(r["fps"]),
            batch=batch,
        )
