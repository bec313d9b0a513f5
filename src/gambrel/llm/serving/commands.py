"""A layout as the command line that starts it: vLLM, SGLang and TensorRT-LLM; and read back.

Option names are those of vLLM 0.11, SGLang 0.5 and TensorRT-LLM 1.0; what an engine cannot say is
left out and named.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import Final

import msgspec

from gambrel.errors import InputError, shown
from gambrel.llm.serving.question import ServingEngine
from gambrel.llm.sharding import Sharding

#: Field of a deployment → option of each engine.
_NAMES: Final[dict[str, dict[str, str]]] = {
    "vllm": {
        "tensor": "--tensor-parallel-size",
        "pipeline": "--pipeline-parallel-size",
        "data": "--data-parallel-size",
        "utilization": "--gpu-memory-utilization",
        "step_tokens": "--max-num-batched-tokens",
        "max_requests": "--max-num-seqs",
        "longest": "--max-model-len",
    },
    "sglang": {
        "tensor": "--tp-size",
        "pipeline": "--pp-size",
        "data": "--dp-size",
        "expert": "--ep-size",
        "utilization": "--mem-fraction-static",
        "step_tokens": "--chunked-prefill-size",
        "max_requests": "--max-running-requests",
        "longest": "--context-length",
    },
    "tensorrt-llm": {
        "tensor": "--tp_size",
        "pipeline": "--pp_size",
        "expert": "--ep_size",
        "utilization": "--kv_cache_free_gpu_memory_fraction",
        "step_tokens": "--max_num_tokens",
        "max_requests": "--max_batch_size",
        "longest": "--max_seq_len",
    },
}
#: Other spellings that are read.
_ALIASES: Final = {
    "-tp": "tensor", "-pp": "pipeline", "-dp": "data", "--tp": "tensor", "--dp": "data",
    "--tensor-parallel-size": "tensor", "--pipeline-parallel-size": "pipeline",
    "--data-parallel-size": "data", "--ep": "expert", "--expert-parallel-size": "expert",
    "--pp": "pipeline",
}  # fmt: skip
_START: Final = {
    "vllm": "vllm serve {}",
    "sglang": "python -m sglang.launch_server --model-path {}",
    "tensorrt-llm": "trtllm-serve {}",
}


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line or a file says of a deployment; None is not said.

    Attributes:
        runtime: Id of the engine.
        model: As it stands there.
        tensor: Devices of a layer.
        pipeline: Stages.
        data: Replicas.
        expert: Groups of experts.
        attention_data: Groups of attention.
        utilization: Share of the memory.
        step_tokens: Most tokens of a step.
        max_requests: Most requests in flight.
        longest: Most tokens of a request.
        ignored: Options that say nothing of speed here, or that are not known.
    """

    runtime: str
    model: str = ""
    tensor: int | None = None
    pipeline: int | None = None
    data: int | None = None
    expert: int | None = None
    attention_data: int | None = None
    utilization: float | None = None
    step_tokens: int | None = None
    max_requests: int | None = None
    longest: int | None = None
    ignored: tuple[str, ...] = ()


def commands(
    model: str, sharding: Sharding, engine: ServingEngine, *, longest: int | None = None
) -> tuple[str, ...]:
    """The command line that starts one replica in each engine, a line each.

    Args:
        model: Name or path.
        sharding: Of the deployment; replicas of vLLM are started together.
        engine: Memory and tokens of a step.
        longest: Most tokens of a request; None leaves it to the engine.
    """
    return tuple(_command(name, model, sharding, engine, longest) for name in _NAMES)


def _command(
    name: str, model: str, sharding: Sharding, engine: ServingEngine, longest: int | None
) -> str:
    words = [_START[name].format(shlex.quote(model))]
    words += _split(name, sharding)
    said = {"utilization": engine.utilization, "step_tokens": engine.step_tokens}
    for field, value in (said | ({"longest": longest} if longest else {})).items():
        words.append(f"{_NAMES[name][field]} {value:g}" if field == "utilization" else
                     f"{_NAMES[name][field]} {value}")  # fmt: skip
    replicas = sharding.data
    note = f"  # {replicas} of them" if replicas > 1 and name != "vllm" else ""
    return " ".join(words) + note


