"""What the fits of NPUs start from, and what is known of a runtime or chip before them."""

from __future__ import annotations

from gambrel.analysis.estimate.tiled_constants import Flight
from npu_rows import AXERA_CARDS, INTEL_CALLS

#: Where fits start, by runtime; any chip of the class is near enough.
STARTS = {
    "qnn": ({"fp16": 5e-4, "int8": 2.5e-4, "int16": 5e-4}, 4e12, 14e9, 30e9, 50e9),
    "litert": ({"fp16": 5e-4, "int8": 2.5e-4, "int16": 5e-4}, 4e12, 14e9, 30e9, 50e9),
    "onnxruntime": ({"fp16": 6e-4, "int8": 4e-4, "int16": 6e-4}, 4e12, 14e9, 30e9, 50e9),
    "rknn": ({"int8": 0.0}, 1e12, 0.5e9, 6e9, 6e9),
    "axera": ({"int8": 0.0}, 2e12, 4e9, 20e9, 20e9),
    "coreml": ({"fp16": 5e-4, "int8": 5e-4}, 4e12, 50e9, 30e9, 30e9),
    "openvino-npu": ({"fp16": 1e-4, "int8": 1e-4}, 2e12, 20e9, 30e9, 30e9),
    "litert-edgetpu": ({"int8": 5e-4}, 4e12, 50e9, 30e9, 30e9),
    "cann": ({"fp16": 5e-4}, 1e13, 1e10, 6e10, 6e10),
    "vitisai": ({"int8": 5e-4}, 2e12, 16e9, 5e9, 30e9),
    # Weights at the rate of the board's flash.
    "st-neural-art": ({"int8": 0.0}, 1e11, 1e8, 4e8, 4e8),
    "dpu": ({"int8": 1.5e-4}, 6e11, 1e10, 5e9, 5e9),
    "dpu-versal": ({"int8": 5e-4}, 1.8e13, 1e11, 1e10, 8e10),
    # By the shares of Hexagon NPUs (`tiled_classes`).
    "qaic": ({"fp16": 4e-4, "int8": 4e-4}, 2.5e13, 139e9, 137e9, 110e9),
    "openexplorer": ({"int8": 3e-4}, 4e12, 10e9, 20e9, 20e9),
    "voyager": ({"int8": 1e-4}, 4e13, 2e10, 8e10, 2e10),
    # Peak; weights from the host at what VGG's take.
    "edgetpu": ({"int8": 1e-4}, 2e12, 2e9, 5e9, 0.42e9),
}
#: Multiply-adds in other formats relative to fp16, to start from.
RATIOS = {"fp16": 1.0, "int16": 1.8, "int8": 3.2}
#: Runtimes that hand the graph to Qualcomm's compiler: a chip's fit starts from its own runtime's.
CARRIED = ("litert", "onnxruntime")
#: Softmaxes have a rate of their own; on Rockchip's they start well below the vector unit's.
SOFTMAX = {
    "litert": 1.0,
    "onnxruntime": 1.0,
    "rknn": 0.2,
    "coreml": 0.1,
    "cann": 0.2,
    "openexplorer": 0.2,
}
#: Elements of inputs handed over per second, in fp32, where a fit tells them apart.
HANDED = {
    "openvino-npu": 2e8,
    "onnxruntime": 8e8,
    "voyager": 4e9,
    "dpu": 4.1e8,
    "dpu-versal": 4.5e8,
}
#: What a call costs whatever the chip computes.
STARTING = ("start", "handed")
#: Where each number format has a start of its own, few rows tell it from what inputs add.
EACH_START = tuple(f"start:{name}" for name in RATIOS)
#: From this factor on a reader is told that softmaxes are slow.
SLOW = 10
#: Weight of a factor of e from the start.
PULL, HELD = 0.05, 0.3
#: The same where few models are all there is, and the start is that of similar chips.
TOLD = 0.2
#: Fewer rows under a runtime than this, of which most are detectors, are also those by which its
#: tiling was chosen: its ranges are wider than the errors of models that were left out.
PROVEN, WIDER = 100, 1.05
#: Cores that a single input is spread over, and all, where cores take inputs by themselves.
CORES = {"qaic": (4, 16)}
#: Calls in flight: inputs of a call, calls on cores of their own, calls that the memory feeds
#: (fitted where there are several), cores of the processor, and what batch handlers keep of feature
#: maps (PG389).
FLIGHTS = {
    "zcu102": Flight(inputs=1, calls=3, fed=1.7, hosts=4),
    "zcu104": Flight(inputs=1, calls=2, fed=1.7, hosts=4),
    "kv260": Flight(inputs=1, calls=1, fed=1.0, hosts=4),
    "vck190": Flight(inputs=6, calls=1, fed=1.0, hosts=2, kept_bytes=16 * 131072),
}
#: Boards of which two columns of a table tell what a call costs their processor: it is not fitted.
READ_OFF = ("zcu102", "zcu104", "kv260")
#: What few models tell apart of a chip whose fit starts from shares of its maker's others.
SHARED = {"qaic": (("start",), ("vector",), ("activation", "ahead"), ("fp16", "int8"))}
#: Runtimes whose tiling was chosen by the rows of one publisher, all there are.
YOUNG = (
    "cann",
    "dpu",
    "dpu-versal",
    "openexplorer",
    "qaic",
    "st-neural-art",
    "vitisai",
    "voyager",
)
#: Runtimes whose rows are rates with frames in flight.
RATES = ("voyager",)
#: Of one chip, whose clock and flash its makers do not scale: nothing is carried to others.
ALONE = ("st-neural-art",)
#: Activations of a product that stayed on chip, and the upper end of networks with more. Those of
#: MobileNetV2 1.4 (2.3 MB) stay; of SSDLite-MobileNetV2 at 300 (2.7) and DeepLab at 416 (2.6) the
#: widest tensor is outside by ST's tables: 2.8 and 3.3 times what smaller ones let expect.
OUTSIDE = {"st-neural-art": (2.5e6, 3.5)}
#: Softmaxes and norms over rows run on the processor beside the NPU: the upper end of networks of
#: blocks of attention is what ops there cost the one network (SqueezeNet 1.0) that shows it.
BESIDE = {"st-neural-art": 9.0}
#: The USB Accelerator as installed (libedgetpu1-std) runs at half the clock that was measured.
HALF_CLOCK = {"coral-edge-tpu": 2.0}
#: Under these runtimes calls from a host were timed, under the first from Python.
CALLED = {"openvino-npu": INTEL_CALLS, "axera": AXERA_CARDS}
#: Of longer ones (none under OpenVINO) the error of their times hides what a call adds, s.
BRIEF_S = 1e-3
#: And there all chips have what was seen on one.
EVERY = "openvino-npu"
#: Fewer models than this are no calibration.
FEW = 6
#: Chips with fewer, or with detectors alone, and the one of the same design that their fit starts
#: from: YOLOs do not tell at what rate weights arrive.
NEAR = {
    "rdk-s100p": "rdk-s100",
    "rdk-s600": "rdk-s100",
    "apple-a16": "apple-a15",
    "apple-a17-pro": "apple-a15",
    "intel-npu-arrow-lake": "intel-npu-meteor-lake",
    "intel-npu-panther-lake": "intel-npu-lunar-lake",
}
