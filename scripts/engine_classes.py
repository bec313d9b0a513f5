"""Classes of devices whose engines are fitted as one: where a fit starts, what the rows can tell.

Used by fit_engines.py; the form is in `gambrel.analysis.estimate.engine_forms`.
"""

from __future__ import annotations

from dataclasses import dataclass

MLPERF = (
    "mlcommons/inference_results_v3.0 @1948f9b5 and v4.1 @198fc467, Apache-2.0 (figures only), "
    "2026-11-22"
)
CARDS = (
    "NVIDIA/TensorRT demo/BERT/README.md @768d994b and @007c3470, Apache-2.0 (figures only); model "
    "pages of Ultralytics (figures only); see benchmarks/data/cards, 2026-11-24"
)
INTEL = (
    "openvinotoolkit/openvino (Apache-2.0) and ultralytics/ultralytics, figures only; see "
    "benchmarks/data/openvino, 2026-11-28"
)
#: Weight of a factor of e from the start, which is a guess from the physics of such kernels.
PULL = 0.3


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """A class of devices: where its fit starts, and what is said of it.

    Attributes:
        runtime: Id.
        start: Constants from what is known of such kernels before any of these rows.
        free: Names of those that the rows can tell.
        pull: Weight of a factor of e from the start.
        alike: Whether every device weighs alike, however few of its runs are known.
        known: Whether energies are known of processes that no row shows: those of the start.
    """

    runtime: str
    match: tuple[str, ...]
    start: dict[str, float]
    free: tuple[str, ...]
    flop_energy: dict[str, float]
    formats: dict[str, float]
    lanes_per_unit: float
    confidence: str
    why: str
    source: str = MLPERF
    pull: float = PULL
    alike: bool = False
    known: bool = False


