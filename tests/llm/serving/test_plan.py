"""Plans: what fits, what is asked for, who wins and why."""

from __future__ import annotations

import json
import re

import msgspec
import pytest

import gambrel
from gambrel.device.lookup import find
from gambrel.errors import DeviceError, GambrelError, InputError, UnknownNameError
from gambrel.llm.serving.plan import pareto
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import topology_for
from gambrel.report.options import Options
from gambrel.report.registry import render
from gambrel.runtimes import runtime
from tests.capture.weights.models import llama_metadata, llama_tensors, write_model


def planned(model="llama-3.1-70b", hardware="h200", **changes):
    given = {"input": "8k", "output": "1k", "precision": "fp8"} | changes
    return gambrel.serve_plan(model, hardware, **given)


@pytest.fixture(scope="module")
def dense():
    return planned(ttft="1s", tpot="30ms", prices="3.5/h", runtime="vllm")


def test_every_choice_meets_the_target(dense):
    assert dense.best
    for choice in dense.best:
        assert choice.point.tpot_s <= 0.030
        assert choice.point.ttft_s <= 1.0
        assert choice.point.devices <= 8


def test_the_best_is_the_cheapest_of_all_points_that_meet_the_target(dense):
    kept = [p for p in dense.points if p.tpot_s <= 0.030 and p.ttft_s <= 1.0]
    cheapest = min(p.cost_per_million(3.5) for p in kept)
    assert dense.best[0].cost_per_million == pytest.approx(cheapest)


def test_the_front_against_all_pairs(dense):
    def beaten(p):
        return any(
            q.tpot_s <= p.tpot_s
            and q.tokens_per_s_per_device >= p.tokens_per_s_per_device
            and (q.tpot_s, q.tokens_per_s_per_device) != (p.tpot_s, p.tokens_per_s_per_device)
            for q in dense.points
        )

    expected = {(p.tpot_s, p.tokens_per_s_per_device) for p in dense.points if not beaten(p)}
    assert {(p.tpot_s, p.tokens_per_s_per_device) for p in pareto(dense.points)} == expected


def test_memory_adds_up(dense):
    for choice in dense.best:
        m, p = choice.point.memory, choice.point
        on_device = p.batch / p.sharding.attention_data
        used = m.weights_bytes + m.activations_bytes + on_device * m.sequence_bytes
        assert used <= m.usable_bytes
        assert m.usable_bytes == 0.9 * m.capacity_bytes


def test_weights_and_cache_by_hand():
    # Llama-3.1-70B in fp8 on four devices. Layers: 80 (8192 (8192 + 2 * 1024) + 8192 * 8192 +
    # 3 * 8192 * 28672) = 68,451,041,280 bytes; embedding and head in bf16: 2 * 2 * 128,256 * 8,192
    # = 4,202,692,608. A quarter of both = 18,163,433,472; and all norms, 2 * 161 * 8,192.
    m = planned(sharding=Sharding(tensor=4)).best[0].point.memory
    assert m.weights_bytes == 18_163_433_472 + 2_637_824
    # A token: 80 layers of 2 heads (8 / 4), 2 * 128 values of one byte = 40,960; 9,216 tokens.
    assert m.sequence_bytes == 40_960 * 9_216


def test_cost_and_rates_follow_from_each_other(dense):
    p = dense.best[0].point
    assert p.tokens_per_s == pytest.approx(p.requests_per_s * 1024)
    seconds = 1e6 / p.tokens_per_s
    assert dense.best[0].cost_per_million == pytest.approx(seconds / 3600 * p.devices * 3.5)


def test_expected_times_are_those_of_the_analysis(dense):
    """The decode step of the plan is the analysis that the choice carries, op by op."""
    choice = dense.best[0]
    decoding = choice.decode
    stages = choice.point.sharding.pipeline
    service = runtime("vllm").service
    per_device = choice.point.batch / choice.point.sharding.attention_data
    host_s = service.step_s + service.request_s * per_device
    token = choice.point.tpot_s - choice.point.interference_s - host_s
    assert token == pytest.approx(stages * decoding.expected_time_s.value, rel=1e-3)
    assert decoding.roofline_time_s < decoding.expected_time_s.value
    assert choice.roofline_tpot_s == pytest.approx(stages * decoding.roofline_time_s)
    assert choice.point.sol_tpot_s == pytest.approx(stages * decoding.sol_time_s)
    assert choice.bound == decoding.bound
    assert choice.limited_by == decoding.limited_by
    assert choice.tpot.low <= choice.tpot.value <= choice.tpot.high


