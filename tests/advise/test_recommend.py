"""Recommendations are changes that were applied: repeating one gives the stated gain."""

import pytest

from gambrel.advise.explore import kinds_of
from gambrel.advise.recommend import Recommendation, _worth, advise, attained_share, recommend
from gambrel.advise.shortfall import below
from gambrel.advise.whatif import with_change
from gambrel.analysis.analyze import analyze
from gambrel.analysis.measures import Bound
from gambrel.analysis.settings import Settings
from gambrel.capture import zoo
from gambrel.device.catalog import list_devices, load
from gambrel.device.model import MemoryLevel
from gambrel.device.roofs import resolve
from gambrel.errors import InputError
from gambrel.llm.known import spec_of
from gambrel.llm.sharded import build_rank
from gambrel.llm.sharding import Sharding
from gambrel.llm.step import decode
from gambrel.report import render
from tests.analysis.small import device, perceptron

DEVICES = {d.id: d for d in list_devices()}
PAIRS = [
    ("resnet50", "a100-sxm4-80gb", None),
    ("resnet50", "h100-sxm5-80gb", "fp32"),
    ("resnet18", "t4", None),
    ("yolov8n", "jetson-orin-nano-8gb", None),
    ("yolov8n", "coral-edge-tpu", None),
    ("yolov8s", "jetson-agx-orin-64gb", "int8"),
    ("mobilenet-v2", "raspberry-pi-5", None),
    ("mobilenet-v3-small", "l4", None),
    ("efficientnet-b0", "rtx-4090", None),
    ("convnext-tiny", "mi300x", None),
    ("vit-b-16", "a10", None),
    ("vit-l-16", "h200-sxm-141gb", "bf16"),
    ("swin-t", "v100-pcie-32gb", None),
    ("deit-s", "m2-max", None),
    ("bert-base", "t4", None),
    ("bert-base", "tpu-v5e", None),
    ("segformer-b0", "l40s", None),
    ("llama-3-8b-decode", "a100-sxm4-80gb", None),
    ("vgg16", "hailo-8", None),
    ("densenet121", "gaudi-2", None),
]
EFFORTS = ("software", "batch", "retrain", "replace")


def time_per_item(found, kind):
    items = found.model.symbols.get("batch", 1)
    return (found.expected_time_s.value if kind == "expected" else found.roofline_time_s) / items


@pytest.mark.parametrize(("model", "on", "precision"), PAIRS)
def test_applying_a_recommendation_by_hand_gives_the_stated_gain(model, on, precision):
    before = analyze(zoo.load(model), DEVICES[on], Settings(precision=precision))
    found = recommend(before)
    order = [EFFORTS.index(r.effort) for r in found]
    assert order == sorted(order)
    for effort in EFFORTS:
        gains = [r.gain for r in found if r.effort == effort]
        assert gains == sorted(gains, reverse=True)
    for r in found:
        after = with_change(before, r.changes)
        was, then = (time_per_item(a, r.time_kind) for a in (before, after))
        assert was / then == pytest.approx(r.gain, rel=1e-9)
        assert was == pytest.approx(r.time_before_s, rel=1e-9)
        assert after.bound == r.bound_after
        assert after.footprint.total_bytes == r.memory_after_bytes
        assert r.gain >= 1.05
        assert after.footprint.fits is not False
        if r.effort == "software":
            assert r.latency_after_s < r.latency_before_s
        assert 1 < r.gain_low <= r.gain * (1 + 1e-9)
        assert r.fits_after is not False
        assert len(kinds_of(r.changes)) >= len(r.changes)
        if any("precision" in change for change in r.changes):
            roof = resolve(DEVICES[on], "matrix", after.model.precision)
            assert roof.dtype == after.model.precision


def test_a_larger_batch_reads_weights_for_more_items():
    found = analyze(perceptron(), device(), Settings(precision="fp16"))
    by_change = {r.change.split("=")[0]: r for r in recommend(found)}
    batch = by_change["batch"]
    size = int(batch.change.split("=")[1])
    again = analyze(perceptron(), device(), Settings(precision="fp16", sizes={"batch": size}))
    assert batch.time_after_s == pytest.approx(time_per_item(again, batch.time_kind))
    assert batch.fits_after is True


def test_precision_only_where_the_device_has_a_roof_for_it():
    # A runtime with one formula for both formats: the device is a toy, its figures are not.
    asked = Settings(precision="fp32", runtime="onnxruntime")
    found = analyze(perceptron(), device(), asked)
    changes = {r.change for r in recommend(found)}
    assert "precision=fp16" in changes
    assert not any("int8" in change for change in changes if change.startswith("precision"))


def test_what_does_not_fit_is_left_out():
    roomy = analyze(perceptron(), device(), Settings(precision="fp16"))
    assert any("batch" in r.change for r in recommend(roomy))
    need = roomy.footprint.total_bytes
    small = device(memory=(MemoryLevel(name="DRAM", capacity_bytes=need, byte_per_s=10.0),))
    tight = analyze(perceptron(), small, Settings(precision="fp16"))
    found = recommend(tight)
    assert not any(r.changes[0].startswith("batch") for r in found)
    assert all(r.fits_after for r in found)


def test_without_a_bound_there_is_nothing_to_improve():
    found = analyze(perceptron(), device(ceilings=(), memory=()), Settings(precision="fp16"))
    with pytest.raises(InputError, match="no time to improve"):
        recommend(found)


