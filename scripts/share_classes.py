"""Classes of devices whose shares `fit_shares` fits, and runs on devices outside of the catalog."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Class:
    """One class of devices: where its rows are, and what is said of them.

    Attributes:
        match: Patterns of the devices that it serves.
        name: For the reader.
        confidence: ``medium`` or ``low``.
        backends: Whose rows count; empty for all.
        since: First month of the versions whose rows count, ``YYYY-MM``.
        since_whole: That of 16-bit weights; as ``since`` when empty.
        by: What is left out in turn.
        attention: Whether attention has a share of the bandwidth of its own: where the same models
            were timed with short and with long contexts.
        by_head: Whether each query head of a new token reads the cache by itself.
        few: Whether weights of fewer than four bits take lane cycles of their own.
        pull: Whether constants are pulled to usual values, where few runs tell them apart.
        text: Backends whose text generation is expected, the faster ones; the others count for the
            range alone. Empty: all of `backends`.
        prompts: Likewise of prompts.
        whole: Whether prompts of 16-bit weights are expected at the share of stored ones, where
            none were timed.
        like: Patterns of devices whose text generation is fitted with its own.
        why: For the reader.
    """

    match: tuple[str, ...]
    name: str
    confidence: str
    backends: tuple[str, ...] = ()
    since: str = ""
    since_whole: str = ""
    attention: bool = False
    by_head: bool = False
    few: bool = False
    pull: bool = False
    text: tuple[str, ...] = ()
    prompts: tuple[str, ...] = ()
    whole: bool = True
    like: tuple[str, ...] = ()
    by: tuple[str, ...] = ("model", "device")
    why: str


CLASSES = (
    Class(
        match=("apple",),
        name="Apple GPUs",
        attention=True,
        by_head=True,
        confidence="medium",
        why="shares of bandwidth and peak that llama.cpp and Ollama attain on Apple GPUs",
    ),
    Class(
        match=("cpu",),
        name="processors",
        confidence="low",
        why="shares of bandwidth and peak that llama.cpp and Ollama attain on processors",
    ),
    Class(
        match=("tu102", "tu104", "tu106", "sm_86", "sm_89", "sm_120"),
        name="NVIDIA tensor cores beside GDDR",
        pull=True,
        confidence="medium",
        backends=("CUDA",),
        since="2024-06",
        since_whole="2024-05",
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on GeForce, RTX and "
        "L40S cards",
    ),
    Class(
        match=("sm_80",),
        name="NVIDIA A100",
        attention=True,
        confidence="medium",
        backends=("CUDA",),
        since="2024-05",
        like=("sm_90", "sm_10"),
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on A100, H100, H200 "
        "and B300; prompts on A100 alone, in versions of May 2024",
    ),
    Class(
        match=("sm_90", "sm_10"),
        name="NVIDIA H100 and later beside HBM",
        attention=True,
        confidence="low",
        backends=("CUDA",),
        since="2024-05",
        like=("sm_80",),
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on A100, H100, H200 "
        "and B300; prompts on H100 PCIe alone, in versions of May 2024",
    ),
    Class(
        match=("sm_121",),
        name="NVIDIA GB10",
        confidence="medium",
        backends=("CUDA",),
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains under CUDA on DGX Spark",
    ),
    Class(
        match=("sm_87",),
        name="Jetson Orin",
        pull=True,
        confidence="low",
        backends=("CUDA", "Ollama"),
        since="2024-01",
        why="shares of bandwidth and peak that llama.cpp attains on Jetson Orin, whose power modes "
        "differ; two prompts",
    ),
    Class(
        match=("sm_61",),
        by=("precision", "device"),
        few=True,
        name="NVIDIA Pascal",
        pull=True,
        confidence="low",
        backends=("CUDA",),
        since="2024-01",
        why="shares of bandwidth and peak that llama.cpp attains on P40, mostly early in 2024, and "
        "GTX 1080 Ti",
    ),
    Class(
        match=("sm_70",),
        few=True,
        name="NVIDIA Volta",
        pull=True,
        confidence="low",
        backends=("CUDA",),
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains on V100",
    ),
    Class(
        match=("gfx103",),
        name="AMD RDNA2",
        pull=True,
        confidence="low",
        since="2024-01",
        why="shares of bandwidth and peak that llama.cpp attains on RX 6700 XT, 6800 and 6800 XT",
    ),
    Class(
        match=("gfx110",),
        name="AMD RDNA3",
        confidence="low",
        backends=("ROCm", "Vulkan"),
        pull=True,
        since="2026-01",
        text=("Vulkan",),
        prompts=("ROCm",),
        why="shares of bandwidth and peak that llama.cpp attains on RX 7900 XT and XTX in 2026: "
        "text under Vulkan, prompts under ROCm; the other backend is in the range",
    ),
    Class(
        match=("gfx115",),
        name="AMD RDNA3.5",
        confidence="medium",
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains on Ryzen AI Max+ 395",
    ),
    Class(
        match=("gfx120",),
        name="AMD RDNA4",
        confidence="low",
        backends=("ROCm", "Vulkan"),
        since="2026-01",
        text=("Vulkan",),
        prompts=("Vulkan",),
        why="shares of bandwidth and peak that llama.cpp attains under Vulkan on RX 9070 XT, "
        "in versions of 2026; ROCm is in the range",
    ),
    Class(
        match=("gfx906",),
        name="AMD GCN5",
        pull=True,
        attention=True,
        confidence="low",
        backends=("ROCm",),
        since="2025-06",
        why="shares of bandwidth and peak that llama.cpp attains under ROCm on MI50",
    ),
    Class(
        match=("gfx908",),
        few=True,
        by=("model", "precision"),
        name="AMD CDNA1",
        pull=True,
        confidence="low",
        backends=("ROCm",),
        since="2025-06",
        why="shares of bandwidth and peak that llama.cpp attains under ROCm on MI100",
    ),
    Class(
        match=("gfx942", "gfx950"),
        name="AMD CDNA3 and CDNA4",
        whole=False,
        pull=True,
        confidence="low",
        backends=("ROCm",),
        since="2025-06",
        why="shares of bandwidth and peak that llama.cpp attains under ROCm on MI300X and MI355X, "
        "one model each",
    ),
    Class(
        match=("alchemist",),
        name="Intel Alchemist",
        pull=True,
        confidence="low",
        backends=("SYCL", "Vulkan"),
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains on Arc A770 and Flex 170",
    ),
    Class(
        match=("battlemage",),
        name="Intel Battlemage",
        pull=True,
        confidence="medium",
        since="2025-01",
        why="shares of bandwidth and peak that llama.cpp attains under SYCL on Arc B580",
    ),
)

#: Processors that are not in the catalog: byte/s by the arithmetic of their memory channels, FLOP/s
#: in fp32 as cores x FLOP per cycle x clock under load (None where prompts were not timed).
#: (name, byte/s, FLOP/s, model, format, context or seq, its value, tokens/s, source)
MACHINES = (
    ("i9-13900K, 2 x DDR5-6400", 102.4e9, None, "llama-2-7b", "q4_0", "context", 64, 18.27,
     "ggml-org/llama.cpp issue 34"),
    ("Threadripper 3970X, 4 x DDR4-3200", 102.4e9, 3.79e12, "llama-3.1-8b", "q4_k_m", "context", 64,
     16.78, "brand-o/normiebench issue 52"),
    ("Threadripper 3970X, 4 x DDR4-3200", 102.4e9, 3.79e12, "llama-3.1-8b", "q4_k_m", "seq", 512,
     155.5, "brand-o/normiebench issue 52"),
    ("i5-9500, 2 x DDR4-2666", 42.7e9, 0.787e12, "llama-3.1-8b", "q4_k_m", "context", 64, 6.51,
     "brand-o/normiebench issue 34"),
    ("i5-9500, 2 x DDR4-2666", 42.7e9, 0.787e12, "llama-3.1-8b", "q4_k_m", "seq", 512, 35.43,
     "brand-o/normiebench issue 34"),
    ("AmpereOne A192-32X, 8 x DDR5-5200", 332.8e9, None, "llama-3.1-70b", "q4_k_m", "context", 128,
     3.86, "geerlingguy/ai-benchmarks README"),
    ("AmpereOne A192-32X, 8 x DDR5-5200", 332.8e9, None, "llama-3.2-3b", "q4_k_m", "context", 128,
     23.52, "geerlingguy/ai-benchmarks README"),
    ("AmpereOne A192-32X, 8 x DDR5-5200", 332.8e9, None, "llama-3.1-405b", "q4_k_m", "context", 128,
     0.90, "geerlingguy/ai-benchmarks README"),
    ("Intel N150, 1 x DDR4-3200", 25.6e9, None, "llama-3.2-3b", "q4_k_m", "context", 128, 9.06,
     "geerlingguy/ai-benchmarks README"),
    ("Intel N150, 1 x DDR4-3200", 25.6e9, None, "qwen2.5-14b", "q4_k_m", "context", 128, 2.13,
     "geerlingguy/ai-benchmarks README"),
    ("Ryzen AI 5 340, 2 x DDR5-5600", 89.6e9, None, "llama-3.2-3b", "q4_k_m", "context", 128, 23.81,
     "geerlingguy/ai-benchmarks README and issue 33"),
    ("Ryzen AI 5 340, 2 x DDR5-5600", 89.6e9, None, "qwen2.5-14b", "q4_k_m", "context", 128, 5.83,
     "geerlingguy/ai-benchmarks README and issue 33"),
    ("Ryzen 7 8840U, 4 x LPDDR5-6400", 102.4e9, 0.845e12, "llama-3.1-8b", "q4_k_m", "context", 64,
     9.63, "brand-o/normiebench issue 8"),
    ("Ryzen 7 8840U, 4 x LPDDR5-6400", 102.4e9, 0.845e12, "llama-3.1-8b", "q4_k_m", "seq", 512,
     49.75, "brand-o/normiebench issue 8"),
)  # fmt: skip
