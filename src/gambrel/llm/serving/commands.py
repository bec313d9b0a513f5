"""A layout as the command line that starts it: vLLM, SGLang and TensorRT-LLM.

`gambrel.analysis.deployment` has the names of the options and reads such lines back; what an engine
cannot say is left out and named.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Collection, Iterator
from typing import Any, Final

from gambrel.analysis.deployment.options import EAGER, OPTIONS, START, written
from gambrel.llm.kv import UTILIZATION
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.question import ServingEngine, Speculation
from gambrel.llm.sharding import Sharding

_WIDE: Final = ("bf16", "fp16", "fp32")


def commands(
    model: str,
    sharding: Sharding,
    engine: ServingEngine,
    *,
    longest: int | None = None,
    most: int | None = None,
    formats: Precisions | None = None,
    experts: bool = False,
    first: str = "",
    there: Collection[str] = tuple(OPTIONS),
) -> tuple[str, ...]:
    """The command line that starts a deployment in each engine, a line each.

    Args:
        model: Name or path.
        sharding: Of the deployment.
        engine: Memory and tokens of a step.
        longest: Most tokens of a request; None leaves it to the engine.
        most: Most requests in flight of a replica; None leaves it to the engine.
        formats: Other number formats than the checkpoint's; None are its own.
        experts: Whether the model has any. Replicas of vLLM are started together, but such ones
            would share their experts.
        first: The engine whose line comes first.
        there: Engines that run on the device.
    """
    said = {
        "utilization": UTILIZATION if engine.utilization is None else engine.utilization,
        "step_tokens": engine.step_tokens,
        "longest": longest,
        "max_requests": most,
        **_adapters(engine),
        "page": engine.policy.page if engine.policy.page != type(engine.policy)().page else None,
    }
    # Replicas that one command starts.
    together = {name: sharding.data if name == "vllm" and not experts else 1 for name in OPTIONS}
    return tuple(
        _command(name, model, sharding, together[name], engine, said, formats)
        for name in sorted(OPTIONS, key=lambda name: name != first)
        if name in there
    )


def _command(
    name: str,
    model: str,
    sharding: Sharding,
    together: int,
    engine: ServingEngine,
    said: dict[str, Any],
    formats: Precisions | None,
) -> str:
    words = [START[name].format(shlex.quote(model)), *_split(name, sharding, together)]
    groups = sharding.attention_data
    words += _switches(name, engine)
    for field, value in said.items():
        option = written(name, field)
        if option is None or value is None:
            continue
        if field == "kv_offload" and name == "sglang":  # of each rank
            value = value / (sharding.tensor * sharding.pipeline)
        if field == "max_requests" and name != "sglang":  # of each group of attention
            value = -(-value // groups)
        words.append(f"{option} {value:g}" if isinstance(value, float) else f"{option} {value}")
    notes = [f"{sharding.data} of them"] if sharding.data > together else []
    notes += _in_files(name, engine, groups)
    for options, missing in (_formats(name, formats), _speculation(name, engine.speculation)):
        words += options
        notes += missing
    return " ".join(words) + (f"  # {'; '.join(notes)}" if notes else "")


def _adapters(engine: ServingEngine) -> dict[str, Any]:
    """Adapters and the host's memory (GB), as far as there are such."""
    lora, host = engine.lora, engine.host_cache_bytes
    ranks = {} if lora is None else {"lora_rank": lora.rank, "lora_adapters": lora.count}
    return ranks | ({} if host is None else {"kv_offload": host / 1e9})


def _switches(name: str, engine: ServingEngine) -> Iterator[str]:
    """What switches graphs off, adapters and the cache in the host's memory on."""
    if engine.eager and name in EAGER:
        yield EAGER[name]
    if engine.lora is not None and name != "tensorrt-llm":
        yield "--enable-lora"
    if engine.host_cache_bytes is not None:
        on = {"sglang": "--enable-hierarchical-cache", "vllm": "--kv-offloading-backend native"}
        yield from (on[name],) if name in on else ()


def _in_files(name: str, engine: ServingEngine, groups: int) -> Iterator[str]:
    """What an engine sets in its file of options."""
    if name != "tensorrt-llm":
        return
    if groups > 1:
        yield "enable_attention_dp: true in its file of options"
    if engine.lora is not None:
        yield f"adapters of rank {engine.lora.rank} are set in its file of options"
    if engine.host_cache_bytes is not None:
        size = f"{engine.host_cache_bytes:.0f}"
        yield f"kv_cache_config.host_cache_size: {size} in its file of options"


def _split(name: str, s: Sharding, together: int) -> Iterator[str]:
    """Degrees above one, and what experts and attention do."""
    groups = s.attention_data
    own = groups > 1 and name == "vllm"
    if s.attention_tensor > 1 or not own:
        yield f"{written(name, 'tensor')} {s.attention_tensor if own else s.tensor}"
    if s.pipeline > 1:
        yield f"{written(name, 'pipeline')} {s.pipeline}"
    data = 1 if name == "tensorrt-llm" else together * groups
    if data > 1:
        yield f"{written(name, 'data')} {data}"
    if groups > 1 and name == "sglang":
        yield "--enable-dp-attention"
    if s.expert > 1:
        option = written(name, "expert")
        yield f"{option} {s.expert}" if option else "--enable-expert-parallel"


def _formats(name: str, formats: Precisions | None) -> tuple[list[str], list[str]]:
    """Options for formats that are not the checkpoint's, and what has none."""
    if formats is None:
        return [], []
    weights, cache = formats.of("weights"), formats.of("kv_cache")
    options = [f"{written(name, '<cache>')} {cache}"] if cache == "fp8" else []
    if weights in _WIDE:
        return options, []
    option = written(name, "<quantization>")
    if weights == "fp8" and not formats.block and option:
        return [f"{option} fp8", *options], []
    return options, [f"with a checkpoint in {weights}"]


def _speculation(name: str, drafts: Speculation | None) -> tuple[list[str], list[str]]:
    """Options for drafted tokens, and what has none."""
    if drafts is None:
        return [], []
    own, count = drafts.draft is None, drafts.tokens
    model = drafts.draft.name if drafts.draft else ""
    if name == "vllm":
        said = {"method": "mtp"} if own else {"model": model}
        text = json.dumps({**said, "num_speculative_tokens": count})
        return [f"--speculative-config {shlex.quote(text)}"], []
    if name == "sglang":
        algorithm = "NEXTN" if own else f"STANDALONE --speculative-draft-model-path {model}"
        steps = f"--speculative-num-steps {count} --speculative-eagle-topk 1"
        last = f"--speculative-num-draft-tokens {count + 1}"
        return [f"--speculative-algorithm {algorithm} {steps} {last}"], []
    return [], [f"{count} drafted tokens are set in its file of options"]