def test_without_an_engine_the_mean_of_those_that_were_measured():
    asked = {"hardware": "h100", "sharding": Sharding(tensor=4), "concurrency": 16}
    unnamed = planned(**asked).best[0]
    names = unnamed.point.mean_of
    assert names == ("vllm", "sglang", "tensorrt-llm")
    each = [planned(**asked, runtime=name).best[0] for name in names]
    times = [choice.point.tpot_s for choice in each]
    # The host times of the engines are within the steps that are averaged, other prompts are not.
    steps = [c.point.tpot_s - c.point.interference_s for c in each]
    own = unnamed.point.tpot_s - unnamed.point.interference_s
    assert own == pytest.approx(sum(steps) / 3, rel=0.01)
    assert unnamed.tpot.low < min(times) < max(times) < unnamed.tpot.high
    assert all(not choice.point.mean_of for choice in each)
    assert "mean of vllm, sglang, tensorrt-llm" in render(planned(**asked))


def test_no_point_is_faster_than_the_speed_of_light(dense):
    for point in dense.points:
        assert point.sol_tpot_s < point.tpot_s
        assert point.sol_ttft_s < point.prefill_s


def test_the_speed_of_light_of_a_split_model_by_hand():
    # A quarter of 69.5 G weights in fp8 (all but the look-up and norms, 70.55 G - 1.05 G) and of a
    # cache of 8,704 tokens, 80 layers, 2 x 8 heads x 128 in bf16, over 3.35 TB/s; on-chip memory
    # may keep some of it.
    found = planned(hardware="h100", sharding=Sharding(tensor=4), concurrency=1).best[0].point
    weights = (70.55e9 - 1.05e9) / 4 + 8_704 * 80 * 2 * 2 * 128 * 2
    assert found.sol_tpot_s == pytest.approx((weights - 117e6) / 3.35e12, rel=0.01)


def test_calibrated_constants_change_a_plan(dense, monkeypatch):
    from gambrel.analysis.estimate import store
    from gambrel.analysis.estimate.constants import packaged

    base = packaged()
    sets = tuple(
        msgspec.structs.replace(
            s, constants={k: v / 2 if k == "memory" else v for k, v in s.constants.items()}
        )
        for s in base.sets
    )
    slower = msgspec.structs.replace(base, sets=sets)
    monkeypatch.setattr(store, "load", lambda: slower)
    found = planned(ttft="1s", tpot="30ms", prices="3.5/h")
    pairs = zip(dense.points, found.points, strict=False)
    assert all(a.tpot_s < b.tpot_s for a, b in pairs if a.sharding == b.sharding)
    assert found.points[0].sol_tpot_s == dense.points[0].sol_tpot_s


def test_the_loser_is_told_why(dense):
    assert dense.best[0].why_not == ""
    for choice in dense.best[1:]:
        assert "a million tokens cost" in choice.why_not


def test_a_tighter_target_never_gives_more():
    rates = [
        planned(tpot=t, layouts=1).best[0].point.tokens_per_s_per_device for t in (0.1, 0.04, 0.02)
    ]
    assert rates == sorted(rates, reverse=True)


def test_a_model_that_does_not_fit():
    found = planned("llama-3.1-405b", "h100", max_devices=4)
    assert not found.best
    assert "does not fit: weights" in found.refused[0].reason
    assert "No layout holds the model" in render(found)


def test_a_cache_that_does_not_fit_says_what_would():
    found = planned(
        "llama-3.1-8b", "rtx-4090", input="110k", output="4k", precision="bf16", max_devices=1
    )
    assert not found.best
    assert "reserves 14.25 GiB of cache" in found.refused[0].reason
    assert "tokens fits" in found.refused[0].reason


def test_a_target_that_nothing_meets():
    found = planned(tpot="1ms")
    assert not found.best
    assert found.refused[0].proof == "sol"
    assert "(speed of light)" in found.refused[0].reason
    assert {r.proof for r in found.refused if r.sharding.pipeline > 1} == {"expected"}
    assert "TPOT" in found.refused[0].reason
    assert "> 1 ms at its best batch" in found.refused[0].reason
    assert "> 10 ns at its best batch" in planned(tpot="10ns").refused[0].reason
    assert found.refused[0].missed > 0


