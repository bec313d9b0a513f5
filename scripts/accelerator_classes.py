"""Runtimes and the classes of devices on which fit_accelerators.py fits what they attain."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

#: What is fitted: networks of one chip say nothing of links; few rows tell a time per step.
NETWORK: Final = ("memory", "compute", "start_s")
LANGUAGE: Final = (*NETWORK, "attention", "attention_compute", "link", "exchange_s")
#: One chip, whose weights may be stored in fewer bits than they are multiplied in.
EDGE: Final = ("memory", "compute_stored", "start_s", "attention", "attention_compute")


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One runtime on one class of devices, and what is said of it.

    Attributes:
        runtime: Id of the runtime.
        name: For the reader.
        match: Patterns of the devices that have rows.
        carried: Patterns of the class, its other devices among them.
        tile: Rows that a product with unpacked weights takes at a time.
        expert_tile: As in `Shares`.
        grid_rows: As in `Shares`.
        pieces: As in `Shares`.
        matrix: As in `Shares`.
        formats: As in `Shares`.
        free: Names of the constants that are fitted.
        held: Device and model whose rows are scored and count for the range, but are not fitted.
        apart: As in `Shares`.
        beside: Patterns of devices whose rows, of other releases, count for the range alone.
        by_source: Whether the range also holds rows of each source by constants of the others.
        why: For the reader.
        source: Of the rows.
    """

    runtime: str
    name: str
    match: tuple[str, ...]
    carried: tuple[str, ...] = ()
    tile: int = 1
    expert_tile: int = 1
    grid_rows: int = 1
    pieces: dict[str, tuple[int, int]] = field(default_factory=dict)
    matrix: float | None = None
    formats: tuple[str, ...] = ()
    free: tuple[str, ...]
    held: tuple[str, str] = ("", "")
    apart: bool = False
    beside: tuple[str, ...] = ()
    by_source: bool = False
    why: str
    source: str