GPU = {
    "compute": 0.8, "attention": 0.3, "gather": 0.8, "small": 0.8, "wave": 0.5, "finish": 4.0,
    "tap": 10.0, "element": 4.0, "memory": 0.85, "cache": 0.5, "kept": 0.7, "launch": 5000.0,
    "step": 60.0, "start_s": 5e-5, "apart": 0.75,
}  # fmt: skip
#: Per FLOP in int8, J: 12 nm, 7 nm, Samsung 8 nm, 4N.
ENERGY = {"Turing": 1.1e-12, "GA100": 0.65e-12, "Ampere": 1.0e-12, "Ada": 0.45e-12}
#: An attention is launched in so many ``parts`` beside the one kernel that is counted: products,
#: transposes and changes of format.
#: Of a processor: its tiles are small, its clock is told from its power, a kernel waits for its
#: threads, softmax and what stands by itself take functions in 32 bits. A single row waits for its
#: operand: one load for each product.
CPU = {
    **GPU, "compute": 0.85, "gather": 0.3, "small": 1.0, "wave": 0.5, "tap": 2.5, "element": 20.0,
    "memory": 0.8, "cache": 0.3, "kept": 0.5, "launch": 10000.0, "step": 0.0, "start_s": 1e-5,
    "turbo": 0.9, "sync": 400.0, "fine": 0.8, "finest": 0.9, "single": 0.5,
    "softmax": 300.0, "parts": 5.0,
}  # fmt: skip
#: Per FLOP in fp32 of a processor at 1 GHz, J.
CPU_ENERGY = 7e-12
#: Of an Intel GPU. Cards are handed inputs and results over PCIe, at most 16 to 32 GB/s.
XE = {
    **GPU, "compute": 0.4, "element": 20.0, "launch": 10000.0, "softmax": 200.0, "single": 0.5,
    "start_s": 1e-4, "call_s": 1e-3,
}  # fmt: skip
XE_COPIES = {**XE, "copied_per_s": 1e10}
XE_FREE = (
    "compute", "attention", "wave", "element", "memory", "kept", "launch", "start_s", "softmax",
    "call_s",
)  # fmt: skip
#: Of the memory's bandwidth and of the last cache what OpenVINO uses on processors without AMX: the
#: few runs with AMX cannot tell one from the other.
MEMORY = {"memory": 0.8851, "kept": 0.4265}
#: How long threads on Xeons with AMX wait for each other, by OpenVINO's runs: it calls oneDNN, too.
#: MLPerf's runs are of large batches and cannot tell.
THREADS = {"launch": 10160.0, "sync": 365.1}
#: Weight of the start where a class has few rows far from any guess.
FEW = 0.1
CLASSES = (
    Class(  # before all NVIDIA devices: the first that matches counts
        runtime="tensorrt",
        match=("jetson",),
        # A single row has a kernel that reads its weights once; small GPUs feel tiles of 64 rows.
        start={**GPU, "launch": 6000.0, "start_s": 2e-4, "call_s": 3e-4, "single": 0.5},
        free=(*GPU, "call_s"),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0, "tf32": 4.0},
        lanes_per_unit=128,
        confidence="medium",
        why="whole runs under TensorRT on Jetson modules",
        source=(
            "figures published by Ultralytics (docs/en/guides/nvidia-jetson.md), Nota (NetsPresso "
            "Trainer), hokwangchoi and the0807 on GitHub; see benchmarks/data/jetson, 2026-11-22"
        ),
    ),
    Class(
        runtime="tensorrt",
        match=("nvidia",),
        # MLPerf's runs and trtexec's have no call from Python with its copies. Half a millisecond
        # is assumed: 147 runs of others, none fitted, were 80 % inside without and 92 % with it.
        start={**GPU, "call_s": 5e-4},
        free=tuple(GPU),
        flop_energy=ENERGY,
        known=True,
        formats={"int8": 1.0, "fp8": 1.1, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="medium",
        why="whole runs under TensorRT on 15 GPUs: MLPerf Inference, BERT, YOLO",
        source=f"{MLPERF}; {CARDS}",
    ),
    Class(
        runtime="ipex",
        match=("xeon",),
        start={
            **GPU, "compute": 0.5, "gather": 100.0, "small": 1.0, "wave": 0.0, "attention": 0.3,
            **THREADS, "start_s": 0.0, "apart": 0.0,
        },
        free=("compute", "finish"),
        flop_energy={},
        formats={"int8": 1.0},
        lanes_per_unit=32,
        confidence="low",
        why="whole runs of MLPerf Inference on two Xeons, by oneDNN's kernels under PyTorch",
    ),
    Class(
        runtime="openvino",
        match=("amx",),
        start={**CPU, **MEMORY, "matrix": 0.5, "shared": 0.01},
        free=(
            "compute", "attention", "gather", "wave", "finish", "tap", "element",
            "cache", "launch", "sync", "softmax", "matrix", "shared", "parts",
        ),
        flop_energy={"Granite Rapids": 0.7 * CPU_ENERGY, "Rapids": CPU_ENERGY},  # Intel 3 and 7
        formats={"int8": 1.0, "bf16": 2.0, "fp32": 4.0},
        lanes_per_unit=32,
        confidence="low",
        why="whole runs under OpenVINO on four Xeons with AMX",
        source=INTEL,
    ),
    Class(
        runtime="openvino",
        match=("xeon", "core-i", "core-ultra"),
        start=CPU,
        free=(
            "compute", "attention", "gather", "wave", "finish", "tap", "element", "memory", "kept",
            "cache", "launch", "sync", "softmax", "parts",
        ),
        flop_energy=dict.fromkeys(
            (
                "Cascade Lake", "Ice Lake", "Coffee Lake", "Alder Lake", "Meteor Lake",
                "Lunar Lake",
            ),
            CPU_ENERGY,
        ),
        formats={"int8": 1.0, "fp32": 4.0},
        lanes_per_unit=32,
        confidence="medium",
        why="whole runs under OpenVINO on 23 processors of Intel's without AMX",
        source=INTEL,
        alike=True,
    ),
    Class(
        runtime="openvino",
        match=("xe-hpg",),
        start={**XE_COPIES, "parts": 5.0},
        free=(*XE_FREE, "copied_per_s", "parts"),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="low",
        why="whole runs under OpenVINO on three cards with one chip, in hosts of different speeds",
        source=INTEL,
        alike=True,
    ),
    Class(
        runtime="openvino",
        match=("xe-lp",),
        start={**XE, "call_s": 3e-3, "parts": 5.0},
        free=(*XE_FREE, "parts"),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="medium",
        why="whole runs under OpenVINO on five integrated GPUs",
        source=INTEL,
        pull=FEW,
        alike=True,
    ),
    Class(
        runtime="openvino",
        match=("xe2-hpg",),
        start=XE_COPIES,
        free=(*XE_FREE, "copied_per_s"),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="low",
        why="whole runs under OpenVINO on an Arc B580 and a B570",
        source=INTEL,
        pull=FEW,
        alike=True,
    ),
    Class(
        runtime="openvino",
        match=("xe2-lpg", "xe3-lpg"),
        start=XE_COPIES,
        free=(*XE_FREE, "copied_per_s"),
        flop_energy={},
        formats={"int8": 1.0, "fp16": 2.0},
        lanes_per_unit=128,
        confidence="low",
        why="whole runs under OpenVINO on the GPUs of three Core Ultra 200V and 300 processors",
        source=INTEL,
        pull=FEW,
        alike=True,
    ),
)  # fmt: skip