def test_a_context_beyond_the_model():
    with pytest.raises(
        InputError,
        match=r"input \+ output = 41,984 tokens is beyond max_position_embeddings=40,960 of "
        r"qwen3-32b; with 1,024 out, a prompt of at most 39,936\.",
    ):
        planned("qwen3-32b", input="40k", output="1k")


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"input": "eight"}, "input: 'eight' is not a number of tokens"),
        ({"output": 0}, "output: 0 is not a whole number of at least 1"),
        ({"cached": "8k"}, "at most 8191"),
        ({"max_devices": 0}, "max_devices: 0 is not a whole number"),
        ({"utilization": 1.5}, "utilization: 1.5 is not a share"),
        ({"prices": "cheap"}, "cheap"),
        ({"prices": {"h100": 2}}, "missing: h200-sxm-141gb"),
        ({"speculate": 3}, "acceptance: say with which probability"),
        ({"acceptance": 0.5}, "speculate: say how many"),
        ({"speculate": 3, "acceptance": 1.5}, "acceptance: 1.5 is not a share"),
        ({"speculate": 3, "acceptance": 0.5}, "no multi-token-prediction layer"),
        ({"tpot": "30W"}, "unknown unit 'W'"),
        ({"runtime": "lama.cpp"}, "unknown runtime 'lama.cpp'"),
        ({"sharding": Sharding(tensor=3)}, "3 does not divide the 64 attention heads"),
        ({"sharding": Sharding(tensor=16)}, "needs 16 devices"),
        ({"model": "bert-base"}, "unknown language model"),
        ({"hardware": "h1000"}, "unknown device"),
        ({"page": 0}, "page: 0 is not a whole number"),
    ],
)
def test_what_is_wrong_is_said(changes, sentence):
    with pytest.raises(GambrelError, match=sentence):
        planned(**changes)


def test_a_replica_beyond_a_node_needs_the_network():
    found = planned(sharding=Sharding(tensor=8, pipeline=2), max_devices=16)
    assert not found.best
    assert "network between nodes is not known" in found.refused[0].reason
    given = planned(sharding=Sharding(tensor=8, pipeline=2), max_devices=16, topology="dgx-h200")
    assert given.best[0].point.devices == 16


def test_a_device_without_links_serves_alone():
    device = find("inferentia").device
    with pytest.raises(DeviceError, match="publishes no bandwidth to other devices"):
        topology_for(device).place(device, 2)


def test_load_decides_the_number_of_devices():
    one = planned(rate="0.5/s", max_devices=64, tpot="50ms", layouts=1).best[0].point
    two = planned(rate="5/s", max_devices=64, tpot="50ms", layouts=1).best[0].point
    assert one.devices < two.devices
    assert two.requests_per_s == 5
    fixed = planned(concurrency=64, max_devices=64, layouts=1).best[0].point
    assert fixed.batch * fixed.sharding.data >= 64


def test_a_model_drafts_with_its_own_layer_beside_pipelines():
    # The prediction layer is one layer: it stands on a stage, however many stages there are.
    asked = {"input": 1024, "output": 512, "max_devices": 16, "topology": "dgx-h200"}
    plan = gambrel.serve_plan("deepseek-v3", "h200", **asked, speculate=1, acceptance=0.8)
    plain = gambrel.serve_plan("deepseek-v3", "h200", **asked)
    assert {p.sharding.pipeline for p in plan.points} == {p.sharding.pipeline for p in plain.points}
    assert max(p.sharding.pipeline for p in plan.points) > 1


def test_speculation_yields_more_tokens_a_step():
    plain = planned(sharding=Sharding(tensor=4), concurrency=4).best[0].point
    drafted = (
        planned(
            sharding=Sharding(tensor=4),
            concurrency=4,
            speculate=3,
            acceptance=0.8,
            draft="llama-3.1-8b",
        )
        .best[0]
        .point
    )
    assert plain.tpot_s / 2.952 < drafted.tpot_s < plain.tpot_s  # 1 + 0.8 + 0.64 + 0.512
    never = (
        planned(
            sharding=Sharding(tensor=4),
            concurrency=4,
            speculate=3,
            acceptance=0.0,
            draft="llama-3.1-8b",
        )
        .best[0]
        .point
    )
    assert never.tpot_s > plain.tpot_s


