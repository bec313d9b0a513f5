"""The embedded zoo: names, phases, counts. Needs no torch."""

from __future__ import annotations

import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import pytest

import gambrel
from gambrel.analysis.evaluate import Evaluator
from gambrel.capture import zoo
from gambrel.capture.resolve import Request, resolve_model
from gambrel.errors import InputError, UnknownNameError, WorkloadError
from gambrel.llm.known import spec_of
from gambrel.ops import Conventions
from gambrel.ops.base import Engine
from gambrel.workload import Role, Workload

NAMES = [entry.name for entry in zoo.list_models()]


def matrix_flops(workload: Workload, causal: str = "half", **sizes: int) -> int:
    values = workload.resolve_symbols(sizes)
    total = 0
    for op, _, cost in Evaluator(workload, values, {}, Conventions(causal=causal)).costs():
        assert cost is not None, op
        total += op.repeat * sum(n for (e, _), n in cost.work.items() if e is Engine.MATRIX)
    return total


# Names


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("resnet50", "resnet50"),
        ("ResNet-50", "resnet50"),
        ("resnet_50", "resnet50"),
        ("RESNET 50", "resnet50"),
        ("yolo v8 n", "yolov8n"),
        ("YOLOv8n", "yolov8n"),
        ("bert base", "bert-base"),
        ("google-bert/bert-base-uncased", "bert-base"),
        ("mobilenet_v3", "mobilenet-v3-large"),
        ("ViT-B/16", "vit-b-16"),
        ("DiT-XL/2", "dit-xl-2"),
        ("wide_resnet50_2", "wide-resnet50"),
        ("sd unet", "sd15-unet"),
        ("T5", "t5-small"),
        ("Llama-3-8B", "llama-3-8b-prefill"),
        ("meta-llama/Meta-Llama-3-8B", "llama-3-8b-prefill"),
        ("llama-3-8b-decode", "llama-3-8b-decode"),
        ("mistralai/Mixtral-8x7B-v0.1", "mixtral-8x7b-prefill"),
        ("deepseek-ai/DeepSeek-V3", "deepseek-v3-prefill"),
        ("SAM 2", "sam2-tiny"),
        ("facebook/sam2.1-hiera-large", "sam2-large"),
        ("google/siglip-so400m-patch14-384", "siglip-so400m-384"),
        ("RT-DETR", "rt-detr-r50"),
        ("openai/whisper-large-v3", "whisper-large-v3"),
        ("facebook/esm2_t33_650M_UR50D", "esm2-650m"),
        ("nvidia/parakeet-ctc-1.1b", "parakeet-ctc-1.1b"),
        ("sd3.5-large-transformer", "sd3.5-large-transformer"),
    ],
)
def test_names_as_people_write_them(written: str, name: str) -> None:
    assert zoo.find(written)[0].name == name
    assert zoo.load(written).name == name


def test_the_plain_name_of_a_language_model_means_prefill_and_says_so() -> None:
    assert zoo.find("llama-3-8b")[1] == (
        "llama-3-8b-prefill: the prefill phase; choose decode with --phase."
    )
    assert zoo.find("llama-3-8b-prefill")[1] == ""
    assert zoo.find("llama-3-8b", "prefill")[1] == ""
    assert zoo.find("resnet50")[1] == ""


def test_the_phase_selects_the_entry() -> None:
    assert zoo.find("Meta-Llama-3-8B", "decode")[0].name == "llama-3-8b-decode"
    assert zoo.load("gpt2", phase="decode").name == "gpt2-decode"


def test_a_phase_that_a_model_does_not_have() -> None:
    with pytest.raises(InputError, match=r"resnet50 has no phase 'decode'; it has one forward"):
        zoo.find("resnet50", "decode")
    with pytest.raises(InputError, match=r"llama-3-8b-decode is the decode phase; the phase asked"):
        zoo.find("llama-3-8b-decode", "prefill")
    with pytest.raises(InputError, match=r"unknown phase 'train'; a model has prefill or decode"):
        zoo.find("resnet50", "train")


