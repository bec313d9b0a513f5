"""FLOPs of a token, peaks and MFU by hand; callbacks in trainers that really run."""

from __future__ import annotations

import math

import pytest

import gambrel
from gambrel.api.accounting import Meter
from gambrel.errors import DeviceError, InputError
from gambrel.llm.known import config_of, spec_of


def test_a_dense_model_by_hand():
    # Llama-3.1-8B, a token of forward: 32 layers of q 4096 x 4096, k and v 4096 x 1024, o 4096 x
    # 4096, three of 4096 x 14336; head 4096 x 128256; FMA = 2. Attention sees (S + 1) / 2
    # positions: 2 products of 32 heads x 128.
    seq = 4096
    layer = 2 * 4096 * (4096 + 2 * 1024 + 4096 + 3 * 14_336)
    attention = 2 * 2 * 32 * 128 * (seq + 1) / 2
    token = 32 * (layer + attention) + 2 * 4096 * 128_256
    assert gambrel.flops_per_token("llama-3.1-8b", seq, training=False) == token
    assert gambrel.flops_per_token("llama-3.1-8b", seq) == 3 * token


def test_a_mixture_counts_the_experts_of_a_token():
    # Mixtral-8x7B: two experts of three products 4096 x 14336, router 4096 x 8, 32 of 8 heads.
    seq = 1
    layer = 2 * 4096 * (4096 + 2 * 1024 + 4096 + 2 * 3 * 14_336 + 8) + 4 * 32 * 128
    token = 32 * layer + 2 * 4096 * 32_000
    assert gambrel.flops_per_token("mixtral-8x7b", seq, training=False) == token


def test_latent_attention_by_hand():
    # DeepSeek-V3: q 7168 x 1536 and 1536 x 128 x 192; latent 7168 x 576 and 512 x 128 x 256;
    # o 128 x 128 x 7168; attention over 192 and 128 values; 3 dense layers of 18432, 58 with 1 + 8
    # experts of 2048 and a router of 256; head.
    seq = 2048
    mix = 7168 * 1536 + 1536 * 128 * 192 + 7168 * 576 + 512 * 128 * 256 + 128 * 128 * 7168
    attention = 128 * (192 + 128) * (seq + 1) / 2
    dense, experts = 3 * 7168 * 18_432, 9 * 3 * 7168 * 2048 + 7168 * 256
    token = 2 * (61 * (mix + attention) + 3 * dense + 58 * experts + 7168 * 129_280)
    assert gambrel.flops_per_token("deepseek-v3", seq, training=False) == pytest.approx(token)


def test_windows_count_what_they_see():
    # gpt-oss: every other layer sees 128 positions. Far beyond these only the full layers grow.
    a, b = (gambrel.flops_per_token("gpt-oss-20b", s, training=False) for s in (8192, 16_384))
    assert b - a == pytest.approx(12 * 4 * 64 * 64 * 8192 / 2, rel=0.01)


#: Qwen3-Next, small: three layers in four have a gated delta rule, one attention behind a gate.
_DELTA = {
    "model_type": "qwen3_next",
    "hidden_size": 256,
    "num_hidden_layers": 4,
    "vocab_size": 1000,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 64,
    "intermediate_size": 512,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 4,
    "linear_key_head_dim": 32,
    "linear_value_head_dim": 48,
    "num_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 96,
    "shared_expert_intermediate_size": 128,
}


def test_a_gated_delta_net_by_hand():
    # Keys 2 x 32, values 4 x 48. Products: q and k 2 x 64, v and z 2 x 192, b and a 2 x 4; out 192;
    # a convolution of q, k and v over 4 positions. The state of a value head is 32 x 48, and a
    # token has three contractions with it.
    seq, h = 640, 256
    delta = h * (2 * 64 + 2 * 192 + 2 * 4) + 192 * h + 4 * (2 * 64 + 192) + 3 * 4 * 32 * 48
    # Single FLOP of a head: the decay of its state, v minus what is held times beta, q and k of
    # length one, and the rates with their exponentials.
    around = 4 * (32 * 48 + 2 * 48 + 6 * 32 + 4 + 6)
    # Queries and their gate 2 x 256, keys and values 2 x 128, out 256.
    full = h * (2 * 256 + 2 * 128) + 256 * h + 2 * 4 * 64 * (seq + 1) / 2
    # Two experts of three products, a router of 8, a shared one with a gate of one value.
    experts = 2 * 3 * h * 96 + h * 8 + 3 * h * 128 + h
    token = 2 * (3 * delta + full + 4 * experts + h * 1000) + 3 * around
    assert gambrel.flops_per_token(_DELTA, seq, training=False) == pytest.approx(token, rel=1e-12)