def test_a_prefix_in_the_cache_shortens_the_prefill():
    whole = planned(sharding=Sharding(tensor=4)).best[0].point
    cached = planned(sharding=Sharding(tensor=4), cached="7k").best[0].point
    assert cached.prefill_s < 0.3 * whole.prefill_s


def test_long_prompts_come_in_chunks():
    short = planned(sharding=Sharding(tensor=8), step_tokens=2048).best[0].point
    whole = planned(sharding=Sharding(tensor=8)).best[0].point
    assert 1.0 < short.prefill_s / whole.prefill_s < 1.6


def test_experts_and_own_attention():
    layouts = [
        Sharding(tensor=8),
        Sharding(tensor=8, expert=8),
        Sharding(tensor=8, expert=8, attention_data=8),
    ]
    found = planned("deepseek-v3", input="2k", output=512, precision=None, sharding=layouts)
    seen = {p.sharding.attention_data: p.memory for p in found.points}
    # The latent cache has one head: each device holds it all, unless each has own sequences.
    assert seen[1].sequence_bytes == seen[8].sequence_bytes
    assert len({str(c.point.sharding) for c in found.best}) == 3


def test_json_is_plain(dense):
    again = json.loads(render(dense, "json"))
    assert again["best"][0]["layout"] == str(dense.best[0].point.sharding)
    assert again["units"]["tpot_s"] == "s"


def test_text_names_what_users_ask(dense):
    text = render(dense, "table", Options(verbose=True))
    for words in ("TPOT", "TTFT", "prefill", "queue", "Why not the next", "Pareto", "Assumptions"):
        assert words in text


def test_unknown_energy_stays_unknown():
    found = planned("llama-3.1-8b", "h200", max_devices=1).best[0]
    if found.energy_j_per_token is None:
        assert "unknown: no published constant" in render(
            planned("llama-3.1-8b", "h200", max_devices=1)
        )


