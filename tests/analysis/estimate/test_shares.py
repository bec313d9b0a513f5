"""Shares of the roofs: the arithmetic by hand, and what may never happen."""

from __future__ import annotations

import csv
import importlib.util
import json
import sys
from pathlib import Path

import msgspec
import pytest

import gambrel
from gambrel.analysis.estimate import packaged
from gambrel.analysis.estimate.shares import filled, powered, spread
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench
from gambrel.capture import zoo
from gambrel.device.catalog import load
from gambrel.device.onchip import on_chip
from gambrel.llm.build import build
from gambrel.llm.known import spec_of
from gambrel.llm.step import prefill
from gambrel.runtimes import matches

ROOT = Path(__file__).parents[3]
SCRIPTS, DATA = ROOT / "scripts", ROOT / "benchmarks/data/cpu"
CONFIG = {
    "model_type": "llama",
    "hidden_size": 1024,
    "intermediate_size": 4096,
    "num_hidden_layers": 2,
    "num_attention_heads": 8,
    "num_key_value_heads": 8,
    "vocab_size": 1000,
    "max_position_embeddings": 4096,
    "tie_word_embeddings": False,
    "torch_dtype": "float16",
}


@pytest.fixture(scope="module")
def config(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "config.json"
    path.write_text(json.dumps(CONFIG))
    return str(path)


def decode(config, device, precision, **more):
    return gambrel.analyze(
        config, device, phase="decode", precision=precision, sizes={"context": 256}, **more
    )


def shares(name):
    return next(s for s in packaged().shares if name in s.match and s.runtime == "llama-cpp")


def test_a_16_bit_matrix_takes_its_bytes_at_a_share_of_the_bandwidth(config):
    apple = shares("apple")
    one = next(op for op in decode(config, "m2-ultra", "fp16").ops if "down_proj" in op.name)
    # 1024 x 4096 weights, 4096 numbers in, 1024 out, 2 bytes each; 800 GB/s.
    moved = 2 * (1024 * 4096 + 4096 + 1024)
    by_hand = apple.start_s + moved / (apple.memory * 800e9)
    assert float(one.measures.expected_time_s) / one.count == pytest.approx(by_hand, rel=1e-6)


def test_weights_of_four_bits_are_unpacked_first(config):
    apple = shares("apple")
    one = next(op for op in decode(config, "m2-ultra", "q4_0").ops if "down_proj" in op.name)
    # 27.2 TFLOP/s are 13.6e12 lane cycles per second.
    unpacked = apple.unpack * 1024 * 4096 / 13.6e12
    streamed = (4.5 / 8 * 1024 * 4096 + 2 * (4096 + 1024)) / (apple.memory * 800e9)
    assert unpacked > streamed
    by_hand = apple.start_s + unpacked
    assert float(one.measures.expected_time_s) / one.count == pytest.approx(by_hand, rel=1e-6)


def test_without_a_compute_roof_prompts_have_no_expected_time(config):
    bare = msgspec.structs.replace(load("m4"), ceilings=())
    prompt = gambrel.analyze(config, bare, phase="prefill", precision="q4_0", sizes={"seq": 512})
    assert prompt.expected_time_s is None
    assert decode(config, bare, "q4_0").expected_time_s is not None


@pytest.mark.parametrize("device", ["m2-ultra", "raspberry-pi-5", "rtx-4090"])
@pytest.mark.parametrize("precision", ["fp16", "q8_0", "q4_k_m"])
def test_no_expected_time_is_below_the_limits(config, device, precision):
    found = decode(config, device, precision, runtime="llama-cpp")
    if found.sol_time_s is None:  # all of it may stay on the chip, as far as its maker says
        assert on_chip(load(device)).assumed
    least = found.sol_time_s or 0.0
    assert found.expected_time_s >= found.roofline_time_s >= least
    assert found.expected_time_s.low >= least


def test_other_runtimes_borrow_nothing(config):
    assert decode(config, "m2-ultra", "fp16", runtime="torch-compile").expected_time_s is None
    assert decode(config, "arc-b580", "fp16", runtime="torch-compile").expected_time_s is None


def test_pytorch_on_apple_has_a_share_of_its_own_in_convolutions():
    own = next(s for s in packaged().shares if (s.runtime, s.match) == ("pytorch", ("apple",)))
    assert own.convolution is not None
    assert own.convolution < own.compute
    product = gambrel.analyze("matmul:m=4096,n=4096,k=4096", "m3-max", runtime="pytorch")
    seconds = 2 * 4096**3 / (own.compute * 14.2e12)
    assert product.expected_time_s.value == pytest.approx(own.start_s + seconds)
    assert product.expected_time_s.confidence == "low"
    image = gambrel.analyze(
        "conv:n=8,h=64,w=64,c=512,k=512,kernel=3,pad=1", "m3-max", runtime="pytorch"
    )
    flops = 2 * 8 * 64**2 * 512**2 * 9
    seconds = flops / (own.convolution * 14.2e12)
    assert image.expected_time_s.value == pytest.approx(own.start_s + seconds, rel=0.03)


def test_mixtures_that_quantizers_write_lie_between_their_parts(config):
    times = [decode(config, "m2-ultra", p).roofline_time_s for p in ("q4_k", "q4_k_m", "q6_k")]
    assert times == sorted(times)
    assert len(set(times)) == 3


#: Of a Xeon 8480+, halfway between its base clock and that of all cores.
HELD_HZ = (2.0e9 * 3.0e9) ** 0.5


def test_a_processor_takes_shares_of_its_vector_units_and_of_amx():
    """BERT in fp32 and bf16 on 56 cores: products alone, each at its own share."""
    own = next(s for s in packaged().shares if s.runtime == "pytorch" and "xeon" in s.match)
    for precision, peak, share in (
        ("fp32", 56 * 64 * HELD_HZ, own.compute),
        ("bf16", 56 * 1024 * HELD_HZ, own.matrix),
    ):
        found = gambrel.analyze("bert-base", "xeon-8480+", batch_size=64, precision=precision)
        one = max((op for op in found.ops if op.kind == "matmul"), key=lambda op: op.measures.flops)
        each = float(one.measures.expected_time_s) / one.count
        work = one.measures.flops / one.count / (share * peak)
        assert each >= own.start_s + 0.99 * work
        if precision == "fp32":
            assert each == pytest.approx(own.start_s + work, rel=0.02)


def test_a_format_that_was_not_measured_on_amx_has_no_time():
    found = gambrel.analyze("resnet50", "xeon-8480+", runtime="onnxruntime", precision="bf16")
    assert found.expected_time_s is None
    found = gambrel.analyze("resnet50", "xeon-8480+", runtime="onnxruntime", precision="fp32")
    assert found.expected_time_s.confidence == "low"


def test_other_processors_have_a_wider_range():
    def width(device):
        one = gambrel.analyze("resnet50", device, precision="fp32").expected_time_s
        return one.high / one.low

    assert width("graviton4") > width("epyc-9654")


MIXTURE = CONFIG | {
    "model_type": "mixtral",
    "num_local_experts": 8,
    "num_experts_per_tok": 2,
    "num_key_value_heads": 8,
}


def test_a_laptop_holds_the_clock_that_its_power_allows():
    """Its cores at their highest clocks, by the energy that OpenVINO's fit has of its process."""
    device = load("core-ultra-7-155h")
    openvino = next(e for e in packaged().engines if e.runtime == "openvino" and "xeon" in e.match)
    energy = openvino.flop_energy["Meteor Lake"]
    drawn = energy * sum(
        n * rate * hz * (hz / 1e9) ** 2
        for n, rate, hz in ((6, 32, 4.8e9), (8, 16, 3.8e9), (2, 16, 2.5e9))
    )
    own = next(s for s in packaged().shares if s.runtime == "pytorch" and "core-i" in s.match)
    assert powered(own, device, packaged()).clock == pytest.approx((28 / drawn) ** (1 / 3))
    assert powered(own, load("core-i9-12900ks"), packaged()).clock == 0.9  # 150 W are enough
    assert powered(own, load("ryzen-9-7950x"), packaged()).clock == 0.0  # its process is unknown


def test_what_cores_move_follows_their_peak():
    """A sum of two large vectors on a laptop: bytes over a share of what its vector units do."""
    import torch

    class Add(torch.nn.Module):
        def forward(self, x, y):
            return x + y

    n, device = 1 << 24, load("core-ultra-7-155h")
    found = gambrel.analyze(
        Add(), device, inputs=(torch.zeros(n), torch.zeros(n)), runtime="pytorch"
    )
    own = next(s for s in packaged().shares if s.runtime == "pytorch" and "core-i" in s.match)
    peak = device.ceiling("vector", "fp32").flop_per_s * powered(own, device, packaged()).clock
    moved = 12 * n / (own.cached * peak)
    assert moved > 12 * n / device.memory[0].byte_per_s  # slower than the memory
    assert found.expected_time_s.value == pytest.approx(own.start_s + moved)


@pytest.mark.parametrize("runtime", ["pytorch", "onnxruntime"])
def test_published_networks_on_a_laptop_lie_inside_the_range(runtime):
    rows = [r for r in published("desktops.csv") if r["runtime"] == runtime]
    rows = [r for r in rows if r["device"] == "core-ultra-7-155h" and "/" not in r["model"]]
    for r in rows:
        found = gambrel.analyze(r["model"], r["device"], runtime=runtime, batch_size=1)
        assert found.expected_time_s.low < float(r["ms"]) * 1e-3 < found.expected_time_s.high


def test_the_fit_computes_what_the_program_computes():
    """Terms that scripts/cpu_work.py reads off one at a time, put together again."""
    spec = importlib.util.spec_from_file_location("cpu_work", SCRIPTS / "cpu_work.py")
    cpu_work = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = cpu_work
    spec.loader.exec_module(cpu_work)
    device, model = load("core-ultra-7-155h"), zoo.load("resnet18")
    bench = Workbench(model, model.resolve_symbols({}), Settings().conventions)
    for runtime in ("pytorch", "onnxruntime"):
        own = next(s for s in packaged().shares if s.runtime == runtime and "core-i" in s.match)
        work = cpu_work.work_of(bench, device, runtime, "fp32", by_power=True)
        named = {"memory": own.memory, "cached": own.cached, "compute": own.compute}
        seconds = work.seconds(named | {"matrix": 1.0, "start_s": own.start_s})
        found = gambrel.analyze(model, device, runtime=runtime)
        assert found.expected_time_s.value == pytest.approx(seconds)


def published(name):
    with (DATA / name).open(encoding="utf-8") as stream:
        return list(csv.DictReader(stream))


def test_of_a_mixture_only_the_experts_that_are_read_are_unpacked(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(MIXTURE))
    apple = shares("apple")
    found = decode(str(path), "m2-ultra", "q4_0").ops
    down = [op for op in found if op.kind == "grouped_matmul"][-1]
    # Two of eight experts of 4096 x 1024 weights; 27.2 TFLOP/s are 13.6e12 lane cycles per second.
    read = down.measures.read_bytes / down.count
    active = min(8, read / (4.5 / 8 * 4096 * 1024)) * 4096 * 1024
    assert active == pytest.approx(2 * 4096 * 1024, rel=0.01)
    by_hand = apple.start_s + apple.unpack * active / 13.6e12
    assert float(down.measures.expected_time_s) / down.count == pytest.approx(by_hand, rel=1e-3)


def prompt(config, device, precision):
    return gambrel.analyze(
        config, device, phase="prefill", precision=precision, sizes={"seq": 512},
        runtime="llama-cpp",
    )  # fmt: skip


def down_of(found):
    one = next(op for op in found.ops if "down_proj" in op.name)
    return one.measures.flops / one.count, float(one.measures.expected_time_s) / one.count


def test_blocks_are_multiplied_as_int8_on_nvidia(config):
    card = shares("sm_89")
    _, seconds = down_of(prompt(config, "rtx-4090", "q4_0"))
    products = 2 * 512 * 1024 * 4096
    peak = load("rtx-4090").ceiling("matrix", "int8").flop_per_s
    assert seconds == pytest.approx(
        card.start_s + products / (card.compute_stored * peak), rel=0.01
    )


def test_products_of_16_bits_may_be_summed_in_16_bits(config):
    card, device = shares("sm_89"), load("rtx-4090")
    peak = device.ceiling("matrix", "fp16", "fp16").flop_per_s
    assert peak == pytest.approx(2 * device.ceiling("matrix", "fp16").flop_per_s, rel=1e-3)
    _, seconds = down_of(prompt(config, "rtx-4090", "fp16"))
    products = 2 * 512 * 1024 * 4096
    assert seconds == pytest.approx(card.start_s + products / (card.compute * peak), rel=0.01)


def test_a_roofline_without_an_int8_roof_stays_at_16_bits(config):
    """The SME of an M4 has int8; an M2 Ultra's GPU has none."""
    assert load("m2-ultra").ceiling("matrix", "int8") is None
    assert "int8" not in str(prompt(config, "m2-ultra", "q4_0").ops[2].measures)


def test_prompts_have_a_range_of_their_own(config):
    card = shares("sm_89")
    assert card.prompt is not None
    for found, ends in (
        (prompt(config, "rtx-3090", "q4_0"), card.prompt),
        (decode(config, "rtx-3090", "q4_0", runtime="llama-cpp"), (card.low, card.high)),
    ):
        one = next(op for op in found.ops if "down_proj" in op.name).measures.expected_time_s
        assert one.high / one.value == pytest.approx(ends[1], rel=1e-6)


@pytest.mark.parametrize(
    ("device", "pattern"),
    [
        ("rtx-2080-ti", "tu102"),
        ("t4", "tu104"),
        ("l4", "sm_89"),
        ("rtx-5090", "sm_120"),
        ("a100-sxm4-80gb", "sm_80"),
        ("h100-sxm5-80gb", "sm_90"),
        ("b200", "sm_10"),
        ("gb10", "sm_121"),
        ("jetson-agx-orin-64gb", "sm_87"),
        ("p40-24gb", "sm_61"),
        ("rx-6800-xt", "gfx103"),
        ("rx-7900-xtx", "gfx110"),
        ("ryzen-ai-max-395", "gfx115"),
        ("rx-9070-xt", "gfx120"),
        ("arc-b580", "battlemage"),
        ("v100-sxm2-16gb", "sm_70"),
        ("gtx-1080-ti", "sm_61"),
        ("mi60", "gfx906"),
        ("mi100", "gfx908"),
        ("mi300x", "gfx942"),
        ("arc-a750", "alchemist"),
    ],
)
def test_a_class_of_devices_has_constants_of_its_own(config, device, pattern):
    found = decode(config, device, "q4_k_m", runtime="llama-cpp").expected_time_s
    own = shares(pattern)
    assert own.runtime == "llama-cpp"
    assert found.confidence == own.confidence
    assert own.why in found.reason


@pytest.mark.parametrize("device", ["p100-pcie-16gb", "mi210", "arc-140v", "gtx-1660-ti"])
def test_nothing_is_carried_to_other_classes(config, device):
    assert decode(config, device, "q4_k_m", runtime="llama-cpp").expected_time_s is None


def test_weights_of_few_bits_take_lane_cycles_of_their_own(config):
    """A P40 puts q2_k together from parts: 2 FLOP of the vector peak per cycle and weight."""
    card = shares("sm_61")
    assert card.unpack_few is not None
    assert card.unpack_few > 1.5 * card.unpack
    lanes = load("p40-24gb").ceiling("vector", "fp32").flop_per_s
    _, few = down_of(decode(config, "p40-24gb", "q2_k", runtime="llama-cpp"))
    cycles = (few - card.start_s) * lanes / (2 * 1024 * 4096)
    assert cycles == pytest.approx(card.unpack_few, rel=1e-3)
    _, four = down_of(decode(config, "p40-24gb", "q4_0", runtime="llama-cpp"))
    assert four < few


def test_volta_multiplies_blocks_in_16_bits(config):
    """Its tensor cores take no whole numbers, which a T4's do."""
    how = {"phase": "prefill", "precision": "q4_0", "sizes": {"seq": 512}}
    for device, whole in (("v100-sxm2-32gb", False), ("t4", True)):
        found = gambrel.analyze(config, device, runtime="llama-cpp", **how)
        one = next(op for op in found.ops if "down_proj" in op.name)
        assert ("int8" in {work.dtype for work in one.measures.work}) == whole


def known(device, runtime):
    return next(
        s for s in packaged().shares if s.runtime == runtime and matches(s.match, load(device))
    )


def test_attention_of_a_gaudi_has_shares_of_its_own(config):
    gaudi = known("gaudi-3", "optimum-habana")
    assert gaudi.attention is not None
    found = decode(config, "gaudi-3", "bf16", batch_size=64)
    one = next(op for op in found.ops if op.kind == "attention")
    streamed = one.measures.traffic_bytes / one.count / (gaudi.attention * 3.67e12)
    by_hand = gaudi.start_s + streamed
    assert float(one.measures.expected_time_s) / one.count == pytest.approx(by_hand, rel=1e-3)


def test_a_run_on_neuron_costs_a_fixed_time_besides_its_ops():
    neuron = known("inferentia2", "neuron")
    found = gambrel.analyze("resnet50", "inferentia2")
    ops = [op.measures.expected_time_s for op in found.ops]
    total = found.expected_time_s
    assert float(total) == pytest.approx(sum(map(float, ops)) + neuron.step_s, rel=1e-6)
    assert total.low == pytest.approx(neuron.low * float(total), rel=0.05)
    assert total.high == pytest.approx(neuron.high * float(total), rel=1e-6)


def test_a_network_runs_on_one_neuroncore():
    """Two inputs take as long as one, but for weights that pass the memory twice."""
    one, two, four = (
        float(gambrel.analyze("bert-base", "inferentia2", batch_size=n, seq=512).expected_time_s)
        for n in (1, 2, 4)
    )
    assert one < two < 1.1 * one
    assert 1.6 * two < four < 2 * two


#: p95 in ms of BERT-base, one request at a time (philschmid/aws-neuron-samples). The precision is
#: not told: the compiler casts nothing unless asked.
@pytest.mark.parametrize(("seq", "ms"), [(128, 2.4), (512, 10.7)])
def test_a_published_bert_on_inferentia2_is_in_the_range(seq, ms):
    found = gambrel.analyze("bert-base", "inferentia2", precision="fp32", seq=seq).expected_time_s
    assert found.low < ms / 1e3 < found.high
    assert float(found) == pytest.approx(ms / 1e3, rel=0.15)


@pytest.mark.parametrize(
    ("model", "device"),
    [
        ("llama-2-7b", "tpu-v5e"),
        ("llama-2-7b", "tpu-v5p"),
        ("llama-2-7b", "tpu-v6e"),
        ("llama-2-7b", "gaudi-2"),
        ("llama-2-7b", "trainium2"),
        ("llama-2-7b", "wormhole-n300"),
        ("llama-2-7b", "blackhole-p150"),
        ("resnet50", "trainium"),
        ("resnet50", "wormhole-n150"),
        ("resnet50", "tpu-v6e"),
    ],
)
def test_accelerators_with_rows_of_their_class_have_expected_times(model, device):
    found = gambrel.analyze(model, device)
    assert found.expected_time_s.confidence == "low"
    assert found.sol_time_s < found.expected_time_s.low < float(found.expected_time_s)


@pytest.mark.parametrize(
    ("model", "device"),
    [("resnet50", "gaudi-3"), ("llama-2-7b", "groq-lpu"), ("resnet50", "inferentia"),
     ("llama-2-7b", "ascend-910b")],
)  # fmt: skip
def test_classes_without_rows_have_none(model, device):
    assert gambrel.analyze(model, device).expected_time_s is None


def test_chips_of_another_generation_have_a_wider_range():
    own, other = (known(d, "nxd-inference") for d in ("trainium", "trainium2"))
    assert other.memory == own.memory
    assert other.low < own.low
    assert other.high > own.high


def test_a_serving_plan_is_a_view_of_the_same_estimate():
    plan = gambrel.serve_plan(
        "llama-3.1-8b", "tpu-v6e", input=1024, output=256, concurrency=8, max_devices=1
    )
    tpot = plan.best[0].tpot
    assert tpot.confidence == "low"
    alone = gambrel.analyze(
        "llama-3.1-8b", "tpu-v6e", phase="decode", batch_size=8, sizes={"context": 1152}
    ).expected_time_s
    assert tpot.value > 0.95 * float(alone)
    assert tpot.value < 1.3 * float(alone)


@pytest.mark.parametrize("precision", ["w4a16", "w8a16", "q4_0"])
def test_llama_cpp_multiplies_whole_numbers_and_blocks_as_int8(config, precision):
    found = prompt(config, "rtx-4090", precision)
    _, seconds = down_of(found)
    _, blocks = down_of(prompt(config, "rtx-4090", "q4_0"))
    assert seconds == pytest.approx(blocks, rel=0.01)
    # The limit takes the faster products too: no runtime may be faster than it.
    assert found.sol_time_s < found.roofline_time_s


def test_on_apple_each_query_head_reads_the_cache(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"num_key_value_heads": 2}))
    apple = shares("apple")
    assert apple.by_head
    assert apple.attention is not None
    found = decode(str(path), "m2-ultra", "fp16")
    one = next(op for op in found.ops if op.kind == "attention")
    read = 4 * one.measures.traffic_bytes / one.count  # 8 query heads, 2 of keys and values
    by_hand = apple.start_s + read / (apple.attention * 800e9)
    assert float(one.measures.expected_time_s) / one.count == pytest.approx(by_hand, rel=1e-6)


