"""Models by name: spellings, and published numbers of parameters."""

from __future__ import annotations

import pytest

from gambrel.analysis.evaluate import Evaluator
from gambrel.analysis.footprint import parameter_count
from gambrel.capture import zoo
from gambrel.errors import FileFormatError, UnknownNameError
from gambrel.llm.build import build
from gambrel.llm.known import config_of, names, spec_of, weights_of
from gambrel.llm.step import decode
from gambrel.ops import Conventions

#: Billions, from the model cards.
PUBLISHED = {
    "llama-3.1-8b": 8.03,
    "llama-3.1-70b": 70.55,
    "llama-3.1-405b": 405.85,
    "llama-3.2-1b": 1.2358,
    "phi-4": 14.6595,
    "gpt2": 0.12444,
    "mixtral-8x7b": 46.70,
    "qwen3-8b": 8.19,
    "qwen3-32b": 32.76,
    "qwen3-30b-a3b": 30.53,
    "qwen3-235b-a22b": 235.09,
    "gpt-oss-20b": 20.91,
    "gpt-oss-120b": 116.83,
    "minimax-m2": 228.69,
    "deepseek-v3": 671.03,
    "deepseek-v3.2": 671.88,
    "glm-5": 743.9,
    "qwen3-next-80b-a3b": 79.67,
    "qwen3.5-27b": 26.90,
    "qwen3.5-35b-a3b": 34.66,
    "kimi-k2": 1026.41,
}

#: Exactly, from the headers of the published checkpoints.
EXACT = {
    "mamba-130m": 129_135_360,
    "mamba-2.8b": 2_768_345_600,
    "mamba2-130m": 128_989_632,
    "mamba2-2.7b": 2_702_599_680,
    "llama-2-7b": 6_738_415_616,
    "llama-2-13b": 13_015_864_320,
    "llama-2-70b": 68_976_648_192,
    "llama-3.2-3b": 3_212_749_824,
    "tinyllama-1.1b": 1_100_048_384,
    "mistral-7b": 7_248_023_552,
    "mistral-nemo-12b": 12_247_782_400,
    "mistral-small-24b": 23_572_403_200,
    "mistral-large-123b": 122_610_069_504,
    "mixtral-8x22b": 140_620_634_112,
    "qwen2.5-0.5b": 494_032_768,
    "qwen2.5-1.5b": 1_543_714_304,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-7b": 7_615_616_512,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen2.5-72b": 72_706_203_648,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-14b": 14_768_307_200,
    "gemma-2-2b": 2_614_341_888,
    "gemma-2-9b": 9_241_705_984,
    "gemma-2-27b": 27_227_128_320,
    "gemma-3-1b": 999_885_952,
    "gemma-3-4b": 3_880_263_168,
    "gemma-3-12b": 11_766_034_176,
    "gemma-3-27b": 27_009_346_304,
    "phi-3-mini": 3_821_079_552,
    "phi-3-medium": 13_960_238_080,
    "phi-4-mini": 3_836_021_760,
    "codellama-7b": 6_738_546_688,
    "yi-34b": 34_388_917_248,
    "olmo-2-7b": 7_298_617_344,
    "falcon-7b": 6_921_720_704,  # the head is the token table
    "gpt-j-6b": 6_050_882_784,  # 28 layers of 201,355,264, two tables of 50,400 tokens
    "smollm2-1.7b": 1_711_376_384,
    "deepseek-v2-lite": 15_706_484_224,
    "deepseek-v2": 235_741_434_880,
    "llama-4-scout": 108_641_793_536 - 871_932_416,  # less the vision tower, see below
    "llama-4-maverick": 401_583_781_376 - 871_932_416,
    "nemotron-nano-9b-v2": 8_888_227_328,
    "nemotron-3-nano-30b-a3b": 31_577_937_344,
    # As the definition in transformers 5.23 counts; the model cards say 8B, 47B, 56B and 12B.
    "nemotron-h-8b": 8_100_852_736,
    "nemotron-h-47b": 46_791_554_816,
    "nemotron-h-56b": 56_324_350_464,
    "nemotron-nano-12b-v2": 12_310_001_152,
}