def test_the_turn_of_the_bound_is_named():
    found = analyze(zoo.load("vgg16"), DEVICES["t4"], Settings(precision="fp32"))
    batch = [r for r in recommend(found) if r.change.startswith("batch=") and "+" not in r.change]
    assert found.bound is Bound.COMPUTE or any("-bound." in r.about for r in batch)


def test_advice_says_how_far_the_model_is():
    found = analyze(zoo.load("resnet50"), DEVICES["a100-sxm4-80gb"], Settings())
    share = attained_share(found)
    assert share == found.sol_time_s / found.expected_time_s.value
    advice = advise(found)
    assert advice.stop == ""
    assert advice.below == below(found)
    text = render(advice)
    assert "As it stands it attains" in text
    below_roof = analyze(zoo.load("resnet50"), found.hardware, Settings(runtime="tensorrt"))
    assert "Far below their roof" in render(advise(below_roof))
    for b in advice.below:
        assert b.attained < 0.5
        assert b.time_share > 0.02


def test_enough_is_enough(monkeypatch):
    found = analyze(zoo.load("resnet50"), DEVICES["a100-sxm4-80gb"], Settings())
    attained = found.sol_time_s / found.expected_time_s.value
    monkeypatch.setattr("gambrel.advise.recommend.DONE", attained * 1.01)
    assert "stop optimizing" not in advise(found).stop
    monkeypatch.setattr("gambrel.advise.recommend.DONE", attained * 0.99)
    advice = advise(found)
    assert "stop optimizing" in advice.stop
    assert advice.below == ()
    assert "It attains " in render(advice)


def test_matrix_work_on_the_vector_engine_is_named():
    found = analyze(zoo.load("bert-base"), DEVICES["a100-sxm4-80gb"], Settings(precision="fp32"))
    assert {b.cause for b in below(found)} == {"wrong engine"}


def test_a_device_without_matrix_engines_is_not_told_to_change_engines():
    found = analyze(zoo.load("gpt2-decode"), DEVICES["epyc-9654"], Settings())
    assert "wrong engine" not in {b.cause for b in below(found)}


def test_what_needs_retraining_or_replaces_stands_alone():
    asked = Settings(runtime="tensorrt")
    found = recommend(analyze(zoo.load("resnet101"), DEVICES["a100-sxm4-80gb"], asked))
    assert {r.effort for r in found} == set(EFFORTS)
    for r in found:
        assert r.effort in {"software", "batch"} or len(r.changes) == 1
        assert (r.effort == "batch") == any(c.startswith("batch=") for c in r.changes)
    # The first piece of advice makes a single request faster.
    assert found[0].effort == "software"


def test_what_does_not_fit_is_told_how_to():
    whole = analyze(zoo.load("mixtral-8x7b-decode"), DEVICES["h100-sxm5-80gb"], Settings())
    told = advise(whole)
    assert "It needs 87.2 GiB and does not fit into 80 GiB: it fits with" in told.hints[0]
    assert "weights=int8" in told.hints[0] or "weights=int4" in told.hints[0]
    assert "at least 2 devices" in told.hints[0]
    assert all(r.fits_after for r in told.recommendations)
    # A larger batch becomes possible with the weights that fit.
    assert any(r.effort == "batch" for r in told.recommendations)


def test_what_was_tried_in_vain_is_told():
    told = advise(analyze(zoo.load("resnet50"), DEVICES["a100-sxm4-80gb"], Settings()))
    assert any(hint.startswith("Tried, no gain of 5 %") for hint in told.hints)


def test_a_compiler_that_fuses_already_is_not_told_to():
    on_tpu = advise(analyze(zoo.load("vit-b-16"), DEVICES["tpu-v5e"], Settings()))
    changes = {change for r in on_tpu.recommendations for change in r.changes}
    assert not changes & {"fuse", "graphs"}


def test_no_runtime_is_proposed_whose_time_is_unknown():
    found = analyze(zoo.load("resnet50"), DEVICES["a100-sxm4-80gb"], Settings())
    for r in recommend(found):
        assert r.time_kind == "expected"
        assert with_change(found, r.changes).expected_time_s is not None


def test_a_collective_is_not_told_to_fuse():
    node = build_rank(spec_of("llama-3.1-8b"), decode(1, 2048), "bf16", Sharding(tensor=4))
    found = [b for b in below(analyze(node, load("h100-sxm5-80gb"))) if "all_reduce" in b.name]
    assert found
    assert {b.cause for b in found} == {"network"}
    assert all("fewer devices" in b.remedy for b in found)


def test_expected_gains_rank_before_gains_of_the_roofline():
    def of(kind, gain):
        return Recommendation(
            change="fuse",
            about="",
            time_before_s=gain,
            time_after_s=1.0,
            gain=gain,
            latency_after_s=1.0,
            bound_after=None,
            memory_after_bytes=1,
            fits_after=None,
            time_kind=kind,
        )

    found = [of("roofline", 9.0), of("expected", 1.2), of("roofline", 2.0), of("expected", 3.0)]
    ranked = sorted(found, key=_worth, reverse=True)
    assert [(r.time_kind, r.gain) for r in ranked] == [
        ("expected", 3.0),
        ("expected", 1.2),
        ("roofline", 9.0),
        ("roofline", 2.0),
    ]