def test_on_a_jetson_a_few_rows_take_as_long_as_a_tile_of_them(config):
    orin = known("jetson-agx-orin-64gb", "tensorrt-edge-llm")
    peak = load("jetson-agx-orin-64gb").ceiling("matrix", "bf16").flop_per_s
    tile = 2 * orin.tile * 1024 * 4096 / (orin.compute_stored * peak)

    def down(batch):
        found = decode(config, "jetson-agx-orin-64gb", "w4a16", batch_size=batch)
        assert found.runtime == "tensorrt-edge-llm"
        one = next(op for op in found.ops if "down_proj" in op.name)
        return float(one.measures.expected_time_s) / one.count - orin.start_s

    assert down(2) == down(orin.tile) == pytest.approx(tile)
    assert down(orin.tile + 1) == pytest.approx(2 * tile)
    assert down(1) < tile / 2


def test_16_bit_prompts_on_a_jetson_have_no_time_under_a_runtime_timed_in_4_bits(config):
    asked = {"device": "jetson-agx-orin-64gb", "runtime": "tensorrt-edge-llm"}
    assert decode(config, precision="bf16", **asked).expected_time_s is not None
    found = gambrel.analyze(
        config, asked["device"], phase="prefill", precision="bf16", seq=512,
        runtime=asked["runtime"],
    )  # fmt: skip
    assert found.expected_time_s is None