def test_an_unknown_name_carries_the_closest() -> None:
    way = r"Run 'gambrel models list', or give .*\.onnx file, its config\.json or --hub org/name\.$"
    with pytest.raises(UnknownNameError, match=way) as caught:
        zoo.load("resnet51")
    assert "resnet50" in caught.value.closest
    with pytest.raises(UnknownNameError, match=r"^unknown model 'zzzz'\. Run"):
        zoo.find("zzzz")


@pytest.mark.parametrize("name", ["gemma-2b", "gemma-4-e2b"])
def test_an_unknown_size_gets_its_family(name: str) -> None:
    """Wherever language models are named: not mamba-2.8b, which is only written alike."""
    for look_up in (zoo.find, spec_of):
        with pytest.raises(UnknownNameError) as caught:
            look_up(name)
        assert caught.value.closest
        assert all(near.startswith("gemma") for near in caught.value.closest)
    with pytest.raises(UnknownNameError, match=r"^unknown model 'rtmdet'\. Run"):
        zoo.find("rtmdet")


@pytest.mark.parametrize(
    "hostile", ["", "../index", "/etc/passwd", "index.json", "\0", "a" * 10_000]
)
def test_a_name_is_never_a_path(hostile: str) -> None:
    with pytest.raises(UnknownNameError):
        zoo.load(hostile)


def test_every_name_and_alias_means_its_own_entry() -> None:
    for entry in zoo.list_models():
        phase = zoo.phase_of(entry.name)
        for name in (entry.name, *entry.aliases):
            assert zoo.find(name, phase)[0].name == entry.name, name


# The files


def test_index_and_folder_agree() -> None:
    files = {p.name for p in zoo.FOLDER.iterdir()} - {zoo.INDEX}
    assert files == {zoo.file_name(n) for n in NAMES}
    assert len(NAMES) >= 40
    assert len(set(NAMES)) == len(NAMES)


def test_the_zoo_stays_small() -> None:
    sizes = {p.name: p.stat().st_size for p in zoo.FOLDER.iterdir()}
    assert sum(sizes.values()) < 3e6
    assert sizes["resnet50.json.gz"] < 15e3
    assert sizes["llama-3-70b-prefill.json.gz"] < 150e3


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_is_whole(name: str) -> None:
    summary, _ = zoo.find(name)
    workload = zoo.load(name)
    assert workload.name == name
    assert workload.symbols == summary.symbols
    assert workload.origin == summary.origin
    assert not workload.chosen_dtype
    assert workload.dtype == (
        "bf16" if summary.family == "language" and "-p" in name else workload.dtype
    )
    # Every op has a formula (asserted inside), and the index says what they add up to.
    assert matrix_flops(workload) == summary.flops


@pytest.mark.parametrize("name", NAMES)
def test_weights_hold_the_parameters(name: str) -> None:
    """Each parameter is a weight that some op reads, apart from the few that no op needs."""
    workload = zoo.load(name)
    storages: dict[int, int] = {}
    for t in workload.tensors:
        if t.role is Role.WEIGHT:
            size = product(t.shape) if t.elements is None else product((t.elements,))
            storages[t.storage] = max(size, storages.get(t.storage, 0))
    parameters = zoo.find(name)[0].parameters
    assert 0.9 * parameters <= sum(storages.values()) <= 1.001 * parameters


def product(shape: tuple[int | str, ...]) -> int:
    found = 1
    for size in shape:
        assert isinstance(size, int)  # a weight never depends on batch or sequence
        found *= size
    return found


