"""The cache beside weights on a device: function and command."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import gambrel
from gambrel.errors import InputError
from gambrel.report.registry import render
from tests.capture.weights.models import llama_metadata, llama_tensors, write_model

LLAMA: dict[str, Any] = {
    "model_type": "llama",
    "hidden_size": 4096,
    "intermediate_size": 14336,
    "num_hidden_layers": 32,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "vocab_size": 128256,
    "max_position_embeddings": 131072,
    "torch_dtype": "bfloat16",
    "tie_word_embeddings": False,
}


def test_what_fits_beside_the_weights() -> None:
    found = gambrel.kv_cache(LLAMA, context="8k", batch_size=64, hardware="h100-sxm5-80gb")
    # 8,030,261,248 parameters in 2 bytes; 131,072 bytes a token: 1 GiB a sequence.
    assert found.weights_bytes == 16_060_522_496
    assert found.cache.allocated_bytes == 64 * 2**30
    assert found.usable_bytes == 80 * 2**30 * 0.9
    assert found.fits is False
    assert found.room is not None
    free = 80 * 2**30 * 0.9 - 16_060_522_496 - found.activations_bytes
    assert found.room.free_bytes == free
    assert found.room.batch == 57  # 57.03 GiB
    assert found.room.context == 7296  # 456 pages of 16 for each of 64
    smaller = gambrel.kv_cache(LLAMA, context=8192, batch_size=57, hardware="h100-sxm5-80gb")
    assert smaller.fits is True


def test_without_a_device() -> None:
    found = gambrel.kv_cache(LLAMA, context=100)
    assert found.fits is None
    assert found.room is None


def test_weights_of_a_file(tmp_path: Path) -> None:
    path = write_model(tmp_path / "m.gguf", llama_metadata(), llama_tensors())
    found = gambrel.kv_cache(path, context=4096, precision="kv=q8_0", hardware="rtx-4090")
    assert found.weights_bytes == 6_372_768
    # 4 layers x 2 x 4 heads x 64 values in 8.5 bits
    assert found.cache.bytes_per_token == 4 * 512 * 8.5 / 8


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"context": "200k"}, r"context=204800: llama was made for at most 131072 tokens"),
        ({"context": "much"}, r"context: 'much' is not a number of tokens"),
        ({"context": 0}, r"context: 0 is not a whole number"),
        ({"utilization": 0.0}, r"utilization=0.0: a share above 0"),
        ({"page": 0}, r"page: 0 is not a whole number"),
        ({"windowed": "half"}, r"unknown windowed 'half'; closest: full, window"),
    ],
)
def test_refused(arguments: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        gambrel.kv_cache(LLAMA, **arguments)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "gambrel", "kv-cache", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_command(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text(json.dumps(LLAMA))
    done = run(str(path), "--hardware", "h100-sxm5-80gb", "--batch", "64", "--context", "8k")
    assert done.returncode == 1, done.stderr  # 64 do not fit
    assert "at most 57 sequences of 8,192 tokens" in done.stdout
    assert "does NOT fit" in done.stdout
    data = json.loads(run(str(path), "--context", "16", "--json").stdout)
    assert data["type"] == "gambrel/kv-cache"
    assert data["cache"]["logical_bytes"] == 16 * 131_072
    bad = run(str(path), "--context", "1M")
    assert (bad.returncode, bad.stdout) == (2, "")
    assert bad.stderr.count("\n") == 1


def test_the_text_of_windows() -> None:
    config = LLAMA | {"model_type": "mistral", "sliding_window": 4096}
    text = render(gambrel.kv_cache(config, context="32k", windowed="window"))
    assert "window 4096" in text
    assert "pages of the window for windowed layers" in " ".join(text.split())


def test_the_command_imports_no_torch(tmp_path: Path) -> None:
    program = (
        "import sys, gambrel; gambrel.kv_cache('llama-3.1-8b');"
        "print(sorted({'torch', 'transformers', 'rich', 'plotly'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"
