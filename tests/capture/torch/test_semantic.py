"""Ops that are one node: attention, scans, recurrent layers, experts, and data-dependent ops."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gambrel.capture.torch import capture, lean_init
from gambrel.workload import Role
from tests.capture.torch.reading import matrix_flops, only, shapes

pytestmark = pytest.mark.torch


def test_attention_of_multihead_module_is_one_node():
    model = nn.MultiheadAttention(32, 4, batch_first=True).eval()
    x = torch.randn(2, 10, 32)
    attention = only(capture(model, (x, x, x), {"need_weights": False}), "attention")
    assert attention.sizes == {
        "batch": 2,
        "heads": 4,
        "kv_heads": 4,
        "q_len": 10,
        "kv_len": 10,
        "head_dim": 8,
        "v_head_dim": 8,
    }


def test_fast_path_of_the_encoder_layer_is_not_taken():
    model = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True).eval()
    w = capture(model, torch.randn(2, 10, 32))
    # in_proj 20·96·32, out_proj 20·32·32, feed-forward 2 · 20·64·32; scores and values 2·4·100·8
    expected = 2 * (20 * 96 * 32 + 20 * 32 * 32 + 2 * 20 * 64 * 32 + 2 * 2 * 4 * 100 * 8)
    assert matrix_flops(w) == expected


def test_grouped_queries_and_mask():
    def run(q, k, v, mask):
        return nn.functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)

    q, k = torch.randn(1, 8, 5, 16), torch.randn(1, 2, 7, 16)
    attention = only(capture(run, (q, k, k, torch.zeros(5, 7))), "attention")
    assert (attention.sizes["heads"], attention.sizes["kv_heads"]) == (8, 2)
    assert attention.attrs == {"causal": False, "mask": True, "dropout": False}
    assert len(attention.inputs) == 4


def test_upper_left_causal_mask_never_uses_later_keys():
    def run(q, k):
        return nn.functional.scaled_dot_product_attention(q, k, k, is_causal=True)

    w = capture(run, (torch.randn(1, 2, 3, 8), torch.randn(1, 2, 9, 8)))
    # 1 + 2 + 3 = 6 pairs, two heads, two products of width 8
    assert matrix_flops(w) == 2 * 2 * 6 * (8 + 8)


@pytest.mark.parametrize(
    ("layer", "cell", "x"),
    [
        (nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True), "lstm", (3, 5, 8)),
        (nn.GRU(8, 16), "gru", (5, 3, 8)),
        (nn.RNN(8, 16), "rnn_tanh", (5, 3, 8)),
        (nn.LSTM(8, 16, proj_size=4), "lstm", (5, 3, 8)),
    ],
)
def test_recurrent_layer_is_one_node(layer, cell, x):
    w = capture(layer, torch.randn(*x))
    op = only(w, "recurrent")
    assert (op.attrs["cell"], op.sizes["batch"], op.sizes["seq"]) == (cell, 3, 5)
    assert op.sizes["hidden"] == 16
    assert op.sizes["projection"] == getattr(layer, "proj_size", 0)
    assert op.sizes["directions"] == (2 if layer.bidirectional else 1)
    width = (layer.proj_size or 16) * (2 if layer.bidirectional else 1)
    assert w.tensors[op.outputs[0]].shape == (*x[:2], width)


def test_recurrent_layer_in_training_has_one_node_each_way():
    w = capture(nn.LSTM(8, 16), torch.randn(5, 3, 8), train=True, optimizer="none")
    kinds = [op.kind for op in w.ops]
    assert (kinds.count("recurrent"), kinds.count("recurrent_backward")) == (1, 1)


def test_mamba_has_as_many_ops_at_any_length(transformers):
    config = transformers.MambaConfig(
        vocab_size=99, hidden_size=32, state_size=4, num_hidden_layers=1
    )
    with lean_init():
        model = transformers.MambaForCausalLM(config).eval()
    counts = set()
    for length in (8, 64, 4096):
        w = capture(model, kwargs={"input_ids": torch.zeros(1, length, dtype=torch.long)})
        scan = only(w, "selective_scan")
        assert scan.sizes == {"batch": 1, "seq": length, "channels": 64, "state": 4}
        assert scan.attrs == {"skip": True, "gate": True, "softplus": True}
        counts.add(len(w.ops))
    assert len(counts) == 1


def test_mamba2_scan(transformers):
    config = transformers.Mamba2Config(
        vocab_size=99,
        hidden_size=32,
        state_size=8,
        num_hidden_layers=1,
        num_heads=4,
        head_dim=16,
        n_groups=2,
        chunk_size=8,
    )
    model = transformers.Mamba2ForCausalLM(config).eval()
    w = capture(model, kwargs={"input_ids": torch.zeros(2, 20, dtype=torch.long)})
    assert only(w, "ssd_scan").sizes == {
        "batch": 2,
        "seq": 20,
        "heads": 4,
        "head_dim": 16,
        "state": 8,
        "groups": 2,
        "chunk": 8,
    }


def test_experts_know_their_routing(transformers):
    config = transformers.MixtralConfig(
        vocab_size=99,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=8,
        num_experts_per_tok=2,
    )
    with lean_init():
        model = transformers.MixtralForCausalLM(config).eval()
    w = capture(model, kwargs={"input_ids": torch.zeros(3, 10, dtype=torch.long)})
    up, down = [op for op in w.ops if op.kind == "grouped_matmul"]
    # 30 tokens to 2 of 8 experts; gate and up side by side, then down
    routed = {"rows": 60, "experts": 8, "top_k": 2, "tokens": 30}
    assert up.sizes == {**routed, "n": 128, "k": 32}
    assert down.sizes == {**routed, "n": 32, "k": 64}
    assert any("experts" in sentence for sentence in w.assumptions)


def test_data_dependent_selection_states_its_assumption():
    x = torch.empty(4, 6, device="meta")
    w = capture(lambda x: x[x > 0].exp(), x)
    assert w.tensors[w.outputs[0]].shape == (24,)
    assert w.assumptions == ("assumed that every element passes a test that selects by value.",)
    known = capture(lambda x: x[x > 0].exp(), torch.tensor([[1.0, -1.0, 2.0]]))
    assert known.tensors[known.outputs[0]].shape == (2,)
    assert known.assumptions == ()


def test_other_data_dependent_ops():
    x = torch.empty(5, device="meta")

    def run(x):
        values, inverse = torch.unique(x, return_inverse=True)
        return values, inverse, torch.nonzero(x), torch.masked_select(x, x > 0)

    w = capture(run, x)
    assert [w.tensors[i].shape for i in w.outputs] == [(5,), (5,), (5, 1), (5,)]
    assert len(w.assumptions) == 2


def test_faster_rcnn_matches_its_published_work(torchvision):
    with lean_init():
        model = torchvision.models.detection.fasterrcnn_resnet50_fpn(
            weights=None, weights_backbone=None
        ).eval()
    w = capture(model, ([torch.empty(3, 800, 800, device="meta")],))
    # torchvision states 134.38 GMAC for fasterrcnn_resnet50_fpn: 268.76 GFLOP
    assert round(matrix_flops(w) / 1e9, 2) == 268.76
    rois = [op for op in w.ops if op.kind == "roi_align"]
    # 1,000 regions, each pooled from one of four pyramid levels
    assert [w.tensors[op.outputs[0]].shape[0] for op in rois] == [250] * 4
    said = " ".join(w.assumptions)
    assert "non-maximum suppression keeps every box" in said
    assert "every element passes a test" in said


def test_lean_init_builds_without_memory_but_keeps_small_buffers():
    with lean_init(torch.bfloat16):
        big = nn.Sequential(nn.Linear(100_000, 100_000), nn.BatchNorm1d(100_000))
    assert torch.get_default_dtype() is torch.float32
    assert {p.device.type for p in big.parameters()} == {"meta"}
    assert {p.dtype for p in big.parameters()} == {torch.bfloat16}
    with lean_init():
        small = nn.BatchNorm1d(8)
    assert small.running_mean.device.type == "cpu"
    assert nn.Linear(2, 2).weight.device.type == "cpu"
    w = capture(big.eval(), torch.empty(2, 100_000, device="meta", dtype=torch.bfloat16))
    assert matrix_flops(w) == 2 * 2 * 100_000 * 100_000
    assert sum(t.role is Role.WEIGHT for t in w.tensors) == 4


def test_lean_init_keeps_weights_tied(transformers):
    config = transformers.GPT2Config(vocab_size=99, n_embd=16, n_layer=1, n_head=2)
    with lean_init():
        model = transformers.GPT2LMHeadModel(config)
    assert model.lm_head.weight is model.transformer.wte.weight


class _Packed(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.LSTM(4, 8, batch_first=True)

    def forward(self, x, lengths):
        packed = nn.utils.rnn.pack_padded_sequence(
            x, lengths, batch_first=True, enforce_sorted=False
        )
        out, _ = self.layer(packed)
        return nn.utils.rnn.pad_packed_sequence(out, batch_first=True)


def test_packed_sequences_count_their_tokens_only():
    w = capture(_Packed(), (torch.randn(2, 5, 4), torch.tensor([3, 5])))
    layer = only(w, "recurrent")
    # 3 + 5 tokens, not 2 · 5
    assert layer.sizes["batch"] * layer.sizes["seq"] == 8
    assert [w.tensors[i].shape for i in w.outputs] == [(2, 5, 8), (2,)]
    assert w.assumptions == ()


def test_packed_sequences_of_unknown_lengths_are_full():
    lengths = torch.empty(2, device="meta", dtype=torch.int64)
    w = capture(_Packed(), (torch.randn(2, 5, 4), lengths))
    assert only(w, "recurrent").sizes["batch"] == 10
    assert any("packed sequences have their full length" in s for s in w.assumptions)


def test_rms_norm_is_one_node_as_on_a_gpu():
    w = capture(nn.RMSNorm(768), torch.randn(128, 768))
    norm = only(w, "normalization")
    assert norm.attrs == {"function": "rms_norm", "statistics": True, "affine": True}
    assert norm.sizes == {"elements": 98_304, "groups": 128}
    assert len(w.ops) == 1
    bare = capture(nn.RMSNorm(768, elementwise_affine=False), torch.randn(128, 768))
    assert only(bare, "normalization").attrs["affine"] is False


def test_gradient_of_rms_norm_reads_no_result():
    w = capture(nn.RMSNorm(64), torch.randn(8, 64).requires_grad_(), train=True, optimizer="none")
    backward = only(w, "normalization_backward")
    # gradient, input, weight, root; gradients of input and weight
    assert shapes(w, backward.inputs) == [(8, 64), (8, 64), (64,), (8, 1)]
    assert shapes(w, backward.outputs) == [(8, 64), (64,)]


@pytest.mark.filterwarnings("ignore:Mismatch dtype")
def test_rms_norm_in_mixed_formats_is_spelled_out():
    """Torch has no kernel for weights in another format than the input."""
    w = capture(nn.RMSNorm(64), torch.randn(8, 64, dtype=torch.bfloat16))
    assert "normalization" not in {op.kind for op in w.ops}


def test_dropout_is_one_kernel_with_a_narrow_mask_as_on_a_gpu():
    model, x = nn.Dropout(0.1).train(), torch.randn(8, 64).requires_grad_()
    w = capture(model, x, train=True, optimizer="none")
    forward = next(op for op in w.ops if op.name == "aten.native_dropout")
    backward = next(op for op in w.ops if op.name == "aten.native_dropout_backward")
    assert [w.tensors[i].dtype for i in forward.inputs + forward.outputs] == [
        "fp32",
        "fp32",
        "bool",
    ]
    assert [w.tensors[i].dtype for i in backward.inputs + backward.outputs] == [
        "fp32",
        "bool",
        "fp32",
    ]
    names = [op.name for op in capture(model, x, train=True, optimizer="none", device="cpu").ops]
    assert {"aten.bernoulli_", "aten.div_", "aten.mul"} <= set(names)
    assert not capture(nn.Dropout(0.1).eval(), x).ops


def test_a_real_run_of_rms_norm_records_the_same():
    model = nn.Sequential(nn.Linear(16, 16), nn.RMSNorm(16))
    x = torch.randn(4, 16)
    lazy, real = (
        capture(model, x, train=True, optimizer="none", execute=run) for run in (False, True)
    )
    assert [op.kind for op in real.ops] == [op.kind for op in lazy.ops]