#: The vision part of both Llama 4 checkpoints.
LLAMA_4_VISION = {
    "model_type": "llama4_vision_model",
    "hidden_size": 1408,
    "intermediate_size": 5632,
    "num_hidden_layers": 34,
    "num_attention_heads": 16,
    "image_size": 336,
    "patch_size": 14,
    "pixel_shuffle_ratio": 0.5,
    "projector_input_dim": 4096,
    "projector_output_dim": 4096,
}

#: Names under which both the captured zoo and the configurations know a model.
SERVED = (
    *("llama-3-8b", "llama-3-70b", "llama-3.1-405b", "llama-3.2-1b"),
    *("mixtral-8x7b", "qwen3-8b", "phi-4", "gpt2", "deepseek-v3"),
)


def test_every_name_has_a_published_number():
    assert set(names()) == {*PUBLISHED, *EXACT}


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_parameters(name):
    workload = build(spec_of(name), decode(1, 100), "bf16")
    count = parameter_count(workload, Evaluator(workload, {}, {}, Conventions()))
    assert count / 1e9 == pytest.approx(PUBLISHED[name], rel=1e-3)


@pytest.mark.parametrize("name", EXACT)
def test_parameters_of_checkpoints(name):
    workload = build(spec_of(name), decode(1, 100), "bf16")
    assert parameter_count(workload, Evaluator(workload, {}, {}, Conventions())) == EXACT[name]


@pytest.mark.parametrize(
    ("name", "published"),
    [("llama-4-scout", 108_641_793_536), ("llama-4-maverick", 401_583_781_376)],
)
def test_the_whole_llama_4_checkpoint(name, published):
    text = config_of(name)[1]
    whole = {"model_type": "llama4", "text_config": text, "vision_config": LLAMA_4_VISION}
    workload = build(spec_of(whole), decode(1, 100), "bf16")
    assert parameter_count(workload, Evaluator(workload, {}, {}, Conventions())) == published


def test_every_language_model_of_the_zoo_can_be_served():
    served = {zoo.find(n)[0].name for n in SERVED}
    assert {e.name for e in zoo.list_models() if e.name.endswith("-prefill")} == served
    for name in SERVED:
        workload = build(spec_of(name), decode(1, 100), "bf16")
        count = parameter_count(workload, Evaluator(workload, {}, {}, Conventions()))
        assert count == zoo.find(name)[0].parameters


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", "llama-3.1-8b"),
        ("nvidia/Llama-3.1-70B-Instruct-FP8", "llama-3.1-70b"),
        ("Qwen/Qwen3-235B-A22B-Instruct-2507-FP8", "qwen3-235b-a22b"),
        ("openai/gpt-oss-120b", "gpt-oss-120b"),
        ("MiniMaxAI/MiniMax-M2.5", "minimax-m2"),
        ("deepseek-ai/DeepSeek-R1", "deepseek-v3"),
        ("meta-llama/Llama-4-Scout-17B-16E-Instruct", "llama-4-scout"),
        ("nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16", "nemotron-3-nano-30b-a3b"),
        ("nvidia/Nemotron-H-8B-Base-8K", "nemotron-h-8b"),
    ],
)
def test_spellings(spelling, name):
    assert spec_of(spelling).name == name


def test_unknown_names_and_broken_files(tmp_path):
    with pytest.raises(UnknownNameError, match=r"closest: .*qwen3"):
        spec_of("qwen3-9b")
    with pytest.raises(FileFormatError, match="No such file"):
        spec_of(tmp_path / "config.json")
    broken = tmp_path / "config.json"
    for text, sentence in (
        ("{", "no JSON"),
        ("[]", "is a JSON object"),
        ("[" * 99999, "no JSON"),
    ):
        broken.write_text(text)
        with pytest.raises(FileFormatError, match=sentence):
            spec_of(broken)


@pytest.mark.parametrize("name", names())
def test_published_weights_are_of_the_same_architecture(name):
    repository = weights_of(name)
    assert repository.count("/") == 1
    assert config_of(repository) == config_of(name)


def test_names_of_one_architecture_have_weights_of_their_own():
    assert weights_of("llama-3.3-70b") == "meta-llama/Llama-3.3-70B-Instruct"
    assert weights_of("llama-3.1-70b") == "meta-llama/Llama-3.1-70B-Instruct"
    assert weights_of("deepseek-r1") == "deepseek-ai/DeepSeek-R1"
    # What names a repository already is no built-in name.
    assert weights_of("someone/llama-3.1-8b-tuned") is None
