"""Mixtures of experts that spell out their routing, and in-place changes of a shape."""

import pytest
import torch

import gambrel
from gambrel.capture.torch import capture, ensure_torchvision

ensure_torchvision()
hf = pytest.importorskip("transformers")

IDS = torch.full((1, 16), 5)


def matrix_flops(model, inputs):
    return gambrel.analyze(model, "h100", kwargs=inputs, causal="full").total.matrix_flops


def test_jetmoe_counts_each_token_at_its_chosen_experts():
    config = hf.JetMoeConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=1,
        num_key_value_heads=2,
        kv_channels=8,
        intermediate_size=24,
        num_local_experts=8,
        num_experts_per_tok=2,
        use_cache=False,
    )
    model = hf.JetMoeForCausalLM(config).eval()
    tokens, chosen, hidden, width, ffn = 16, 2, 32, 2 * 8, 24
    router = 2 * tokens * hidden * 8  # of the attention's experts and of the others
    attention_experts = 2 * (2 * tokens * chosen) * hidden * width  # queries, and the output
    keys_values = 2 * tokens * hidden * 2 * width
    heads = chosen * 2
    attention = 2 * 2 * heads * tokens * tokens * 8
    experts = 2 * (tokens * chosen) * hidden * 2 * ffn + 2 * (tokens * chosen) * ffn * hidden
    head = 2 * tokens * hidden * 100
    total = 2 * router + attention_experts + keys_values + attention + experts + head
    assert matrix_flops(model, {"input_ids": IDS}) == total


def test_experts_of_nllb_get_their_share_of_two_for_each_token():
    config = hf.NllbMoeConfig(
        vocab_size=100,
        d_model=32,
        encoder_layers=1,
        decoder_layers=1,
        encoder_sparse_step=1,
        decoder_sparse_step=1,
        encoder_attention_heads=2,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=48,
        num_experts=4,
        use_cache=False,
    )
    model = hf.NllbMoeModel(config).eval()
    workload = capture(model, (), {"input_ids": IDS, "decoder_input_ids": IDS[:, :8]})
    experts = [op for op in workload.ops if ".experts." in op.module and op.kind == "matmul"]
    # 16 tokens to 2 of 4 experts each: 8 rows an expert; the decoder's 8 tokens: 4 rows.
    rows = [workload.tensors[op.outputs[0]].shape[0] for op in experts]
    assert [int(str(r)) for r in rows] == [8] * 8 + [4] * 8
    analysis = gambrel.analyze(workload, "h100")
    assert analysis.model.parameters == sum(p.numel() for p in model.parameters())


def test_a_shape_is_changed_in_place_in_every_call():
    class Repeated(torch.nn.Module):
        def forward(self, a, b):
            parts = []
            for _ in range(3):
                part = a @ b
                part.unsqueeze_(1)
                parts.append(part)
            last = torch.cat(parts, 1)
            for _ in range(3):
                last = last + 1
                last.transpose_(0, 1)
            return last

    a, b = torch.zeros(4, 5), torch.zeros(5, 6)
    workload = capture(Repeated(), (a, b), {})
    shape = workload.tensors[workload.outputs[0]].shape
    assert tuple(int(str(n)) for n in shape) == tuple(Repeated()(a, b).shape) == (3, 4, 6)


def test_big_bird_attends_in_blocks():
    config = hf.BigBirdConfig(
        vocab_size=100,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=64,
        block_size=16,
        num_random_blocks=2,
        max_position_embeddings=512,
    )
    model = hf.BigBirdModel(config).eval()
    inputs = {"input_ids": torch.full((1, 256), 5)}
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(**inputs)
    assert matrix_flops(model, inputs) == counter.get_total_flops()