def test_loading_needs_neither_torch_nor_numpy() -> None:
    program = (
        "import sys; from gambrel.capture import zoo; zoo.load('resnet50'); zoo.find('Llama-3-8B');"
        "print(sorted({'torch', 'numpy', 'transformers', 'rapidfuzz'} & set(sys.modules)))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n"


def test_that_the_test_above_can_fail() -> None:
    program = "import sys, numpy; print(sorted({'torch', 'numpy'} & set(sys.modules)))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout == "['numpy']\n"


# Counts


@pytest.mark.parametrize(
    ("name", "gmac"),
    [
        # As torchvision publishes them with its weights, 10⁹ multiply-accumulates.
        ("resnet18", 1.814),
        ("resnet34", 3.664),
        ("resnet50", 4.089),
        ("resnet101", 7.801),
        ("resnet152", 11.514),
        ("resnext50", 4.230),
        ("wide-resnet50", 11.398),
        ("vgg16", 15.470),
        ("alexnet", 0.714),
        ("mobilenet-v2", 0.301),
        ("mobilenet-v3-large", 0.217),
        ("mobilenet-v3-small", 0.057),
        ("efficientnet-b0", 0.386),
        ("convnext-tiny", 4.456),
        ("convnext-base", 15.355),
        ("regnet-y-400mf", 0.402),
        ("regnet-y-8gf", 8.473),
        ("densenet121", 2.834),
        ("inception-v3", 5.713),
        ("vit-b-16", 17.564),
        ("vit-l-16", 61.555),
        ("swin-t", 4.491),
        ("swin-b", 15.431),
        ("fasterrcnn-resnet50", 134.380),
    ],
)
def test_published_operations_of_vision_models(name: str, gmac: float) -> None:
    assert matrix_flops(zoo.load(name)) / 2e9 == pytest.approx(gmac, abs=0.00051)


@pytest.mark.parametrize(
    ("name", "sizes", "causal", "gflop"),
    [
        ("resnet18", {}, "half", 3.6281),
        ("resnet50", {}, "half", 8.1784),
        ("resnet50", {"batch": 64}, "half", 523.4156),  # 64 × 8.178368512
        ("vit-b-16", {}, "half", 35.1277),
        ("deit-b", {}, "half", 35.1277),
        ("bert-base", {"seq": 128}, "half", 22.3484),
        ("sd15-unet", {"latent": 32}, "half", 180.1064),
    ],
)
def test_derived_counts(name: str, sizes: dict[str, int], causal: str, gflop: float) -> None:
    assert round(matrix_flops(zoo.load(name), causal, **sizes) / 1e9, 4) == gflop


@pytest.mark.parametrize(
    ("name", "gflop"), [("yolov8n", 8.7), ("yolov8s", 28.6), ("yolov8m", 78.9), ("yolov8x", 257.8)]
)
def test_published_operations_of_yolo(name: str, gflop: float) -> None:
    assert round(matrix_flops(zoo.load(name)) / 1e9, 1) == gflop


@pytest.mark.parametrize(
    ("name", "sizes", "tflop", "digits"),
    [
        ("llama-3-8b", {}, 29.69, 2),
        ("llama-3-70b", {}, 285.9, 1),
        ("mixtral-8x7b", {}, 52.78, 2),
        ("deepseek-v3", {}, 156.7, 1),
        ("bert-base", {"seq": 512}, 0.09664, 5),
    ],
)
def test_promised_figures_of_language_models(
    name: str, sizes: dict[str, int], tflop: float, digits: int
) -> None:
    assert round(matrix_flops(zoo.load(name), **sizes) / 1e12, digits) == tflop


@pytest.mark.parametrize(
    ("name", "published", "gap"),
    [
        # arXiv 2304.08069, table 2, without the products of its attention.
        ("rt-detr-r18", 60e9, 0.03),
        ("rt-detr-r50", 136e9, 0.02),
    ],
)
def test_published_operations_of_rt_detr(name: str, published: float, gap: float) -> None:
    assert published <= matrix_flops(zoo.load(name)) <= published * (1 + gap)


@pytest.mark.parametrize(
    ("name", "millions"),
    [("tiny", 38.9), ("small", 46.0), ("base-plus", 80.8), ("large", 224.4)],
)
def test_sam_2_is_the_published_model_without_its_memory(name: str, millions: float) -> None:
    """Whole models as facebookresearch/sam2 prints them; memory takes the same in all sizes."""
    assert millions - zoo.find(f"sam2-{name}")[0].parameters / 1e6 == pytest.approx(7.5, abs=0.06)


@pytest.mark.parametrize(
    ("name", "billions"),
    [
        ("sd3.5-medium-transformer", 2.24),
        ("sd3.5-large-transformer", 8.06),
        ("wan2.1-1.3b-transformer", 1.42),
        ("wan2.1-14b-transformer", 14.29),
        ("hunyuan-video-transformer", 12.82),
        ("cogvideox-2b-transformer", 1.694),
        ("cogvideox-5b-transformer", 5.57),
        ("sam-vit-h-encoder", 0.637),
        ("parakeet-ctc-0.6b", 0.609),
        ("parakeet-ctc-1.1b", 1.063),
    ],
)
def test_published_sizes_of_larger_models(name: str, billions: float) -> None:
    assert zoo.find(name)[0].parameters / 1e9 == pytest.approx(billions, rel=0.003)


def test_sam_by_hand() -> None:
    """Four blocks of ViT-B see all 4,096 places, eight 25 windows of 196; scores know positions."""
    width, places, padded = 768, 4096, 25 * 196
    inner = places * 2 * width * 3072
    everywhere = places * 4 * width**2 + inner + 2 * places**2 * width + 2 * width * places * 64
    windows = padded * 4 * width**2 + inner + 2 * padded * 196 * width + 2 * width * padded * 14
    ends = places * width * 3 * 256 + places * width * 256 + places * 256 * 256 * 9
    assert matrix_flops(zoo.load("sam-vit-b-encoder")) == 2 * (4 * everywhere + 8 * windows + ends)


def test_dlrm_by_hand() -> None:
    """Linear layers, and 27 vectors of 128 with one another; the crosses of DCNv2."""
    bottom = 13 * 512 + 512 * 256 + 256 * 128
    top = 1024 * 1024 + 1024 * 512 + 512 * 256 + 256
    dlrm = bottom + 27 * 27 * 128 + 479 * 1024 + top
    assert matrix_flops(zoo.load("dlrm")) == 2 * dlrm
    wide = 27 * 128
    dcn = bottom + 3 * 2 * wide * 512 + wide * 1024 + top
    assert matrix_flops(zoo.load("dlrm-dcnv2")) == 2 * dcn


def test_graph_networks_by_hand() -> None:
    """Two products a layer over 2,708 nodes; messages over edges are no products."""
    assert matrix_flops(zoo.load("gcn")) == 2 * 2708 * (1433 * 16 + 16 * 7)
    assert matrix_flops(zoo.load("graphsage")) == 2 * 2708 * 2 * (1433 * 256 + 256 * 7)


def test_rwkv_7_by_hand() -> None:
    """RWKV-7 1.5B: its matrices, the ranks, 4 products of a state of 64·64 a head, the head."""
    width, layers, tokens = 2048, 24, 2048
    ranks = 2 * width * (96 + 96 + 64 + 256)
    layer = 12 * width**2 + ranks + 4 * width * 64
    macs = tokens * (layers * layer - 2 * width * 64) + width * 65_536
    assert matrix_flops(zoo.load("rwkv7-1.5b")) == 2 * macs


def test_wan_by_hand() -> None:
    """Wan 2.1 1.3B at 9 latent frames of 20x30: patches of 1x2x2 and 512 text tokens."""
    tokens, text, width, inner = 9 * 10 * 15, 512, 1536, 8960
    layer = tokens * (6 * width**2 + 2 * width * inner) + 2 * text * width**2
    layer += 2 * tokens * tokens * width + 2 * tokens * text * width
    around = tokens * 2 * 64 * width + text * (4096 * width + width**2)
    around += 256 * width + width**2 + 6 * width**2
    sizes = {"frames": 9, "height": 20, "width": 30}
    workload = zoo.load("wan2.1-1.3b-transformer")
    assert matrix_flops(workload, **sizes) == 2 * (30 * layer + around)


def test_resnet50_by_hand() -> None:
    """Multiply-accumulates by stage at 224x224: output pixels × weights of each convolution."""
    stem = 112 * 112 * 64 * 3 * 49
    total = stem + 2048 * 1000
    for width, entering, side, blocks in (
        (64, 64, 56, 3),
        (128, 256, 28, 4),
        (256, 512, 14, 6),
        (512, 1024, 7, 3),
    ):
        before = 56 if width == 64 else 2 * side  # the first 1x1 sees the larger map
        leaving = 4 * width
        total += before**2 * entering * width + side**2 * entering * leaving
        total += (blocks - 1) * side**2 * leaving * width
        total += blocks * side**2 * (9 * width * width + width * leaving)
    assert total == 4_089_184_256
    assert matrix_flops(zoo.load("resnet50")) == 2 * 4_089_184_256


def test_bert_base_by_hand() -> None:
    """12 layers of 4 projections and a 4x wide pair, two products of 512², and the pooler."""
    linear = 12 * 512 * (4 * 768 * 768 + 2 * 768 * 3072)
    assert linear == 43_486_543_872
    attention = 12 * 2 * 512 * 512 * 768
    assert attention == 4_831_838_208
    assert matrix_flops(zoo.load("bert-base")) == 2 * (43_486_543_872 + 4_831_838_208 + 768 * 768)


def test_llama_3_8b_by_hand() -> None:
    layer = 2 * 4096 * 4096 + 2 * 4096 * 1024 + 3 * 4096 * 14336
    assert layer == 218_103_808
    head = 4096 * 128_256
    pairs = 2048 * 2049 // 2
    prefill = 2048 * 32 * 218_103_808 + head + 32 * 32 * 2 * 128 * pairs
    assert matrix_flops(zoo.load("llama-3-8b")) == 2 * prefill == 29_688_401_494_016
    decode = 32 * 218_103_808 + head + 32 * 32 * 2 * 128 * 2048
    assert matrix_flops(zoo.load("llama-3-8b", "decode")) == 2 * decode == 16_083_058_688


def test_lstm_by_hand() -> None:
    """35 steps of two layers of 4 gates over input and state, then the head."""
    macs = 35 * (2 * 4 * 1500 * (1500 + 1500) + 1500 * 10_000)
    assert matrix_flops(zoo.load("lstm")) == 2 * macs == 3_570_000_000


def test_decode_reads_the_cache_once_and_writes_one_row() -> None:
    """Llama-3-8B, 2,048 tokens: 2 × 2,048 × 8 × 128 × 2 bytes a layer, and 2 rows written."""
    workload = zoo.load("llama-3-8b-decode")
    cache_read = cache_written = 0
    for op, view, _ in Evaluator(
        workload, {"batch": 1, "context": 2048}, {}, Conventions()
    ).costs():
        if op.kind == "attention":
            cache_read += sum(t.nbytes for t in view.inputs if t.role == Role.KV_CACHE)
        else:
            assert not [t for t in view.inputs if t.role == Role.KV_CACHE]
            cache_written += sum(t.nbytes for t in view.outputs if t.role == Role.KV_CACHE)
    assert cache_read == 32 * 8_388_608
    assert cache_written == 32 * 2 * 8 * 128 * 2


@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("resnet18", 11_689_512),
        ("resnet50", 25_557_032),
        ("vgg16", 138_357_544),
        ("mobilenet-v2", 3_504_872),
        ("mobilenet-v3-large", 5_483_032),
        ("efficientnet-b0", 5_288_548),
        ("densenet121", 7_978_856),
        ("densenet161", 28_681_000),
        ("densenet169", 14_149_480),
        ("densenet201", 20_013_928),
        ("vgg11", 132_863_336),
        ("convnext-tiny", 28_589_128),
        ("swin-t", 28_288_354),
        ("vit-b-16", 86_567_656),
        ("vit-l-16", 304_326_632),
        ("bert-base", 109_482_240),
        ("bert-large", 335_141_888),
        ("gpt2-prefill", 124_439_808),
        ("t5-small", 60_506_624),
        ("clip-vit-b-32", 151_277_313),
        ("sd15-unet", 859_520_964),
        ("sdxl-unet", 2_567_463_684),
        ("llama-3-8b-prefill", 8_030_261_248),
        ("llama-3-70b-decode", 70_553_706_496),
        ("mixtral-8x7b-prefill", 46_702_792_704),
        ("mamba-130m", 129_135_360),
        # By the definitions in transformers with the published configurations.
        ("siglip-base-224", 203_155_970),
        ("siglip-so400m-384", 877_960_498),
        ("siglip2-base-224", 375_187_970),
        ("whisper-large-v3", 1_543_490_560),
        ("whisper-large-v3-turbo", 808_878_080),
        ("wav2vec2-base", 94_396_320),
        ("wav2vec2-large", 315_461_792),
        ("esm2-650m", 651_043_254),
        # Table of models in arXiv 2503.14456.
        ("rwkv7-0.4b", 450_767_872),
        ("rwkv7-1.5b", 1_527_404_544),
        ("rwkv7-2.9b", 2_947_735_040),
        # 1,433·16 + 16 and 16·7 + 7; 1,433·64 + 3·64 and 64·7 + 3·7.
        ("gcn", 23_063),
        ("gat", 92_373),
    ],
)
def test_published_parameter_counts(name: str, parameters: int) -> None:
    assert zoo.find(name)[0].parameters == parameters