def test_other_integrated_gpus_of_the_class_have_a_wider_range(config):
    own, other = (
        decode(config, device, "w4a16").expected_time_s for device in ("arc-165h", "arc-155h")
    )
    assert other.high / other.value > own.high / own.value
    assert "none was measured on this one" in other.reason


def test_a_checkpoint_of_mlx_takes_the_time_of_its_format(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(CONFIG | {"quantization": {"group_size": 64, "bits": 4}}))
    packed = "w4a16,block=32,embeddings=int4,head=int4"
    own, asked, plain = (
        decode(str(path), "m4-max", precision, runtime="mlx")
        for precision in (None, packed, "bf16")
    )
    assert own.expected_time_s.value == asked.expected_time_s.value < plain.expected_time_s.value
    head, small = (next(op for op in a.ops if op.name == "lm_head") for a in (plain, own))
    ratio = float(small.measures.roofline_time_s) / float(head.measures.roofline_time_s)
    assert ratio == pytest.approx(4.5 / 16, rel=0.01)


def test_kernels_of_an_op_start_one_after_another():
    """Under MLX a choice of experts is four kernels, a product of experts with a bias six."""
    found = decode("gpt-oss-20b", "m4-max", "w4a16,block=32", runtime="mlx")
    start = next(s for s in packaged().shares if s.runtime == "mlx").start_s
    ops = {op.name: op for op in found.ops}
    topk = next(op for name, op in ops.items() if name.endswith("topk"))
    assert topk.measures.expected_time_s.launches_s == pytest.approx(
        4 * start * topk.count, rel=1e-6
    )
    experts = next(op for name, op in ops.items() if name.endswith("experts.down_proj"))
    assert experts.measures.expected_time_s.launches_s == pytest.approx(6 * start * experts.count)


