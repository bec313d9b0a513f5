"""Configurations of transformers as workloads: counts, phases, and refusals."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from typing import Any

import pytest

from gambrel.analysis.evaluate import Evaluator
from gambrel.errors import (
    CaptureError,
    GambrelError,
    InputError,
    MissingExtraError,
    UnknownNameError,
    WorkloadError,
)
from gambrel.ops import Conventions
from gambrel.ops.base import Engine
from gambrel.workload import Op, Role, Symbol, Workload
from gambrel.workload.binding import bind

pytestmark = pytest.mark.torch

if find_spec("torch") is None or find_spec("transformers") is None:
    pytest.skip("needs torch and transformers", allow_module_level=True)

from gambrel.capture.torch import hf_config, huggingface  # noqa: E402
from gambrel.capture.torch.hf_sizes import Capture, capture_open  # noqa: E402
from gambrel.capture.torch.huggingface import HuggingFaceModel, workload_from_config  # noqa: E402

SMALL_LLAMA = {
    "model_type": "llama",
    "architectures": ["LlamaForCausalLM"],
    "hidden_size": 1024,
    "intermediate_size": 2816,
    "num_hidden_layers": 8,
    "num_attention_heads": 16,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
    "torch_dtype": "bfloat16",
}
GPT2 = {
    "model_type": "gpt2",
    "architectures": ["GPT2LMHeadModel"],
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
}
TINY_MIXTRAL = {
    **SMALL_LLAMA,
    "model_type": "mixtral",
    "architectures": ["MixtralForCausalLM"],
    "num_hidden_layers": 2,
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Libraries may warn while they are imported; their warnings are not ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def matrix_flops(workload: Workload, causal: str = "half") -> int:
    total = 0
    values = workload.resolve_symbols({})
    for op, _, cost in Evaluator(workload, values, {}, Conventions(causal=causal)).costs():
        assert cost is not None, op
        total += sum(n for (engine, _), n in cost.work.items() if engine is Engine.MATRIX)
    return total


def test_a_small_llama_by_hand() -> None:
    """8 layers: q, o 1024², k, v 1024×256, three of 1024×2816; 128 tokens, 128·129/2 pairs."""
    found = workload_from_config(SMALL_LLAMA, seq=128)
    layer = 2 * 1024 * 1024 + 2 * 1024 * 256 + 3 * 1024 * 2816
    assert layer == 11_272_192
    attention = 2 * 16 * 64 * 8_256
    head = 1024 * 32_000
    macs = 8 * (128 * 11_272_192 + attention) + head
    assert matrix_flops(found) == 2 * macs
    assert found.dtype == "bf16"
    assert found.name == "llama"
    assert found.chosen_dtype
    assert {s.name: s.default for s in found.symbols} == {"batch": 1, "seq": 128}


def test_decode_by_hand() -> None:
    found = workload_from_config(SMALL_LLAMA, phase="decode", batch=3, context=100, name="x")
    token = 8 * (11_272_192 + 2 * 16 * 64 * 100) + 1024 * 32_000
    assert matrix_flops(found) == 2 * 3 * token
    assert found.name == "x"


def test_decode_writes_one_row_and_reads_the_cache_once() -> None:
    found = workload_from_config(SMALL_LLAMA, phase="decode", batch=3, context=100)
    views = [v for _, v, _ in Evaluator(found, {}, {}, Conventions()).costs()]
    read = [t for v in views for t in v.inputs if t.role == Role.KV_CACHE]
    written = [t for v in views for t in v.outputs if t.role == Role.KV_CACHE]
    # 8 layers; keys and values; 4 heads of 64; bf16
    assert sum(t.nbytes for t in read) == 8 * 2 * 3 * 100 * 4 * 64 * 2
    assert sum(t.nbytes for t in written) == 8 * 2 * 3 * 1 * 4 * 64 * 2


@pytest.mark.parametrize(
    ("config", "gflop"),
    [
        # Full attention and the head on all of 128 tokens, as derived from the architectures.
        (SMALL_LLAMA, 32.0109),
        (GPT2, 32.2282),
    ],
)
def test_published_convention(config: dict[str, Any], gflop: float) -> None:
    found = HuggingFaceModel(config).capture("prefill", {"seq": 128}, last_logits=False)
    assert round(matrix_flops(found, causal="full") / 1e9, 4) == gflop


def test_mamba_130m_is_counted_in_full() -> None:
    """Convolution 0.0189, linear 16.4183 and scan read-out 0.0755 GMAC at 128 tokens.

    Eager PyTorch pads the convolution of width 4 on both sides and drops 3 of 131 results.
    """
    config = {
        "model_type": "mamba",
        "hidden_size": 768,
        "num_hidden_layers": 24,
        "state_size": 16,
        "vocab_size": 50280,
    }
    found = HuggingFaceModel(config).capture(None, {"seq": 128}, last_logits=False)
    dropped = 2 * 24 * 1536 * 4 * 3
    assert dropped == 884_736
    assert round((matrix_flops(found) - dropped) / 1e9, 4) == 33.0254


def test_experts_are_grouped() -> None:
    found = workload_from_config(TINY_MIXTRAL, batch=1, seq=64)
    grouped = [o for o in found.ops if o.kind == "grouped_matmul"]
    assert len(grouped) == 2 * 2  # layers × (gate and up together, down)
    assert all(o.sizes["rows"] == 64 * 2 and o.sizes["experts"] == 8 for o in grouped)
    assert any("spread evenly" in s for s in found.assumptions)


def test_an_encoder_and_an_encoder_with_decoder() -> None:
    bert = {
        "model_type": "bert",
        "hidden_size": 64,
        "num_hidden_layers": 1,
        "num_attention_heads": 4,
        "intermediate_size": 256,
        "vocab_size": 100,
        "max_position_embeddings": 32,
    }
    found = workload_from_config(bert, batch=2)
    # 32 tokens by default: no more than there are positions
    macs = 2 * (32 * (4 * 64 * 64 + 2 * 64 * 256) + 2 * 32 * 32 * 64 + 64 * 64)
    assert matrix_flops(found) == 2 * macs
    assert any("taken as BertModel" in s for s in found.assumptions)
    t5 = {"model_type": "t5", "d_model": 64, "num_layers": 1, "num_heads": 4, "d_ff": 128}
    assert {s.name for s in workload_from_config(t5, seq=8, target=4).symbols} == {
        "batch",
        "seq",
        "target",
    }


def test_decode_of_a_mixture_in_any_format() -> None:
    found = workload_from_config(
        {**TINY_MIXTRAL, "torch_dtype": "float32"}, phase="decode", batch=4, context=9
    )
    grouped = [o for o in found.ops if o.kind == "grouped_matmul"]
    assert [o.sizes["rows"] for o in grouped] == [4 * 2] * 4
    assert found.dtype == "fp32"


def test_an_encoder_with_decoder_is_both_where_no_architecture_is_named() -> None:
    bart = {
        "model_type": "bart",
        "d_model": 32,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "num_hidden_layers": 1,
        "encoder_attention_heads": 4,
        "decoder_attention_heads": 4,
        "encoder_ffn_dim": 64,
        "decoder_ffn_dim": 64,
        "vocab_size": 100,
        "max_position_embeddings": 64,
    }
    model = HuggingFaceModel(bart)
    assert model.architecture.model_class.__name__ == "BartForConditionalGeneration"
    assert model.phases == ()
    assert [(s.name, s.maximum) for s in model.symbols()] == [
        ("batch", None),
        ("seq", 64),
        ("target", 64),
    ]


@pytest.mark.parametrize(
    ("model_type", "remark"),
    [
        ("resnet", "The configuration has no image size: taken as 224 x 224 pixels."),
        ("wav2vec2", "The input is 10 seconds of audio at 16 kHz."),
    ],
)
def test_what_a_configuration_does_not_say_is_a_remark(model_type: str, remark: str) -> None:
    from transformers import CONFIG_MAPPING

    found = workload_from_config(CONFIG_MAPPING[model_type](), batch=1)
    assert remark in found.assumptions
    assert matrix_flops(found) > 1e9


def test_decode_of_a_model_with_recurrent_layers() -> None:
    """Attention in layers 1 and 3 reads the context; the states of layers 0 and 2 keep their size.

    Mamba: 2·64 channels, 8 values of state and 4 taps each.
    """
    jamba = {
        "model_type": "jamba",
        "hidden_size": 64,
        "intermediate_size": 64,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "attn_layer_period": 2,
        "attn_layer_offset": 1,
        "mamba_d_state": 8,
        "vocab_size": 100,
    }
    short, long = (
        workload_from_config(jamba, phase="decode", batch=1, context=n) for n in (8, 4096)
    )
    attended = [op.sizes["kv_len"] for op in long.ops if op.kind == "attention"]
    assert attended == [4096, 4096]
    # Only scores and sums of two layers grow: 4 heads of 16, one query
    assert matrix_flops(long) - matrix_flops(short) == 2 * 4 * (4096 - 8) * (2 * 2 * 16)
    states = {tensor.shape for tensor in long.tensors}
    assert (1, 128, 8) in states


def test_decode_in_a_window_attends_to_the_window() -> None:
    config = SMALL_LLAMA | {
        "model_type": "exaone4",
        "architectures": ["Exaone4ForCausalLM"],
        "sliding_window": 16,
        "layer_types": ["sliding_attention", "full_attention"],
        "num_hidden_layers": 2,
        "max_position_embeddings": 512,
    }
    found = workload_from_config(config, phase="decode", batch=1, context=100)
    assert sorted(op.sizes["kv_len"] for op in found.ops if op.kind == "attention") == [16, 100]


def test_decode_of_layers_that_keep_something_else_is_refused() -> None:
    from transformers import DeepseekV4Config

    with pytest.raises(CaptureError, match="layers of its own kind"):
        workload_from_config(
            DeepseekV4Config(num_hidden_layers=2), phase="decode", batch=1, context=8
        )


def test_an_image_model_and_a_configuration_object() -> None:
    from transformers import ViTConfig

    config = ViTConfig(
        hidden_size=64, num_hidden_layers=1, num_attention_heads=4, intermediate_size=128
    )
    found = workload_from_config(config, batch=2)
    patches = 14 * 14
    tokens = patches + 1
    macs = patches * 3 * 16 * 16 * 64 + tokens * (4 * 64 * 64 + 2 * 64 * 128)
    macs += 2 * tokens * tokens * 64
    pooler = 64 * 64
    assert matrix_flops(found) == 2 * 2 * (macs + pooler)


def test_sizes_that_are_given_are_fixed_and_the_others_stay_open() -> None:
    found = workload_from_config(SMALL_LLAMA, seq=128)
    assert {s.name: (s.minimum, s.maximum) for s in found.symbols} == {
        "batch": (1, None),
        "seq": (128, 128),
    }
    both = workload_from_config(SMALL_LLAMA)
    fresh = HuggingFaceModel(SMALL_LLAMA).capture("prefill", {"batch": 7, "seq": 55})
    assert bind(both, {"batch": 7, "seq": 55}).ops == fresh.ops


def stepped(limit: int, kind: str = "x") -> Capture:
    """A model whose work has a step at ``limit`` tokens, and whose op changes with the batch."""

    def capture(sizes: Mapping[str, int]) -> Workload:
        name = kind if sizes["batch"] > 1 else "x"
        op = Op(kind=name, sizes={"n": sizes["batch"] * max(sizes["seq"], limit)})
        return Workload(name="stepped", dtype="fp32", tensors=(), ops=(op,))

    return capture


SYMBOLS = (Symbol(name="batch", default=1), Symbol(name="seq", default=64))


@pytest.mark.parametrize(
    ("capture", "given", "size", "remark"),
    [
        (stepped(0), {}, "batch*seq", None),
        (stepped(0), {"seq": 10}, "10*batch", None),
        (stepped(0, "copy"), {}, "seq", "Captured at batch=1: what"),
        (stepped(100), {}, 100, "Captured at batch=1, seq=64: what"),
        (stepped(100), {"batch": 2}, 200, "Captured at seq=64: what"),
        (stepped(100), {"seq": 10}, "100*batch", None),
    ],
)
def test_as_many_sizes_stay_open_as_polynomials_describe(
    capture: Capture, given: dict[str, int], size: int | str, remark: str | None
) -> None:
    found = capture_open(capture, SYMBOLS, given)
    assert found.ops[0].sizes == {"n": size}
    assert {s.name for s in found.symbols} == {"batch", "seq"}
    assert [a.startswith(remark or "") for a in found.assumptions] == [True] * bool(remark)


# Refusals


@pytest.mark.parametrize(
    ("config", "error", "says"),
    [
        ({}, CaptureError, "has no 'model_type'; is it the config.json of a transformers model"),
        ({"model_type": 3}, CaptureError, "has no 'model_type'"),
        ({"model_type": "lama"}, UnknownNameError, r"unknown model type 'lama'; closest: .*llama"),
        (
            {"model_type": "mine", "auto_map": {"AutoModel": "evil--code.Model"}},
            CaptureError,
            r"defined by code in its own repository, which is not run",
        ),
        ({"model_type": "llama"}, CaptureError, "this llama model lacks 'hidden_size'"),
        (
            {k: v for k, v in GPT2.items() if k != "n_layer"},
            CaptureError,
            "this gpt2 model lacks 'n_layer'",
        ),
        ({**SMALL_LLAMA, "hidden_size": "big"}, CaptureError, "transformers refuses this llama"),
        ({**SMALL_LLAMA, "num_hidden_layers": 10**9}, CaptureError, "num_hidden_layers=1000000000"),
        ({**SMALL_LLAMA, "num_hidden_layers": -1}, CaptureError, "num_hidden_layers=-1"),
        (
            {**SMALL_LLAMA, "num_attention_heads": 7},
            CaptureError,
            "transformers refuses this llama",
        ),
    ],
)
def test_a_configuration_that_describes_no_known_model(
    config: dict[str, Any], error: type[GambrelError], says: str
) -> None:
    with pytest.raises(error, match=says) as caught:
        workload_from_config(config)
    assert "\n" not in str(caught.value)


def test_sizes_and_phases_that_a_model_does_not_have() -> None:
    with pytest.raises(InputError, match=r"no phase 'train'; it has phases: prefill, decode"):
        workload_from_config(SMALL_LLAMA, phase="train")
    with pytest.raises(InputError, match=r"no size 'image'; it has batch, seq"):
        workload_from_config(SMALL_LLAMA, image=224)
    with pytest.raises(
        WorkloadError, match=r"seq=1025: this model takes at least 1 and at most 1024"
    ):
        workload_from_config(GPT2, seq=1025)
    with pytest.raises(WorkloadError, match="batch=0"):
        workload_from_config(GPT2, batch=0)


def test_quantization_of_a_checkpoint_is_said_not_applied() -> None:
    config = {**SMALL_LLAMA, "quantization_config": {"quant_method": "fp8"}}
    found = workload_from_config(config, seq=8)
    assert found.dtype == "bf16"
    assert any("quantization is not applied" in s for s in found.assumptions)


def test_the_code_of_a_repository_is_never_asked_for(tmp_path: Any) -> None:
    """With auto_map beside a known type, the known class is used and nothing is imported."""
    config = {**SMALL_LLAMA, "num_hidden_layers": 1, "auto_map": {"AutoModelForCausalLM": "m.Evil"}}
    (tmp_path / "m.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nclass Evil: ...\n")
    program = (
        "import json, sys, warnings; warnings.simplefilter('ignore')\n"
        "from gambrel.capture.torch.huggingface import workload_from_config\n"
        "print(len(workload_from_config(json.loads(sys.argv[1]), seq=4).ops) > 10)"
    )
    command = [sys.executable, "-c", program, json.dumps(config)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert done.stdout == "True\n"
    assert not (tmp_path / "ran").exists()


def test_without_transformers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hf_config, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r"reading a config\.json needs torch, .* 'gambrel\[huggingface\]'"
    ):
        workload_from_config(SMALL_LLAMA)


def test_the_origin_names_library_and_class() -> None:
    import transformers

    architecture = hf_config.architecture_of(SMALL_LLAMA)
    expected = f"transformers {transformers.__version__} LlamaForCausalLM"
    assert huggingface.origin_of(architecture) == expected
