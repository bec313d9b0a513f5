"""Stored entries against fresh captures of the real architectures, at sizes not built from."""

from __future__ import annotations

import sys
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

pytestmark = [pytest.mark.torch, pytest.mark.slow]

if find_spec("torch") is None or find_spec("transformers") is None:
    pytest.skip("needs torch and transformers", allow_module_level=True)

SCRIPTS = str(Path(__file__).parents[2] / "scripts")

from gambrel.capture import zoo  # noqa: E402
from gambrel.workload import Tensor, Workload  # noqa: E402
from gambrel.workload.binding import bind  # noqa: E402


@pytest.fixture(scope="module")
def entries() -> dict[str, Any]:
    sys.path.insert(0, SCRIPTS)
    try:
        from zoo import all_entries
    finally:
        sys.path.remove(SCRIPTS)
    found: dict[str, Any] = all_entries()
    return found


@pytest.mark.parametrize(
    ("name", "sizes"),
    [
        ("resnet18", {"batch": 4, "image": 256}),
        ("resnet50", {"batch": 1, "image": 288}),
        ("mobilenet-v3-large", {"batch": 6, "image": 192}),
        ("efficientnet-b0", {"batch": 2, "image": 416}),
        ("swin-t", {"batch": 5}),
        ("vit-b-16", {"batch": 16}),
        ("yolov8n", {"batch": 4, "image": 416}),
        ("segformer-b0", {"batch": 4, "image": 224}),
        ("bert-base", {"batch": 4, "seq": 100}),
        ("t5-small", {"batch": 1, "seq": 200, "target": 31}),
        ("gpt2-prefill", {"batch": 4, "seq": 1024}),
        ("gpt2-decode", {"batch": 64, "context": 513}),
        ("llama-3.2-1b-prefill", {"batch": 1, "seq": 3000}),
        ("llama-3.2-1b-decode", {"batch": 17, "context": 8192}),
        ("mixtral-8x7b-prefill", {"batch": 2, "seq": 444}),
        ("whisper-base", {"batch": 1, "target": 200}),
        ("mamba-130m", {"batch": 4, "seq": 333}),
        ("mamba2-130m", {"batch": 1, "seq": 1500}),
        ("lstm", {"batch": 4, "seq": 64}),
        ("clip-l-text", {"batch": 4}),
        ("openclip-bigg-text", {"batch": 5}),
        ("t5-xxl-encoder", {"batch": 4, "seq": 120}),
        ("sd3-medium-transformer", {"batch": 4, "latent": 100}),
        ("flux-transformer", {"batch": 2, "latent": 96}),
        ("pixart-transformer", {"batch": 4, "latent": 72}),
        ("vae16-decoder", {"batch": 4, "latent": 72}),
    ],
)
def test_a_stored_entry_is_a_fresh_capture(
    entries: dict[str, Any], name: str, sizes: dict[str, int]
) -> None:
    stored = zoo.load(name)
    entry = entries[name]
    package, built_with, *_ = stored.origin.split(" ")
    if find_spec(package) is None or version(package).split("+")[0] != built_with:
        pytest.skip(f"the entry was built with {package} {built_with}")
    assert sizes not in entry.points
    fresh = entry.build().capture(sizes)
    assert_same(bind(stored, sizes), fresh)


@pytest.mark.parametrize(
    ("name", "sizes"), [("segformer-b0", {"image": 224}), ("mamba-130m", {"seq": 99})]
)
def test_at_batch_1_nothing_but_copies_differs_where_an_entry_says_so(
    entries: dict[str, Any], name: str, sizes: dict[str, int]
) -> None:
    stored = bind(zoo.load(name), {"batch": 1, **sizes})
    assert any(s.startswith("At batch 1, PyTorch skips") for s in stored.assumptions)
    fresh = entries[name].build().capture({"batch": 1, **sizes})
    assert len(fresh.ops) < len(stored.ops)
    assert computing(stored) == computing(fresh)


def computing(workload: Workload) -> list[tuple[object, ...]]:
    return [(o.name, o.module, o.sizes, o.attrs) for o in workload.ops if o.kind != "copy"]


def assert_same(stored: Workload, fresh: Workload) -> None:
    assert [o.name for o in stored.ops] == [o.name for o in fresh.ops]
    for ours, theirs in zip(stored.ops, fresh.ops, strict=True):
        assert ours == theirs
    for one, other in zip(stored.tensors, fresh.tensors, strict=True):
        assert plain(one) == plain(other)
    assert stored.outputs == fresh.outputs
    assert stored.dtype == fresh.dtype


def plain(tensor: Tensor) -> Tensor:
    """With its distinct elements always given: the shape's, where they were left out."""
    if tensor.elements is not None:
        return tensor
    count = 1
    for size in tensor.shape:
        count *= int(size)
    return replace(tensor, elements=count)
