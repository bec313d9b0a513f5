"""The words of an engine's command line as fields of a question."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from gambrel.analysis.deployment.options import (
    ATTENTION_REPLICAS,
    EAGER,
    FORMATS,
    OPTIONS,
    SCHEMES,
    SHARED_EXPERTS,
    SWITCHES,
)
from gambrel.errors import InputError, shown

#: Fields that are whole numbers; others are shares or texts.
_DEGREES: Final = ("tensor", "pipeline", "data", "expert")
_LORA: Final = ("lora_rank", "lora_adapters")
_WHOLE: Final = (*_DEGREES, *_LORA, "step_tokens", "max_requests", "longest", "page", "speculate")
#: Methods of vLLM's speculation in which the model's own layers draft.
_OWN_LAYERS: Final = ("mtp", "nextn", "deepseek_mtp", "qwen3_next_mtp", "ernie_mtp", "glm4_moe_mtp")


class Deployment(msgspec.Struct, frozen=True, kw_only=True):
    """What a command line says of a deployment.

    Attributes:
        runtime: Id of the engine.
        given: Field of a question → value; what is not said is absent.
        unread: Options that say nothing here, or that are not known, as they stand there.
    """

    runtime: str
    given: dict[str, Any]
    unread: tuple[str, ...] = ()

    def beside(self, others: Mapping[str, Any]) -> dict[str, Any]:
        """Its fields and the devices of all replicas, where others come first."""
        both = {**self.given, **others}
        degrees = ("tensor", "pipeline", "context_parallel", "replicas")
        devices = math.prod(int(both.get(name, 1)) for name in degrees)
        return {**self.given, "max_devices": devices}


def engine_of(words: Sequence[str]) -> tuple[str, int] | None:
    """The engine that words start, and how many of them say so; None where they start none."""
    for i, word in enumerate(words):
        name, after = word.rpartition("/")[2], words[i + 1] if i + 1 < len(words) else ""
        if name == "vllm" and after == "serve":
            return "vllm", i + 2
        if word.startswith("vllm.entrypoints."):
            return "vllm", i + 1
        if word == "sglang.launch_server":
            return "sglang", i + 1
        if name == "sglang" and after == "serve":
            return "sglang", i + 2
        if name == "trtllm-serve":
            return "tensorrt-llm", i + (2 if after == "serve" else 1)
    return None


def fields_of_words(words: Sequence[str], replicas: int, label: str) -> Deployment:
    """What the words of a command line say.

    Args:
        words: Of which some start an engine.
        replicas: How often the command runs.
        label: What the user calls it in messages.

    Raises:
        InputError: A value that cannot be.
    """
    place = engine_of(words)
    assert place is not None  # the caller has looked
    engine, start = place
    reading = _Reading(engine, label)
    reading.read(words[start:])
    given = reading.values
    given |= _layout(engine, given, reading.flags, replicas)
    given |= _precision(given, reading)
    given |= _speculation(given, reading)
    _offload(engine, given)
    kept = {name: value for name, value in given.items() if not name.startswith("<")}
    return Deployment(
        runtime=engine, given=kept | {"runtime": engine}, unread=tuple(reading.unread)
    )


class _Reading:
    """Values by field, flags, and what was not understood."""

    def __init__(self, engine: str, label: str) -> None:
        self.label = label
        self.values: dict[str, Any] = {}
        self.flags: set[str] = set()
        self.unread: list[str] = []
        self._eager = EAGER.get(engine)
        self._fields = {n: field for field, names in OPTIONS[engine].items() for n in names}

    def read(self, words: Sequence[str]) -> None:
        """Reads the words behind those that start the engine."""
        parts = [part for word in words for part in _parts(word)]
        if parts and not parts[0].startswith("-"):
            self.values["model"] = parts.pop(0)
        rest = iter(parts)
        for word in rest:
            if word in self._fields or word.replace("_", "-") in self._fields:
                field = self._fields.get(word) or self._fields[word.replace("_", "-")]
                self.values[field] = self._value(field, word, next(rest, ""))
            elif word == self._eager:
                self.values["eager"] = True
            elif word in (*SHARED_EXPERTS, *ATTENTION_REPLICAS, *SWITCHES):
                self.flags.add(word)
            elif word.startswith("-") or not self.unread:
                self.unread.append(word)
            else:  # the value of an option that is not known
                self.unread[-1] += f" {word}"

    def _value(self, field: str, option: str, text: str) -> Any:
        if not text or text.startswith("--"):
            raise InputError(f"{self.label}: {option} has no value.")
        numbers: dict[str, Callable[[str], Any]] = dict.fromkeys(_WHOLE, _whole)
        read = (numbers | {"utilization": float, "kv_offload": _gigabytes}).get(field, str)
        try:
            return read(text)
        except ValueError:
            raise InputError(f"{self.label}: {option} {shown(text)} is not a number.") from None


def _whole(text: str) -> int:
    """A whole number; vLLM also writes 32k (32,000) and 32K (32,768)."""
    scale = {"k": 1000, "K": 1024}.get(text[-1:], 1)
    return int(float(text[:-1]) * scale) if scale > 1 else int(text)


def _gigabytes(text: str) -> float:
    return float(text) * 1e9


def _parts(word: str) -> list[str]:
    return word.split("=", 1) if word.startswith("-") and "=" in word else [word]


def _layout(engine: str, given: dict[str, Any], flags: set[str], replicas: int) -> dict[str, int]:
    """Degrees as a `Sharding` counts them: replicas that share experts are groups of attention."""
    tensor, stages, data = (given.pop(name, 1) for name in ("tensor", "pipeline", "data"))
    expert, groups = given.pop("expert", 1), 1
    shared = engine == "vllm" and flags.intersection(SHARED_EXPERTS)
    if shared:
        tensor, expert, groups, data = tensor * data, tensor * data, data, 1
        if "max_requests" in given:  # of each group of attention
            given["max_requests"] *= groups
    elif flags.intersection(ATTENTION_REPLICAS):
        groups, data = data, 1
    copies = data * replicas
    made = {"tensor": tensor, "pipeline": stages, "expert": expert, "attention_data": groups}
    return made | {"replicas": copies}


def _precision(given: dict[str, Any], reading: _Reading) -> dict[str, str]:
    """The formats: of what is stored, of the cache, of all else."""
    scheme, cache = given.get("<quantization>", "auto"), given.get("<cache>", "auto")
    base = FORMATS.get(given.get("<dtype>", "auto"))
    if scheme not in SCHEMES:
        reading.unread.append(f"--quantization {scheme}")
    stored = SCHEMES.get(scheme) or base
    if cache != "auto" and cache not in FORMATS:
        raise InputError(f"{reading.label}: a cache in {shown(cache)} is not known; give fp8.")
    held = FORMATS.get(cache) or (base or "bf16" if stored == "fp8" else None)
    parts = [*([stored] if stored else []), *([f"kv={held}"] if held else [])]
    return {"precision": ",".join(parts)} if parts else {}


def _speculation(given: dict[str, Any], reading: _Reading) -> dict[str, Any]:
    """Drafted tokens and the model that drafts, of vLLM's JSON."""
    text = given.get("<speculative>")
    if text is None:
        return {}
    try:
        said = json.loads(text)
        tokens, method = said["num_speculative_tokens"], str(said.get("method", ""))
    except (ValueError, TypeError, KeyError):
        raise InputError(
            f"{reading.label}: speculation {shown(text)} is not as "
            '\'{"method": "mtp", "num_speculative_tokens": 3}\'.'
        ) from None
    draft = said.get("model")
    return {"speculate": tokens} | ({} if method in _OWN_LAYERS or not draft else {"draft": draft})


def _offload(engine: str, given: dict[str, Any]) -> None:
    """SGLang gives the host memory of each rank, vLLM that of all of them."""
    if engine == "sglang" and "kv_offload" in given:
        given["kv_offload"] *= given["tensor"] * given["pipeline"]


def separated(words: Sequence[str]) -> Iterator[list[str]]:
    """The commands of a line, without redirections."""
    one: list[str] = []
    for word in words:
        if word in ("&&", "||", ";", "|", "&"):
            yield one
            one = []
        elif word.startswith((">", "2>", "<")):
            continue
        else:
            one.append(word.removesuffix(";"))
            if word.endswith(";"):
                yield one
                one = []
    yield one