CLASSES: Final = (
    Class(
        runtime="tpu-inference",
        name="language models on TPUs",
        match=("tpu-v5e", "tpu-v6e", "tpu-v7x"),
        carried=("tpu-v",),
        free=LANGUAGE,
        held=("tpu-v7x", "qwen3-8b"),
        why="shares of bandwidth and peak that vLLM, SGLang-JAX and JetStream attain on TPUs",
        source="sgl-project/sglang-jax, AI-Hypercomputer/jetstream-pytorch and tpu-recipes, "
        "vllm-project/tpu-inference (Apache-2.0)",
    ),
    Class(
        runtime="optimum-habana",
        name="language models on Gaudi",
        match=("gaudi-2", "gaudi-3"),
        free=LANGUAGE,
        why="shares of bandwidth and peak that whole answers attain on Gaudi 2 and 3",
        source="Intel, model performance data for Gaudi, and HabanaAI/Gaudi-tutorials (Apache-2.0)",
    ),
    Class(
        runtime="nxd-inference",
        name="language models on Trainium",
        match=("neuroncore-v2",),
        carried=("neuroncore-v3", "neuroncore-v4"),
        free=LANGUAGE,
        why="shares of bandwidth and peak that Llamas attain on sixteen Trainium chips",
        source="aws-neuron/aws-neuron-sdk, about-neuron/benchmarks",
    ),
    Class(
        runtime="neuron",
        name="networks on NeuronCores",
        match=("neuroncore-v2",),
        carried=("neuroncore-v3", "neuroncore-v4"),
        free=(*NETWORK, "step_s"),
        apart=True,
        why="shares of bandwidth and peak of a core that encoders and ResNets attain on it",
        source="aws-neuron/aws-neuron-sdk, about-neuron/benchmarks",
    ),
    Class(
        runtime="tt-transformers",
        name="language models on Tenstorrent cards",
        match=("wormhole", "blackhole"),
        # tt_transformers, model_config.py: prompts' matmuls spread tiles of 32 rows over 8 rows of
        # cores.
        grid_rows=256,
        free=(*LANGUAGE, "step_s"),
        why="shares of bandwidth and peak that language models attain on Tenstorrent cards",
        source="tenstorrent/tt-metal, models/README.md and models/tt_transformers/PERF.md "
        "(Apache-2.0)",
    ),
    Class(
        runtime="tt-nn",
        name="networks on Tenstorrent cards",
        match=("wormhole", "blackhole"),
        free=NETWORK,
        why="shares of bandwidth and peak that networks attain on Tenstorrent cards",
        source="tenstorrent/tt-metal, models/README.md (Apache-2.0)",
    ),
    Class(
        runtime="mlx",
        name="language models on Apple's GPUs under MLX",
        match=("apple",),
        # mlx, quantized.cpp: matmuls of several rows take 32 at a time.
        expert_tile=32,
        # Counted in mlx-lm, models/qwen3_next.py, gpt_oss.py, switch_layers.py, gated_delta.py: a
        # choice of experts sorts, gathers, sums and divides; two products and an activation, or
        # a product, weights and a sum; two copies, convolution and silu; four kernels for the
        # norms of q and k, a copy, both rates and the rule; two rotations, two writes to the
        # cache and the attention. Biases of experts are gathered and added.
        pieces={
            "sort": (4, 0),
            "grouped_matmul": (3, 3),
            "convolution": (4, 0),
            "delta_scan": (8, 0),
            "attention": (5, 0),
            "matmul": (1, 1),
        },
        free=("compute", *EDGE),
        why="shares of bandwidth and peak that language models attain under MLX on Apple's GPUs",
        source="ml-explore/mlx-lm, mlx_lm/BENCHMARKS.md (MIT), and reports of users",
    ),
    Class(
        runtime="onnxruntime",
        name="networks under ONNX Runtime on Jetson Orin Nano",
        match=("jetson-orin-nano-8gb",),
        beside=("jetson-orin-nano-super",),
        free=NETWORK,
        formats=("fp32", "tf32"),
        why="shares of bandwidth and peak that small networks in fp32, with convolutions in TF32, "
        "attain under ONNX Runtime 1.15 on a Jetson Orin Nano, one image at a time; the range "
        "holds large ones of newer releases on the same chip",
        source="ispcojp/ai_inference_device_benchmark (figures only)",
    ),
    Class(
        runtime="onnxruntime",
        name="networks under ONNX Runtime on faster Jetson Orins",
        match=("jetson-orin-nx", "jetson-orin-nano-super", "jetson-agx-orin-64gb"),
        carried=("jetson-agx-orin",),
        free=NETWORK,
        formats=("fp32", "tf32"),
        why="shares of bandwidth and peak that networks in fp32, with convolutions in TF32, attain "
        "under ONNX Runtime on Jetson Orin, one image at a time; releases differ twofold",
        source="ultralytics/ultralytics, docs/en/guides/nvidia-jetson.md (figures only)",
    ),
    Class(
        runtime="onnxruntime",
        name="networks under ONNX Runtime on Jetson Thor",
        match=("sm_110",),
        free=NETWORK,
        formats=("fp32", "tf32"),
        why="shares of bandwidth and peak that three networks of one family in fp32 attain under "
        "ONNX Runtime on a Jetson AGX Thor, one image at a time",
        source="ultralytics/ultralytics, docs/en/guides/nvidia-jetson.md (figures only)",
    ),
    Class(
        runtime="ncnn",
        name="networks under ncnn on a Raspberry Pi 4",
        match=("raspberry-pi-4",),
        free=NETWORK,
        formats=("fp32",),
        why="shares of bandwidth and peak that networks in fp32 attain under ncnn on the four "
        "cores of a Raspberry Pi 4 at 1.5 GHz",
        source="Tencent/ncnn, benchmark/README.md (BSD-3-Clause)",
    ),
    Class(
        runtime="ncnn",
        name="networks under ncnn on a Raspberry Pi 5",
        match=("raspberry-pi-5",),
        free=NETWORK,
        by_source=True,
        why="shares of bandwidth and peak that twelve detectors attain in fp16 under ncnn on the "
        "four cores of a Raspberry Pi 5; in fp32 none was measured",
        source="ultralytics/ultralytics, docs/en/guides/raspberry-pi.md, visionanalysis.org, "
        "Arm's YOLO26 runtime and Qengineering's YoloX-ncnn-Raspberry-Pi-4 (figures only)",
    ),
    Class(
        runtime="openvino-genai",
        name="language models on Arc GPUs of Core Ultra 100",
        match=("arc-165h",),
        carried=("xe-lpg",),
        tile=64,
        free=EDGE,
        why="shares of bandwidth and peak that language models attain on GPUs of Core Ultra 100",
        source="openvinotoolkit/openvino, llm_models_7-165H.csv (Apache-2.0)",
    ),
    Class(
        runtime="openvino-genai",
        name="language models on Arc GPUs of Core Ultra 200V",
        match=("arc-140v-258v",),
        carried=("xe2-lpg",),
        free=EDGE,
        why="shares of bandwidth and peak that language models attain on GPUs of Core Ultra 200V",
        source="openvinotoolkit/openvino, llm_models_7-258V.csv (Apache-2.0)",
    ),
    Class(
        runtime="tensorrt-edge-llm",
        name="language models on Jetson Thor",
        match=("sm_110",),
        tile=64,
        free=("compute", *EDGE),
        why="shares of bandwidth and peak that language models attain on a Jetson AGX Thor",
        source="NVIDIA, TensorRT Edge-LLM, performance benchmarks",
    ),
    Class(
        runtime="tensorrt-edge-llm",
        name="language models on Jetson Orin",
        match=("sm_87",),
        tile=64,
        free=EDGE,
        why="shares of bandwidth and peak that language models attain on Jetson Orin",
        source="NVIDIA, TensorRT Edge-LLM, performance benchmarks",
    ),
)