def _split(name: str, s: Sharding) -> Iterator[str]:
    """Degrees above one, and what experts and attention do."""
    names, groups = _NAMES[name], s.attention_data
    own = groups > 1 and name == "vllm"
    if s.attention_tensor > 1 or not own:
        yield f"{names['tensor']} {s.attention_tensor if own else s.tensor}"
    if s.pipeline > 1:
        yield f"{names['pipeline']} {s.pipeline}"
    data = {"vllm": s.data * groups, "sglang": groups, "tensorrt-llm": 1}[name]
    if data > 1:
        yield f"{names['data']} {data}"
    if groups > 1 and name == "sglang":
        yield "--enable-dp-attention"
    if s.expert > 1:
        yield "--enable-expert-parallel" if name == "vllm" else f"{names['expert']} {s.expert}"


def parse_command(text: str) -> Deployment:
    """A command line of vLLM, SGLang or TensorRT-LLM.

    Raises:
        InputError: None of these, or a value that is not a number.
    """
    try:
        words = shlex.split(text.replace("\\\n", " "), comments=True)
    except ValueError as error:
        raise InputError(f"not a command line: {error}: {shown(text[:80])}.") from None
    joined = " ".join(words)
    name = next((n for n, mark in _MARKS.items() if mark in joined), None)
    if name is None:
        raise InputError(
            f"not a command line of vllm serve, sglang.launch_server or trtllm-serve: "
            f"{shown(text[:80])}."
        )
    return _read(name, words)


_MARKS: Final = {"vllm": "vllm", "sglang": "sglang", "tensorrt-llm": "trtllm-serve"}
_FLAGS: Final = ("--enable-expert-parallel", "--enable-dp-attention")


def _read(name: str, words: list[str]) -> Deployment:
    fields = {option: field for field, option in _NAMES[name].items()} | _ALIASES
    given: dict[str, str] = {}
    flags, ignored, plain = set(), [], []
    rest = iter([part for word in words for part in _parts(word)])
    for word in rest:
        if word == "-m":
            next(rest, "")  # python -m sglang.launch_server
        elif word in _FLAGS:
            flags.add(word)
        elif word in ("--model", "--model-path"):
            given["model"] = next(rest, "")
        elif word in fields:
            given[fields[word]] = next(rest, "")
        elif word.startswith("-"):
            ignored.append(word)
        else:
            plain.append(word)
    found = {k: v if k == "model" else _number(k, v) for k, v in given.items()}
    found.setdefault("model", _model_of(plain))
    return Deployment(
        runtime=name, ignored=tuple(ignored), **_meant(name, found, flags)  # type: ignore[arg-type]
    )  # fmt: skip


def _parts(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("-") and "=" in word else [word]


def _model_of(plain: list[str]) -> str:
    """The first word after the command."""
    for i, word in enumerate(plain):
        if word in ("serve", "trtllm-serve") and i + 1 < len(plain):
            return plain[i + 1] if plain[i + 1] != "serve" else "".join(plain[i + 2 : i + 3])
    return ""


def _number(field: str, text: str) -> float | int:
    try:
        return float(text) if field == "utilization" else int(text)
    except ValueError:
        raise InputError(f"{field}: {shown(text)} is not a number.") from None


def _meant(name: str, found: dict[str, object], flags: set[str]) -> dict[str, object]:
    """Degrees as `Sharding` counts them: replicas that share experts are groups of attention."""
    data, tensor = found.get("data", 1), found.get("tensor", 1)
    assert isinstance(data, int)
    assert isinstance(tensor, int)
    shared = name == "vllm" and "--enable-expert-parallel" in flags
    if shared:
        found["expert"] = data * tensor
        if data > 1:
            found |= {"tensor": data * tensor, "attention_data": data}
            found.pop("data")
    elif "--enable-dp-attention" in flags and data > 1:
        found["attention_data"] = data
        found.pop("data")
    return found
