"""Compares the closed forms of language models with captures; writes a table of both.

Small configurations of every family, and published ones at full size. Needs torch and
transformers. Run: python scripts/llm_closed_forms.py
"""

from __future__ import annotations

import logging
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

from tests.llm import models  # noqa: E402
from tests.llm.captures import DECODERS, DIFFERENT, PREFILL_ONLY, Both, compare, small  # noqa: E402

from gambrel.errors import GambrelError  # noqa: E402

TARGET = ROOT / "benchmarks" / "results" / "llm_closed_forms.md"
FULL_SIZE = (
    "Llama-2-7B",
    "Llama-3-8B",
    "Llama-3-70B",
    "Mistral-7B",
    "Mixtral-8x7B",
    "Qwen2.5-7B",
    "Qwen3-8B",
    "Qwen3-30B-A3B",
    "Gemma-7B",
    "Phi-4",
    "Phi-2",
    "GPT-2",
    "GPT-NeoX-20B",
    "OLMo-2-7B",
    "OLMoE-1B-7B",
    "Granite-3.0-8B",
    "StarCoder2-3B",
    "Command-R",
    "GLM-4-9B-0414",
    "MiniMax-M2",
    "DeepSeek-V2-Lite",
    "Mamba-130M",
    "Mamba2-2.7B",
    "BERT-base",
    "ViT-B/16",
    "Whisper-small",
)


def main() -> None:
    """Writes the table."""
    warnings.filterwarnings("ignore")
    logging.disable(logging.WARNING)
    lines = [
        "# Closed forms against captures",
        "",
        "FLOP of matrix products, attention and convolutions, and their bytes: from `config.json`",
        "alone, and from a capture of transformers' own architecture on meta tensors. `=` means",
        "equal to the last digit. Other ops (norms, activations, rotation) are one kernel here and",
        "several framework ops there. Recurrences: see the notes.",
        "",
        "| model | phase | parameters | FLOP, closed form | FLOP | bytes | what differs |",
        "|---|---|---|---|---|---|---|",
    ]
    for name, config, phase, sizes, why in _cases():
        lines.append(_row(name, config, phase, sizes, why))
        print(lines[-1], flush=True)
    TARGET.write_text("\n".join([*lines, "", *_notes()]) + "\n", encoding="utf-8")


def _cases() -> Iterator[tuple[str, dict[str, Any], str | None, dict[str, int], str]]:
    prefill, decode = {"batch": 3, "seq": 80}, {"batch": 3, "context": 80}
    for kind, changes in DECODERS.items():
        yield f"{kind}, small", small(kind, changes), "prefill", prefill, ""
        yield f"{kind}, small", small(kind, changes), "decode", decode, ""
    for kind, changes in PREFILL_ONLY.items():
        yield (
            f"{kind}, small",
            small(kind, changes),
            "prefill",
            prefill,
            "padding of the convolution",
        )
    for kind, (changes, why) in DIFFERENT.items():
        yield f"{kind}, small", small(kind, changes), "prefill", prefill, why
    for name in FULL_SIZE:
        config = {**models.PUBLISHED[name][0]}
        config.setdefault("pad_token_id", 0)
        config.setdefault("torch_dtype", "float32")  # as transformers takes a file without one
        if config["model_type"] in ("bert",):
            yield name, config, None, {"batch": 2, "seq": 512}, ""
        elif config["model_type"] == "vit":
            yield name, config, None, {"batch": 2}, ""
        elif config["model_type"] == "whisper":
            yield name, config, None, {"batch": 2, "target": 128}, ""
        else:
            yield name, config, "prefill", {"batch": 2, "seq": 1024}, ""
            if not config["model_type"].startswith("mamba"):
                yield name, config, "decode", {"batch": 2, "context": 1024}, ""


def _row(
    name: str, config: dict[str, Any], phase: str | None, sizes: dict[str, int], why: str
) -> str:
    begin = time.perf_counter()
    try:
        both = compare(config, phase, sizes)
    except GambrelError as error:
        return f"| {name} | {phase or 'forward'} | | | | | not captured: {str(error)[:90]} |"
    found = both.differences()
    print(f"{time.perf_counter() - begin:.1f} s", file=sys.stderr)
    count = "=" if both.own_parameters == both.captured_parameters else "differs"
    flops = sum(f for f, _ in both.own.values())
    return (
        f"| {name} | {phase or 'forward'} | {both.own_parameters:,} {count} | {flops:,} | "
        f"{_verdict(both, 0)} | {_verdict(both, 1)} | "
        f"{', '.join(found)}{f': {why}' if found and why else ''} |"
    )


def _verdict(both: Both, column: int) -> str:
    own = sum(pair[column] for pair in both.own.values())
    theirs = sum(pair[column] for pair in both.captured.values())
    return "=" if own == theirs else f"{own / theirs:.4f} of the capture"


def _notes() -> list[str]:
    return [
        "Where the closed form differs on purpose: windows and chunks bound what attention reads",
        "(transformers masks, and reads all); attention is one kernel (some models fall back",
        "to two products and a matrix of scores); DeepSeek's decode absorbs the expansion of the",
        "latents; routers run in the weights' format (transformers casts them to fp32); a token",
        "passes only its experts (Llama 4 in transformers passes all); convolutions of state-space",
        "models are not padded on both sides; a gated delta rule is its recurrence.",
    ]


if __name__ == "__main__":
    main()
