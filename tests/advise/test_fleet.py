"""A catalog at once gives what one analysis after another gives."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gambrel.advise.figures import facts_of
from gambrel.advise.fleet import Fleet
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.settings import is_language_model
from gambrel.analysis.workbench import forget
from gambrel.capture import zoo
from gambrel.device.catalog import list_devices
from gambrel.errors import InputError
from gambrel.runtimes import on_device, takes
from tests.analysis.small import device, host_fed, perceptron

MODELS = ("yolov8n", "resnet18", "bert-base", "llama-3-8b-decode", "mixtral-8x7b-decode")


def near(found, expected):
    return (found is None) == (expected is None) and (found or 0.0) == pytest.approx(
        expected or 0.0, rel=1e-6
    )


def same(found, expected):
    assert found.items == expected.items
    assert found.memory_bytes == expected.memory_bytes
    assert found.left_out == expected.left_out
    assert found.power_cap_w == expected.power_cap_w
    assert near(found.roofline_s, expected.roofline_s)
    assert near(found.sol_s, expected.sol_s)
    assert (found.expected is None) == (expected.expected is None)
    if found.expected is not None:
        for part in ("value", "low", "high", "launches_s", "host_s"):
            want = pytest.approx(getattr(expected.expected, part), rel=1e-9)
            assert getattr(found.expected, part) == want
        assert found.expected.confidence == expected.expected.confidence
    assert (found.energy.energy_j is None) == (expected.energy.energy_j is None)
    if found.energy.energy_j is not None:
        assert found.energy.energy_j == pytest.approx(expected.energy.energy_j, rel=1e-6)


@settings(max_examples=25, deadline=None)
@given(
    st.sampled_from(MODELS),
    st.sampled_from([d.id for d in list_devices()]),
    st.sampled_from([1, 3, 16]),
    st.sampled_from([None, "int8", "fp32"]),
    st.randoms(use_true_random=False),
)
def test_the_same_facts_as_an_analysis(model, device_id, batch, precision, random):
    workload = zoo.load(model)
    on = next(d for d in list_devices() if d.id == device_id)
    runs = on_device(on, language=is_language_model(workload))
    takers = [r for r in runs if precision is None or takes(r, precision)]
    assume(any(r.runs_on for r in takers))  # some chips take no fp32
    runtime = random.choice([None, *(r.id for r in takers)])
    chosen = Settings(precision=precision, sizes={"batch": batch}, runtime=runtime)
    point = Fleet(workload, chosen).on(on)
    found = analyze(workload, on, chosen)
    same(point.facts, facts_of(found))
    assert point.bound == found.bound
    assert (point.runtime, point.runtime_reason) == (found.runtime, found.runtime_reason)
    assert point.fits == found.footprint.fits
    assert (point.precision, point.precision_reason) == (
        found.model.precision,
        found.model.precision_reason,
    )


@pytest.mark.parametrize("on", [device(), host_fed(50), device(ceilings=(), memory=())])
@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile", "perfect"])
def test_toy_devices(on, runtime):
    chosen = Settings(precision="fp16", runtime=runtime)
    same(Fleet(perceptron(), chosen).on(on).facts, facts_of(analyze(perceptron(), on, chosen)))


def test_the_precision_of_a_point_wins_and_a_price_is_carried():
    fleet = Fleet(perceptron(), Settings(precision="fp16"))
    point = fleet.on(device(), "fp32", 99.0)
    assert (point.precision, point.facts.price) == ("fp32", 99.0)
    assert point.fits is True
    assert replace(point.facts, price=None) == fleet.on(device(), "fp32").facts


@settings(max_examples=15, deadline=None)
@given(
    st.sampled_from(("yolov8n", "bert-base", "swin-t", "mixtral-8x7b-decode", "mamba-130m")),
    st.sampled_from([1, 16]),
    st.sampled_from([None, "int8", "fp32"]),
    st.sampled_from([None, "pytorch", "perfect"]),
)
def test_many_at_once_are_the_same_ones(model, batch, precision, runtime):
    workload = zoo.load(model)
    chosen = Settings(precision=precision, sizes={"batch": batch}, runtime=runtime)
    alone, bulk = Fleet(workload, chosen), Fleet(workload, chosen, bulk=True)
    for on in list_devices()[::7]:
        try:
            one = alone.on(on)
        except InputError:  # no runtime there runs the format
            with pytest.raises(InputError, match="no runtime on"):
                bulk.on(on)
            continue
        other = bulk.on(on)
        assert one.bound == other.bound
        same(one.facts, other.facts)
        if one.facts.expected is not None:
            assert one.facts.expected.reason == other.facts.expected.reason


@pytest.mark.parametrize(
    ("model", "runtime", "precision", "every"),
    [
        *product(
            ["yolov8n", "mixtral-8x7b-decode", "llama-3-8b-prefill"], [None, "pytorch"], [None], [4]
        ),
        ("mobilenet-v2", None, None, 4),
        ("mobilenet-v2", "hale", None, 1),  # predicts depthwise layers apart from others
        ("yolov8n", "tensorrt", "fp32", 2),  # whole runs, with different on-chip memories
        ("resnet18", "openvino", None, 2),
        ("yolov8n", "onnxruntime", None, 4),
    ],
)
def test_devices_side_by_side_are_the_same_ones(model, runtime, precision, every):
    workload, chosen = zoo.load(model), Settings(runtime=runtime, precision=precision)
    alone, bulk = Fleet(workload, chosen), Fleet(workload, chosen, bulk=True)
    devices = [
        d
        for d in list_devices()[::every]
        if runtime is None or runtime in {r.id for r in on_device(d, language=bulk.bench.language)}
    ]
    assert devices
    bulk.prepare((d, None, None) for d in devices)
    for on in devices:
        one, other = alone.on(on), bulk.on(on)
        assert (one.bound, one.limited_by) == (other.bound, other.limited_by)
        same(one.facts, other.facts)
        if one.facts.expected is not None:
            assert one.facts.expected.reason == other.facts.expected.reason
            assert one.facts.expected.caution == other.facts.expected.caution


def test_points_of_a_catalog_are_kept_for_the_next_question():
    workload, on = zoo.load("resnet18"), list_devices()[0]
    first = Fleet(workload, Settings(), bulk=True).on(on)
    assert Fleet(workload, Settings(), bulk=True).on(on) is first
    assert Fleet(workload, Settings(precision="fp32"), bulk=True).on(on) is not first
    assert Fleet(workload, Settings(sizes={"batch": 2}), bulk=True).on(on) is not first
    forget()
    again = Fleet(workload, Settings(), bulk=True).on(on)
    assert again is not first
    same(again.facts, first.facts)


def test_bulk_puts_ops_of_one_structure_together():
    from gambrel.analysis.estimate.batches import Batches
    from gambrel.analysis.evaluate import Evaluator
    from gambrel.ops import Conventions

    workload = zoo.load("vgg16")
    evaluator = Evaluator(workload, workload.resolve_symbols({}), {}, Conventions())
    ops = [(view, cost) for _, view, cost in evaluator.costs() if cost is not None]
    found = list(Batches(ops))
    members = [i for batch in found for i in batch.members]
    assert len(members) == len(set(members))
    (convolutions,) = (b for b in found if b.view.kind == "convolution")
    assert len(convolutions.members) == 12  # the first reads the image, not an activation
    assert list(convolutions.cost.read_bytes) == [
        ops[i][1].read_bytes for i in convolutions.members
    ]