def test_the_last_tile_of_each_expert_is_half_full():
    spec = spec_of("qwen3-30b-a3b")
    bench = Workbench(build(spec, prefill(1, 512), "bf16"), {}, Settings().conventions)
    machine = Machine(load("m4-max"), Settings(runtime="mlx"))
    chosen = machine.chosen(bench.workload, Settings(runtime="mlx"))
    items = bench.table(chosen.precision, machine.plan(chosen.runtime.runtime)).items
    op = next(item.view for item in items if item.view.kind == "grouped_matmul")
    # 512 tokens x 8 of 128 experts are 32 rows each, of which a tile of 32 adds half.
    assert filled(op, 1, 32) == 1.5
    assert filled(op, 64) == 1


@pytest.mark.parametrize(
    ("device", "precision", "runtime"),
    [
        ("rtx-4090", "w4a16", "llama-cpp"),
        ("jetson-agx-thor-t5000", "w4a16", "tensorrt-edge-llm"),
        ("jetson-agx-thor-t5000", "nvfp4", "tensorrt-edge-llm"),
        ("jetson-agx-orin-64gb", "q4_k_m", "llama-cpp"),
        ("arc-140v", "w4a16", "openvino-genai"),
        ("arc-140v", "q4_k_m", "llama-cpp"),
        ("arc-165h", "bf16", "openvino-genai"),
        ("a100-sxm4-80gb", "w4a16", "vllm"),
        ("rtx-4090", "bf16", "pytorch"),
    ],
)
def test_the_format_of_the_weights_decides_the_default(config, device, precision, runtime):
    assert decode(config, device, precision).runtime == runtime


def test_a_prompt_shares_eight_rows_of_cores_on_tenstorrent():
    shares = known("wormhole-n150", "tt-transformers")
    found = {}
    for rows in (32, 33, 128, 256, 257):
        bench = Workbench(
            build(spec_of("llama-3.1-8b"), prefill(1, rows), "bf16"), {}, Settings().conventions
        )
        machine = Machine(load("wormhole-n150"), Settings(runtime="tt-transformers"))
        chosen = machine.chosen(bench.workload, Settings(runtime="tt-transformers"))
        items = bench.table(chosen.precision, machine.plan(chosen.runtime.runtime)).items
        op = next(item.view for item in items if item.view.size("m", 1) == rows)
        found[rows] = spread(op, shares.grid_rows) * rows
    assert found == {32: 32, 33: 256, 128: 256, 256: 256, 257: 512}