def test_assumptions_are_stated() -> None:
    assert any("new token" in s for s in zoo.load("llama-3-8b-decode").assumptions)
    assert any("last token" in s for s in zoo.load("llama-3-8b").assumptions)
    assert any("experts" in s for s in zoo.load("mixtral-8x7b").assumptions)
    assert any("suppression" in s for s in zoo.load("fasterrcnn-resnet50").assumptions)


def test_the_documentation_lists_every_entry() -> None:
    text = (Path(__file__).parents[2] / "docs" / "models.md").read_text(encoding="utf-8")
    assert [n for n in NAMES if f"`{n}`" not in text] == []


@pytest.mark.parametrize(
    ("name", "phase", "longest"),
    [("llama-3-8b", "decode", 131072), ("mixtral", "prefill", 32768), ("gpt2", "decode", 1024)],
)
def test_no_more_tokens_than_the_model_was_made_for(name, phase, longest):
    size = "context" if phase == "decode" else "seq"
    assert gambrel.analyze(name, "h100", phase=phase, **{size: longest}).model.symbols[size]
    with pytest.raises(WorkloadError, match=f"at most {longest}"):
        gambrel.analyze(name, "h100", phase=phase, **{size: longest + 1})


def test_3d_unet_of_mlperf_by_hand() -> None:
    """Convolutions of 27 taps, upsampling of 8, instance norms, a head of 32 x 3; 128^3 voxels."""
    widths = (32, 64, 128, 256, 320, 320)
    voxels = [(128 >> level) ** 3 for level in range(6)]
    weights = [27 * (a * b + b * b) for a, b in zip((1, *widths), widths, strict=False)]
    back = [8 * b * a for a, b in pairwise(widths)]
    joined = [27 * 3 * a * a for a in widths[:-1]]
    norms = 4 * (sum(widths) + sum(widths[:-1])) + sum(widths[:-1])
    parameters = sum(weights) + sum(back) + sum(joined) + norms + 32 * 3 + 3
    assert zoo.find("3d-unet")[0].parameters == parameters
    macs = sum(w * n for w, n in zip(weights, voxels, strict=True)) + 32 * 3 * voxels[0]
    macs += sum(w * n for w, n in zip(joined, voxels, strict=False))
    macs += sum(w * n for w, n in zip(back, voxels[1:], strict=True))
    assert matrix_flops(zoo.load("3d-unet")) == 2 * macs


@pytest.mark.parametrize("name", ["mamba-130m", "mamba-2.8b", "mamba2-130m", "mamba2-2.7b"])
def test_state_spaces_have_both_phases(name: str) -> None:
    """Captured reading the prompt; a token is from the configuration of the same model."""
    prompt = resolve_model(name, Request(phase="prefill")).workload
    assert prompt == resolve_model(name).workload == zoo.load(name)
    token = gambrel.analyze(name, "a100", phase="decode")
    assert token.model.parameters == zoo.find(name)[0].parameters
    # Two operations for each parameter of a product, and the recurrence.
    assert token.flops == pytest.approx(2 * token.model.parameters, rel=0.08)
