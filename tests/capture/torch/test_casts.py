"""Casts that code asks for by name: none in fp32, in 16 bits those of the model captured there."""

from __future__ import annotations

import copy
from importlib.util import find_spec

import pytest
import torch
from torch import nn

import gambrel
from gambrel.analysis.analyze import analyze
from gambrel.analysis.settings import Settings
from gambrel.capture.torch import capture, ensure_torchvision, session
from gambrel.device.catalog import load
from gambrel.workload.formats import in_format
from gambrel.workload.serialize import dumps, loads

pytestmark = pytest.mark.torch


class Norm(nn.Module):
    """As of Llama, with tables in fp32 and a mask of another format."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64))
        self.linear = nn.Linear(64, 64)
        self.register_buffer("table", torch.ones(64))
        self.own = torch.ones(64)

    def forward(self, x):
        y = x.float() * self.table + self.own + torch.arange(64, dtype=torch.float32)
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        y = torch.softmax(self.linear(self.weight * y.to(x.dtype)), -1, dtype=torch.float32)
        return y.view(2, 8, 64).to(x.dtype)


def norm():
    return Norm(), (torch.zeros(2, 8, 64),)


def plain_vit():
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True)
    return nn.Sequential(nn.Linear(48, 64), layer, nn.LayerNorm(64)).eval(), (torch.ones(2, 9, 48),)


def flux():
    from diffusers import FluxTransformer2DModel

    model = FluxTransformer2DModel(
        num_layers=1,
        num_single_layers=1,
        num_attention_heads=2,
        attention_head_dim=128,
        joint_attention_dim=64,
        pooled_projection_dim=32,
        guidance_embeds=True,
    )
    shapes = {
        "hidden_states": (1, 16, 64),
        "encoder_hidden_states": (1, 8, 64),
        "pooled_projections": (1, 32),
        "timestep": (1,),
        "img_ids": (16, 3),
        "txt_ids": (8, 3),
        "guidance": (1,),
    }
    return model, {name: torch.zeros(shape) for name, shape in shapes.items()}


def sd3():
    from diffusers import SD3Transformer2DModel

    model = SD3Transformer2DModel(
        sample_size=16,
        num_layers=2,
        attention_head_dim=32,
        num_attention_heads=2,
        joint_attention_dim=64,
        caption_projection_dim=64,
        pooled_projection_dim=32,
        qk_norm="rms_norm",
    )
    return model, {
        "hidden_states": torch.zeros(2, 16, 16, 16),
        "encoder_hidden_states": torch.zeros(2, 8, 64),
        "pooled_projections": torch.zeros(2, 32),
        "timestep": torch.zeros(2, dtype=torch.long),
    }


def cogvideo():
    from diffusers import CogVideoXTransformer3DModel

    model = CogVideoXTransformer3DModel(
        num_attention_heads=2,
        attention_head_dim=64,
        in_channels=4,
        out_channels=4,
        time_embed_dim=32,
        text_embed_dim=32,
        num_layers=1,
        sample_width=16,
        sample_height=16,
        sample_frames=5,
        max_text_seq_length=8,
    )
    return model, {
        "hidden_states": torch.zeros(1, 2, 4, 16, 16),
        "encoder_hidden_states": torch.zeros(1, 8, 32),
        "timestep": torch.zeros(1, dtype=torch.long),
    }


def t5():
    from transformers import T5Config, T5EncoderModel

    config = T5Config(d_model=64, d_ff=128, d_kv=16, num_layers=2, num_heads=4, vocab_size=100)
    return T5EncoderModel(config).eval(), {"input_ids": torch.zeros(2, 12, dtype=torch.long)}


CASTING = {
    norm: "",
    flux: "diffusers",
    sd3: "diffusers",
    cogvideo: "diffusers",
    t5: "transformers",
}


@pytest.fixture(
    params=[
        pytest.param(
            make, marks=pytest.mark.skipif(bool(p) and not find_spec(p), reason=f"needs {p}")
        )
        for make, p in CASTING.items()
    ]
)
def made(request):
    ensure_torchvision()
    return request.param()


def in_bf16(value):
    """As built under a default of bf16: what a model makes in fp64 stays."""
    if isinstance(value, nn.Module):
        return copy.deepcopy(value)._apply(in_bf16)
    if isinstance(value, torch.Tensor):
        return value.to(torch.bfloat16) if value.dtype is torch.float32 else value
    if isinstance(value, dict):
        return {k: in_bf16(v) for k, v in value.items()}
    return tuple(in_bf16(v) for v in value)


def analyzed(workload, precision, runtime="pytorch"):
    return analyze(workload, load("h100-sxm5-80gb"), Settings(precision=precision, runtime=runtime))


def test_in_16_bits_it_is_the_model_captured_in_16_bits(made):
    model, args = made
    found = capture(model, args)
    live = capture(in_bf16(model), in_bf16(args))
    assert found.dtype == "fp32"
    narrow = in_format(found, "bf16")
    assert (narrow.ops, narrow.tensors) == (live.ops, live.tensors)
    assert (narrow.outputs, narrow.dtype) == (live.outputs, "bf16")
    for precision in ("bf16", "fp16"):
        ours, theirs = analyzed(found, precision), analyzed(live, precision)
        assert ours.ops == theirs.ops
        assert ours.total == theirs.total
        assert ours.footprint == theirs.footprint


@pytest.mark.parametrize("precision", ["fp32", "tf32", "int8"])
@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile"])
def test_in_fp32_nothing_comes_of_it(made, monkeypatch, precision, runtime):
    found = capture(*made)
    assert found.recorded_dtype == "bf16"
    monkeypatch.setattr(session, "recorded_in", lambda workload, narrow: workload)
    before = capture(*made)
    assert before.recorded_dtype == ""
    assert len(in_format(found, "fp32").ops) == len(before.ops) < len(found.ops)
    ours, theirs = (analyzed(w, precision, runtime) for w in (found, before))
    assert ours.ops == theirs.ops
    assert ours.total == theirs.total
    assert ours.footprint == theirs.footprint


def test_casts_by_hand():
    """One norm: x to fp32, y back, the softmax to fp32 (within its kernel or before it), y back."""
    found = capture(*norm())
    of = [[op.name for op in in_format(found, f).ops] for f in ("fp32", "bf16")]
    assert of[0].count("aten._to_copy") == 0
    assert of[1].count("aten._to_copy") == len(of[1]) - len(of[0])
    narrow = in_format(found, "bf16")
    power = next(op for op in narrow.ops if op.name == "aten.pow")
    assert narrow.tensors[power.inputs[0]].dtype == "fp32"
    product = next(op for op in narrow.ops if op.kind == "matmul")
    assert {narrow.tensors[i].dtype for i in product.inputs} == {"bf16"}


def test_models_without_casts_are_what_they_were():
    model, args = plain_vit()
    found = capture(model, args)
    assert found.recorded_dtype == ""
    assert in_format(found, "bf16") is found
    live = capture(in_bf16(model), in_bf16(args))
    assert analyzed(found, "bf16").total == analyzed(live, "bf16").total


def test_code_that_does_not_run_in_16_bits_keeps_its_one_form():
    class Single(nn.Module):
        def forward(self, x):
            if x.dtype is not torch.float32:
                raise TypeError("fp32 alone")
            return x.float() + 1

    assert capture(Single(), torch.zeros(2, 8)).recorded_dtype == ""


def test_saved_and_read_again():
    found = capture(*norm())
    assert loads(dumps(found)) == found


def test_the_module_is_left_as_it_was():
    model, args = norm()
    before = {k: (v.dtype, v.data_ptr()) for k, v in model.state_dict().items()}
    capture(model, args)
    assert {k: (v.dtype, v.data_ptr()) for k, v in model.state_dict().items()} == before
    assert "float" not in torch.Tensor.__dict__


def test_pipelines_of_parts_with_and_without_casts():
    from gambrel.llm.pipelines import Part, compose

    casting, plain = capture(*norm()), capture(*plain_vit())
    whole = compose("both", [Part(name="a", workload=casting), Part(name="b", workload=plain)])
    for precision in ("fp32", "bf16"):
        parts = [analyzed(w, precision).total for w in (casting, plain)]
        total = analyzed(whole, precision).total
        assert total.traffic_bytes == sum(p.traffic_bytes for p in parts)
        assert total.flops == sum(p.flops for p in parts)


def test_a_training_step_has_the_casts_of_both_passes():
    model, args = norm()
    found = capture(model, args, train=True, source=False)
    live = capture(in_bf16(model), in_bf16(args), train=True, source=False)
    narrow = in_format(found, "bf16")
    assert narrow.ops == live.ops
    assert analyzed(found, "bf16").total == analyzed(live, "bf16").total


def test_networks_that_ask_for_nothing_run_once():
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    calls = []
    model.register_forward_hook(lambda *_: calls.append(1))
    capture(model, torch.zeros(2, 3, 8, 8))
    assert calls == [1]


class Growing(nn.Module):
    """Begins a cache as transformers do, with nothing in it."""

    def forward(self, x):
        return torch.cat((torch.tensor([], dtype=x.dtype), x.flatten()))


def test_what_holds_no_numbers_asks_for_nothing():
    model, calls = Growing(), []
    model.register_forward_hook(lambda *_: calls.append(1))
    capture(model, torch.zeros(2, 3))
    assert calls == [1]


def test_engines_without_fp32_get_all_in_16_bits():
    found = capture(*norm())
    engine, settings = load("m1-ane"), Settings(precision="fp16")
    ours = analyze(found, engine, settings)
    assert ours.total.expected_time_s is not None
    assert len(ours.ops) == len(in_format(found, "fp32").ops)


def test_compilers_of_npus_put_parts_in_fp32_into_their_one_format():
    found = gambrel.analyze(
        "efficientvit-b1", "snapdragon-8-gen-3", runtime="qnn", precision="fp16"
    )
    assert found.expected_time_s is not None
    assert all(op.kind != "copy" or "to_copy" not in op.name for op in found.ops)
