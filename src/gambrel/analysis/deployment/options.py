"""Options of serving engines: what vLLM, SGLang and TensorRT-LLM call the fields of a question.

Names are those of vLLM 0.11, SGLang 0.5 and TensorRT-LLM 1.0 (their command-line references,
2025-11). The first name is the one that is written; all are read.
"""

from __future__ import annotations

from typing import Final

#: Engine → field of a question → names of its option. Fields in angle brackets are no fields of a
#: question but parts of one: of the precision, of speculation.
OPTIONS: Final[dict[str, dict[str, tuple[str, ...]]]] = {
    "vllm": {
        "model": ("--model",),
        "tensor": ("--tensor-parallel-size", "-tp"),
        "pipeline": ("--pipeline-parallel-size", "-pp"),
        "data": ("--data-parallel-size", "-dp"),
        "utilization": ("--gpu-memory-utilization",),
        "step_tokens": ("--max-num-batched-tokens",),
        "max_requests": ("--max-num-seqs",),
        "longest": ("--max-model-len",),
        "page": ("--block-size",),
        "lora_rank": ("--max-lora-rank",),
        "lora_adapters": ("--max-loras",),
        "kv_offload": ("--kv-offloading-size",),
        "<dtype>": ("--dtype",),
        "<quantization>": ("--quantization", "-q"),
        "<cache>": ("--kv-cache-dtype",),
        "<speculative>": ("--speculative-config", "--speculative_config"),
    },
    "sglang": {
        "model": ("--model-path", "--model"),
        "tensor": ("--tp-size", "--tp", "--tensor-parallel-size"),
        "pipeline": ("--pp-size", "--pp", "--pipeline-parallel-size"),
        "data": ("--dp-size", "--dp", "--data-parallel-size"),
        "expert": ("--ep-size", "--ep", "--expert-parallel-size"),
        "utilization": ("--mem-fraction-static",),
        "step_tokens": ("--chunked-prefill-size",),
        "max_requests": ("--max-running-requests",),
        "longest": ("--context-length",),
        "page": ("--page-size",),
        "lora_rank": ("--max-lora-rank",),
        "lora_adapters": ("--max-loras-per-batch",),
        "kv_offload": ("--hicache-size",),
        "draft": ("--speculative-draft-model-path", "--speculative-draft-model"),
        "speculate": ("--speculative-num-steps",),
        "<dtype>": ("--dtype",),
        "<quantization>": ("--quantization",),
        "<cache>": ("--kv-cache-dtype",),
    },
    "tensorrt-llm": {
        "model": ("--model",),
        "tensor": ("--tp_size", "--tensor_parallel_size"),
        "pipeline": ("--pp_size", "--pipeline_parallel_size"),
        "expert": ("--ep_size", "--moe_expert_parallel_size"),
        "utilization": ("--kv_cache_free_gpu_memory_fraction", "--free_gpu_memory_fraction"),
        "step_tokens": ("--max_num_tokens",),
        "max_requests": ("--max_batch_size",),
        "longest": ("--max_seq_len",),
        "<cache>": ("--kv_cache_dtype",),
    },
}
#: Engine → how a command line of it begins.
START: Final = {
    "vllm": "vllm serve {}",
    "sglang": "python -m sglang.launch_server --model-path {}",
    "tensorrt-llm": "trtllm-serve {}",
}
#: Options without a value that change a figure: every replica of vLLM shares the experts; replicas
#: of attention within the tensor group.
SHARED_EXPERTS: Final = ("--enable-expert-parallel", "-ep")
ATTENTION_REPLICAS: Final = ("--enable-dp-attention",)
#: The flag of an engine without graphs.
EAGER: Final = {"vllm": "--enforce-eager", "sglang": "--disable-cuda-graph"}
#: Flags that switch on what a value beside them says.
SWITCHES: Final = ("--enable-lora", "--enable-hierarchical-cache")


def written(engine: str, field: str) -> str | None:
    """The option of an engine for a field; None where it has none."""
    return OPTIONS[engine].get(field, (None,))[0]


#: Quantization as engines call it → scheme of `gambrel.llm.precision`. None: the checkpoint says.
SCHEMES: Final[dict[str, str | None]] = {
    "fp8": "fp8",
    "w8a8_fp8": "fp8",
    "ptpc_fp8": "fp8",
    "fbgemm_fp8": "fp8",
    "w8a8_int8": "int8",
    "awq": "int4",
    "awq_marlin": "int4",
    "gptq": "int4",
    "gptq_marlin": "int4",
    "mxfp4": "mxfp4",
    "mxfp8": "mxfp8",
    "modelopt_fp4": "nvfp4",
    "compressed-tensors": None,
    "modelopt": None,
    "auto": None,
    "none": None,
}
#: Formats as engines call them → ours; "auto" is what the checkpoint says.
FORMATS: Final[dict[str, str]] = {
    "bfloat16": "bf16",
    "bf16": "bf16",
    "half": "fp16",
    "float16": "fp16",
    "float32": "fp32",
    "float": "fp32",
    "fp8": "fp8",
    "fp8_e4m3": "fp8",
    "fp8_e5m2": "fp8",
}
