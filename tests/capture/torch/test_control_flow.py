"""Control flow as operators, and flex_attention: captured, not refused."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import nn
from torch._higher_order_ops.scan import scan
from torch._higher_order_ops.while_loop import while_loop
from torch.nn.attention.flex_attention import create_block_mask, flex_attention

import gambrel
from gambrel.capture.torch import capture
from gambrel.workload import Phase
from tests.capture.torch.reading import only

pytestmark = [pytest.mark.torch, pytest.mark.filterwarnings("ignore")]


class _Model(nn.Module):
    def __init__(self, run: Any) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.run = run

    def forward(self, x: torch.Tensor) -> Any:
        return self.run(self, x)


def _flops(run: Any, x: torch.Tensor, **options: Any) -> int:
    workload = capture(_Model(run), x, **options)
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.coverage == 1
    return sum(op.measures.flops for op in analysis.ops if op.kind == "matmul")


_LINEAR = 2 * 2 * 8 * 8  # of two rows


def test_cond_takes_the_branch_that_is_known_or_says_which() -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        return torch.cond(x.sum() > 0, model.linear, lambda x: x * 2, (x,))

    assert _flops(run, torch.ones(2, 8)) == _LINEAR
    assert _flops(run, -torch.ones(2, 8)) == 0
    unknown = torch.empty(2, 8, device="meta")
    assert _flops(run, unknown) == _LINEAR
    assert any("first branch" in s for s in capture(_Model(run), unknown).assumptions)


def test_while_loop_runs_its_steps() -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        count = torch.tensor(0)
        return while_loop(lambda i, _: i < 5, lambda i, x: (i + 1, model.linear(x)), (count, x))

    assert _flops(run, torch.randn(2, 8)) == 5 * _LINEAR


def test_while_loop_of_unknown_length_says_so() -> None:
    def run(model: Any, x: torch.Tensor) -> Any:
        return while_loop(lambda x: x.sum() > 0, lambda x: (model.linear(x),), (x,))

    unknown = torch.empty(2, 8, device="meta")
    assert _flops(run, unknown) == _LINEAR
    assert any("runs once" in s for s in capture(_Model(run), unknown).assumptions)


def _scanned(model: Any, x: torch.Tensor) -> Any:
    return scan(lambda c, x: (model.linear(c) + x, c + 0), torch.zeros(2, 8), x, dim=0)


def test_scan_counts_every_step() -> None:
    x = torch.randn(7, 2, 8)
    assert _flops(_scanned, x) == 7 * _LINEAR
    workload = capture(_Model(_scanned), x)
    assert workload.tensors[workload.outputs[1]].shape == (7, 2, 8)


def test_scan_in_training_has_the_backward_of_every_step() -> None:
    workload = capture(_Model(_scanned), torch.randn(3, 2, 8), train=True)
    products = [op for op in workload.ops if op.kind == "matmul"]
    assert sum(op.phase is Phase.FORWARD for op in products) == 3
    # A gradient of the weight a step, and of the carried value but for the first.
    assert sum(op.phase is Phase.BACKWARD for op in products) == 5


def _causal(_b: Any, _h: Any, q: Any, k: Any) -> Any:
    return q >= k


class _Flex(nn.Module):
    def __init__(self, mask: Any) -> None:
        super().__init__()
        self.mask = mask

    def forward(self, q: torch.Tensor) -> torch.Tensor:
        mask = self.mask
        if mask == "inside":
            mask = create_block_mask(_causal, None, None, 256, 256, device=q.device)
        return flex_attention(q, q, q, block_mask=mask)


@pytest.mark.parametrize(("mask", "blocks"), [(None, 4), ("outside", 3), ("inside", 3)])
def test_flex_attention_computes_the_blocks_of_its_mask(mask: Any, blocks: int) -> None:
    if mask == "outside":
        mask = create_block_mask(_causal, None, None, 256, 256, device="cpu")
    workload = capture(_Flex(mask), torch.randn(2, 4, 256, 16))
    only(workload, "attention")
    (op,) = (o for o in gambrel.analyze(workload, "h100").ops if o.kind == "attention")
    pairs = 2 * 4 * blocks * 128 * 128
    # Two products of 16 a pair, and 5 on the vector engine less 2 a row.
    assert op.measures.matrix_flops == pairs * 2 * 32
    assert op.measures.vector_flops == 5 * pairs - 2 * 2 * 4 * 256


def test_flex_attention_has_a_backward() -> None:
    q = torch.randn(2, 4, 64, 16, requires_grad=True)
    assert only(capture(_Flex(None), q, train=True), "attention_backward")


def test_numbers_in_tensors_can_be_put_in_a_new_one() -> None:
    """As Qwen-VL does with the offsets of its positions."""

    class Offsets(nn.Module):
        def forward(self, ids: torch.Tensor) -> torch.Tensor:
            last = [row.max() + 1 for row in ids]
            return torch.tensor(last, device=ids.device).unsqueeze(1)

    workload = capture(Offsets(), torch.arange(6).view(2, 3))
    assert workload.tensors[workload.outputs[0]].shape == (2, 1)


def test_qwen_vl_is_captured(transformers: Any) -> None:
    text = {
        "vocab_size": 200,
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "mrope_section": [2, 3, 3], "rope_theta": 1e4},
    }
    vision = {
        "depth": 2,
        "hidden_size": 32,
        "out_hidden_size": 64,
        "num_heads": 4,
        "patch_size": 14,
        "intermediate_size": 64,
        "fullatt_block_indexes": [1],
    }
    config = transformers.Qwen2_5_VLConfig(
        text_config=text, vision_config=vision, image_token_id=150, vision_start_token_id=152
    )
    model = transformers.Qwen2_5_VLForConditionalGeneration(config).eval()
    ids = torch.randint(0, 100, (1, 24))
    ids[0, 2], ids[0, 3:19] = 152, 150
    inputs = {
        "input_ids": ids,
        "pixel_values": torch.randn(64, 3 * 2 * 14 * 14),
        "image_grid_thw": torch.tensor([[1, 8, 8]]),
        "mm_token_type_ids": (ids == 150).int(),
        "use_cache": False,
    }
    analysis = gambrel.analyze(capture(model, (), inputs), "h100")
    assert analysis.coverage == 1
    assert analysis.model.parameters == sum(p.numel() for p in model.parameters())