def test_a_folder_or_a_file_is_a_model(tmp_path):
    from gambrel.llm.known import _entries

    config = _entries()["llama-3.1-8b"]["config"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    named = planned("llama-3.1-8b", max_devices=1).best[0].point
    for given in (tmp_path, tmp_path / "config.json", config):
        assert planned(given, max_devices=1).best[0].point.tpot_s == named.tpot_s
    with pytest.raises(UnknownNameError, match="closest: llama"):
        planned("llama-4.1-8b")


def test_models_that_write_nothing_are_refused():
    bert = {
        "model_type": "bert", "hidden_size": 768, "num_hidden_layers": 12,
        "num_attention_heads": 12, "intermediate_size": 3072, "vocab_size": 30522,
    }  # fmt: skip
    with pytest.raises(InputError, match="does not generate tokens"):
        planned(bert, input=256, output=64)


def test_state_spaces_keep_one_state_a_sequence():
    mamba = {
        "model_type": "mamba2", "hidden_size": 2560, "num_hidden_layers": 64, "num_heads": 80,
        "head_dim": 64, "state_size": 128, "n_groups": 1, "conv_kernel": 4, "vocab_size": 50288,
        "expand": 2, "chunk_size": 256,
    }  # fmt: skip
    short, long = (
        planned(mamba, input=n, output=256, precision="bf16", max_devices=1).points[0].memory
        for n in ("1k", "16k")
    )
    assert short.sequence_bytes == long.sequence_bytes > 0


def test_hidden_communication_is_as_asked():
    def step(overlap):
        asked = {"concurrency": 8, "overlap": overlap, "host": "1ns", "runtime": "vllm"}
        found = planned(sharding=Sharding(tensor=8), **asked)
        return found, found.best[0].point.tpot_s - found.best[0].point.interference_s

    (plain, none), (_, half), (_, all_) = step(0.0), step(0.5), step(1.0)
    share = plain.best[0].shares["communication"]
    assert none - all_ == pytest.approx(share * none, rel=1e-3)
    assert none - half == pytest.approx((none - all_) / 2)
    with pytest.raises(InputError, match=r"overlap: 1\.5 is not a share"):
        step(1.5)


def test_most_requests_and_longest_context(dense):
    choice = dense.best[0]
    m, p = choice.point.memory, choice.point
    assert choice.max_batch == m.max_sequences >= p.batch
    assert choice.max_context * p.batch * (m.sequence_bytes / 9216) <= m.free_bytes
    assert (choice.max_context + 16) * p.batch * (m.sequence_bytes / 9216) > m.free_bytes or (
        choice.max_context == 131072
    )


def test_long_prompts_are_split_over_devices():
    found = planned(input="64k", output=128, ttft="20s", tpot="1s")
    assert any(p.sharding.context > 1 for p in found.points)
    assert not any(p.sharding.context > 1 for p in planned().points)


def test_a_device_without_memory_bandwidth_is_refused_beside_others():
    found = planned("llama-3.1-8b", ["coral-edge-tpu", "h100"], max_devices=1)
    assert {c.point.device for c in found.best} == {"h100-sxm5-80gb"}
    assert found.refused[0].reason.startswith("publishes no bandwidth of a memory")


def test_a_load_beyond_all_devices_is_refused_and_not_an_error():
    plan = planned(rate="1e9/s", sharding=Sharding(tensor=8))
    assert not plan.best
    assert [r.reason for r in plan.refused] == ["the load needs more than 65,536 replicas."]


def test_more_devices_than_are_considered():
    with pytest.raises(InputError, match="whole number from 1 to 65,536"):
        planned(max_devices=100_000)


def test_what_would_fit_is_said_where_nothing_does():
    # 405 B parameters of 2 bytes: 811 GB; eight H100 hold 8 * 72 GB = 576 GB at 90 %, sixteen
    # 1,152 GB. In fp8 405 GB fit on eight.
    plan = planned("llama-3.1-405b", "h100", precision="bf16")
    assert not plan.best
    assert plan.would_fit == (
        "16 x h100-sxm5-80gb in bf16 would hold it, split as TP8 PP2.",
        "8 x h100-sxm5-80gb in fp8 would hold it.",
    )
    assert "What would fit" in render(plan)
    assert json.loads(render(plan, "json"))["would_fit"] == list(plan.would_fit)


def test_a_missed_target_is_no_question_of_memory():
    plan = planned(tpot="1us")
    assert not plan.best
    assert plan.would_fit == ()


def test_shares_that_differ_are_the_reason_and_equal_ones_are_not(dense):
    for choice in dense.best[1:]:
        for share, other in re.findall(r": (\d+)% of its decode step, not (\d+)%", choice.why_not):
            assert int(share) > int(other)


def test_the_number_formats_are_those_of_the_step(dense):
    decode = dense.best[0].decode
    assert decode.workload.precisions == "fp8"


def test_a_gguf_file_is_planned_with_a_scheme_and_not_without(tmp_path):
    path = write_model(tmp_path / "m.gguf", llama_metadata(), llama_tensors())
    asked = {"input": 100, "output": 10}
    with pytest.raises(InputError, match=r"m\.gguf: its tensors take .* --precision, e\.g\. w4a16"):
        gambrel.serve_plan(path, "h100", **asked)
    assert gambrel.serve_plan(path, "h100", precision="w4a16", **asked).best
    assert gambrel.train_plan(path, "h100", seq=64, precision="bf16").step_s > 0


def test_without_a_known_capacity_few_are_in_flight():
    plan = gambrel.serve_plan("tinyllama-1.1b", "raspberry-pi-5", input=512, output=128)
    best = plan.best[0].point
    assert best.memory.capacity_bytes is None
    assert best.memory.usable_bytes is None
    assert best.memory.max_sequences is None
    assert (plan.best[0].max_batch, plan.best[0].max_context) == (None, None)
    assert best.batch_limit == "capacity"
    assert best.batch < 32
    rates = [p.tokens_per_s_per_device for p in plan.pareto]
    assert best.tokens_per_s_per_device >= 0.9 * max(rates)
    text = str(render(plan))
    assert "capacity is unknown" in " ".join(text.split())
    assert "inf" not in text.split()
    many = gambrel.serve_plan(
        "tinyllama-1.1b", "raspberry-pi-5", input=512, output=128, concurrency=64
    )
    assert many.best[0].point.batch == 64