def test_latent_experts_by_hand():
    # Nemotron 3 Super's experts read and write 64 values of a token of 256; the shared one and the
    # router see all 256. Feed-forward parts are layers of their own, with two products each.
    config = {
        "model_type": "nemotron_h",
        "hidden_size": 256,
        "vocab_size": 1000,
        "hybrid_override_pattern": "*E",
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "mamba_num_heads": 8,
        "mamba_head_dim": 32,
        "ssm_state_size": 16,
        "n_groups": 2,
        "intermediate_size": 512,
        "n_routed_experts": 16,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 96,
        "moe_shared_expert_intermediate_size": 192,
        "moe_latent_size": 64,
    }
    seq, h = 512, 256
    attention = h * (256 + 2 * 128) + 256 * h + 2 * 4 * 64 * (seq + 1) / 2
    experts = 2 * h * 64 + 4 * 2 * 64 * 96 + h * 16 + 2 * h * 192
    token = 2 * (attention + experts + h * 1000)
    assert gambrel.flops_per_token(config, seq, training=False) == pytest.approx(token, rel=1e-12)
    # All 16 experts are held: their parameters, the two projections and the rest.
    wide = gambrel.flops_per_token({**config, "moe_latent_size": None}, seq, training=False)
    assert wide - token == pytest.approx(2 * (4 * 2 * (256 - 64) * 96 - 2 * h * 64))


def test_sliding_windows_by_hand():
    # Of 10 positions with a window of 4, tokens see 1, 2, 3, 4, 4, ... : 34 pairs.
    config = {
        "model_type": "mistral",
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 100,
        "sliding_window": 4,
    }
    layer = 64 * (64 + 2 * 32) + 64 * 64 + 3 * 64 * 96 + 2 * 4 * 16 * 34 / 10
    token = 2 * (2 * layer + 64 * 100)
    assert gambrel.flops_per_token(config, 10, training=False) == pytest.approx(token, rel=1e-12)


def test_a_configuration_is_its_name():
    name, config = config_of("qwen3-8b")
    by_name = gambrel.flops_per_token(name, 512)
    assert gambrel.flops_per_token(dict(config), 512) == by_name
    assert gambrel.flops_per_token(spec_of(name), 512) == by_name


def test_peaks_and_utilization():
    assert gambrel.peak("h100") == 989.4e12
    assert gambrel.peak("a100-sxm4-80gb", "fp16") == 312e12
    token = gambrel.flops_per_token("llama-3.1-8b", 8192)
    assert gambrel.mfu(8e4, "llama-3.1-8b", "h100", seq=8192, devices=8) == pytest.approx(
        token * 8e4 / (8 * 989.4e12)
    )
    used = gambrel.mfu(8e3, "llama-3.1-8b", "h100", seq=8192)
    again = gambrel.mfu(8e3, "llama-3.1-8b", "h100", seq=8192, recompute=True)
    assert again == pytest.approx(used * 4 / 3)


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: gambrel.flops_per_token("llama-3.1-8b", 0), InputError, "seq=0"),
        (lambda: gambrel.mfu(-1, "llama-3.1-8b", "h100", seq=8), InputError, "tokens_per_s=-1"),
        (lambda: gambrel.mfu(math.nan, "llama-3.1-8b", "h100", seq=8), InputError, "nan"),
        (lambda: gambrel.mfu(1, "llama-3.1-8b", "h100", seq=8, devices=0), InputError, "devices=0"),
        (lambda: gambrel.peak("v100", "fp8"), DeviceError, "no matrix peak in fp8; it has fp16"),
    ],
)
def test_what_cannot_be_counted(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_a_meter_counts_laps():
    meter = Meter("llama-3.1-8b", "h100", seq=8192, devices=8, recompute=True)
    assert meter.lap(10.0) == {}
    meter.add(160_000)
    found = meter.lap(12.0)
    assert found["tokens_per_s"] == 80_000
    assert found["mfu"] == pytest.approx(
        gambrel.mfu(8e4, "llama-3.1-8b", "h100", seq=8192, devices=8)
    )
    assert found["hfu"] == pytest.approx(found["mfu"] * 4 / 3)
    assert 0 < found["sol_share"] <= found["mfu"]
    assert meter.lap(13.0) == {}


def test_the_trainer_logs_utilization(tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("accelerate")
    config = transformers.LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=64,
    )
    model = transformers.LlamaForCausalLM(config)
    rows = [{"input_ids": torch.arange(16), "labels": torch.arange(16)} for _ in range(8)]
    trainer = transformers.Trainer(
        model=model,
        args=transformers.TrainingArguments(
            output_dir=str(tmp_path),
            per_device_train_batch_size=2,
            logging_steps=2,
            max_steps=4,
            use_cpu=True,
            report_to=[],
            disable_tqdm=True,
        ),
        train_dataset=rows,
        callbacks=[gambrel.trainer_callback("a100", seq=16)],
    )
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "mfu" in entry]
    assert logged
    assert all(0 < entry["mfu"] < 1 and entry["tokens_per_s"] > 0 for entry in logged)


def test_lightning_logs_utilization(tmp_path):
    lightning = pytest.importorskip("lightning.pytorch")
    torch = pytest.importorskip("torch")

    class Tiny(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(4, 4)

        def training_step(self, batch, _):
            return self.layer(batch).sum()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    callback = gambrel.lightning_callback("a100", "llama-3.1-8b", seq=16, sequences=2)
    trainer = lightning.Trainer(
        max_steps=4,
        log_every_n_steps=2,
        accelerator="cpu",
        callbacks=[callback],
        logger=False,
        default_root_dir=tmp_path,
        enable_checkpointing=False,
        enable_progress_bar=False,
    )
    trainer.fit(Tiny(), torch.utils.data.DataLoader(torch.ones(8, 4), batch_size=2))
    assert trainer.callback_metrics["mfu"] > 0
