"""A sweep answers what single analyses answer."""

import dataclasses
import math

import numpy as np
import pytest

import gambrel
from gambrel.analysis.analyze import Settings, analyze
from gambrel.analysis.question import ask
from gambrel.analysis.sweep import SweepWork, sweep
from gambrel.api.sweep_cases import work_of
from gambrel.engine.grid import GridAxis, PointGrid
from gambrel.engine.tables import joined
from gambrel.errors import InputError, WorkloadError
from tests.analysis.small import device, host_fed, perceptron


def same(found, i, single):
    """Point ``i`` of a sweep says what its own analysis says."""
    assert found.flops[i] == single.flops
    assert found.traffic_bytes[i] == single.traffic_bytes
    assert found.bound[i] == single.bound.value
    assert found.runtime[i] == single.runtime
    for name in ("sol_time_s", "roofline_time_s", "expected_time_s"):
        own = getattr(single, name)
        if own is None:
            assert math.isnan(getattr(found, name)[i])
        else:
            assert getattr(found, name)[i] == pytest.approx(float(own), rel=1e-9)
    assert found.memory_bytes[i] == single.footprint.total_bytes
    assert found.fits[i] == {True: 1, False: 0, None: -1}[single.footprint.fits]
    joules = single.energy.energy_per_inference_j
    if joules is None:
        assert math.isnan(found.energy_per_item_j[i])
    else:
        assert found.energy_per_item_j[i] == pytest.approx(joules, rel=1e-9)


def test_every_point_equals_its_own_analysis():
    batches = [1, 2, 3, 1000, 100_000]
    found = sweep(perceptron(), [device()], ["fp16", "fp32"], {"batch": batches})
    assert len(found) == 10
    for i in range(len(found)):
        settings = Settings(
            precision=str(found.precision[i]), sizes={"batch": int(found.sizes["batch"][i])}
        )
        same(found, i, analyze(perceptron(), device(), settings))


def test_depthwise_convolutions_are_expected_alike():
    batches, devices = [1, 3, 64], ["h100", "l40s", "epyc-9755"]
    found = gambrel.sweep("mobilenet-v2", devices, precision=["fp16", "fp32"], batch_size=batches)
    for i in range(len(found)):
        single = gambrel.analyze(
            "mobilenet-v2",
            str(found.device[i]),
            batch_size=int(found.sizes["batch"][i]),
            precision=str(found.precision[i]),
        )
        same(found, i, single)
    assert not np.isnan(found.expected_time_s).any()


@pytest.mark.parametrize("runtime", ["pytorch", "torch-compile", "onnxruntime", "perfect"])
@pytest.mark.parametrize("name", ["resnet18", "bert-base"])
def test_every_runtime_sweeps(name, runtime):
    """Kernels that depend on sizes are formed anew at every point."""
    found = gambrel.sweep(name, ["a100"], batch_size=[1, 5], precision=["fp16"], runtime=runtime)
    for i, batch in enumerate((1, 5)):
        single = gambrel.analyze(name, "a100", batch_size=batch, precision="fp16", runtime=runtime)
        same(found, i, single)


@pytest.mark.parametrize("runtime", ["pytorch", "perfect"])
def test_devices_that_live_off_their_link_sweep(runtime):
    chosen = Settings(precision="fp16", runtime=runtime)
    found = sweep(perceptron(), [host_fed(48)], ["fp16"], {"batch": [1, 2, 7]}, chosen)
    for i, batch in enumerate((1, 2, 7)):
        one = Settings(precision="fp16", runtime=runtime, sizes={"batch": batch})
        same(found, i, analyze(perceptron(), host_fed(48), one))


def test_columns():
    found = sweep(perceptron(), [device(), device(id="other")], ["fp16"], {})
    assert list(found.to_dict()) == [
        "model",
        "device",
        "precision",
        "runtime",
        "batch",
        "flops",
        "traffic_bytes",
        "sol_time_s",
        "roofline_time_s",
        "bound",
        "expected_time_s",
        "items_per_s",
        "memory_bytes",
        "fits",
        "energy_per_item_j",
        "refused",
    ]
    assert found.device.tolist() == ["toy", "other"]


def test_refusals():
    with pytest.raises(InputError, match="at least one device"):
        sweep(perceptron(), [], ["fp16"], {})
    with pytest.raises(WorkloadError, match="batch=0"):
        sweep(perceptron(), [device()], ["fp16"], {"batch": [0]})
    with pytest.raises(InputError, match="NVIDIA TensorRT does not run on toy"):
        sweep(perceptron(), [device()], ["fp16"], {}, Settings(runtime="tensorrt"))


def test_unknown_roofs_are_not_a_number():
    found = sweep(perceptron(), [device(ceilings=(), memory=())], ["fp16"], {})
    assert math.isnan(found.roofline_time_s[0])
    assert math.isnan(found.sol_time_s[0])
    assert found.bound[0] == ""


def test_a_combination_that_is_refused_is_a_row_that_says_why():
    found = sweep(perceptron(), [device(), device(id="other")], ["fp16", "fp8"], {"batch": [1, 2]})
    refused = found.refused[found.precision == "fp8"]
    assert len(found) == 8
    assert set(refused) == {""} or all("fp8" in text for text in refused)


def test_points_whose_kernels_differ_are_evaluated_apart():
    """At batch 1 the addition of a position table is no broadcast; later it is."""
    batches = [1, 2, 1, 7]
    found = gambrel.sweep("vit-b-16", "a100", precision="fp32", batch_size=[1, 2, 7])
    for i, batch in enumerate((1, 2, 7)):
        single = gambrel.analyze("vit-b-16", "a100", precision="fp32", batch_size=batch)
        same(found, i, single)
    assert sorted(set(batches)) == found.batch.tolist()


def test_what_is_named_is_an_axis():
    found = gambrel.sweep(
        "resnet18,mobilenet-v2",
        "a100,category=edge,max_tdp=10W",
        runtime=["pytorch", "perfect"],
        batch_size="1:8:x2",
    )
    devices = sorted(set(found.device))
    assert "a100-sxm4-80gb" in devices
    assert len(devices) > 1
    assert len(found) == 2 * 2 * len(devices) * 4
    assert set(found.model) == {"resnet18", "mobilenet-v2"}
    assert sorted(set(found.batch.tolist())) == [1, 2, 4, 8]


def test_phases_and_layouts_of_a_language_model_are_axes():
    found = gambrel.sweep(
        "llama-3.1-8b", "h100", phase="decode", tensor="1,2", batch_size=8, context="1k,2k"
    )
    assert found.tensor.tolist() == ["1", "1", "2", "2"]
    assert found.context.tolist() == [1024, 2048, 1024, 2048]
    # Half of the weights on each of two devices; of what is left more stays on chip between runs.
    assert found.memory_bytes[2] < 0.55 * found.memory_bytes[0]
    assert 0.48 < found.sol_time_s[2] / found.sol_time_s[0] < 0.6


def test_changes_are_alternatives():
    found = gambrel.sweep("resnet18", "a100", precision="fp16", change=["none", "precision=int8"])
    assert found.change.tolist() == ["none", "precision=int8"]
    assert found.precision.tolist() == ["fp16", "int8"]


def test_filters_and_fronts():
    asked = {"precision": "fp16", "batch_size": "1:16"}
    every = gambrel.sweep("resnet18", "a100,t4", **asked)
    kept = gambrel.sweep("resnet18", "a100,t4", where="batch >= 8 and device != 't4'", **asked)
    assert kept.points == 32
    assert kept.rows == len(kept) == 9 == (every.batch[every.device != "t4"] >= 8).sum()
    front = gambrel.sweep("resnet18", "a100,t4", pareto="latency,throughput", **asked).front
    times, rates = every.expected_time_s, every.items_per_s
    best = [
        not any((times <= t) & (rates >= r) & ((times < t) | (rates > r)))
        for t, r in zip(times, rates, strict=True)
    ]
    assert front["expected_time_s"].tolist() == times[best].tolist()


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"batch_size": "1:1000000", "image": "1:1000000"}, "1,000,000,000,000 points"),
        ({"batch_size": "1:1000000000"}, "1,000,000,000 values"),
        ({"batch_size": "1:64:x1"}, "1:256:x2"),
        ({"where": "expected_time < 3ms"}, "expected_time_s"),
        ({"pareto": "speed"}, "latency, throughput"),
        ({"pareto": "best:flops"}, "min:COLUMN"),
        ({"hardware": "category=toaster"}, "no device"),
        ({"hardware": "kind=edge"}, "category"),
        ({"batch_size": "1:10000", "image": "64:6400:32"}, "in memory"),
        ({"save": "points.xlsx"}, ".parquet, .csv, .jsonl"),
    ],
)
def test_sentences(asked, said):
    with pytest.raises(InputError, match=said):
        gambrel.sweep(**{"model": "resnet50", "hardware": "a100", **asked})


def test_a_partition_holds_whole_blocks_where_they_fit():
    asked = {"model": "resnet50", "hardware": "a100,l4", "runtime": "pytorch"}
    work = work_of(ask("sweep", {**asked, "batch_size": "1:100000"}))
    # Blocks of 4,096 batches on two devices: 16,384 points are two of them.
    assert (work.points, work.partition_points) == (200_000, 16_384)
    work = work_of(ask("sweep", {**asked, "hardware": "a100,l4,h100", "batch_size": "1:100000"}))
    # On three devices a block has 12,288 points, and 16,384 at least are two.
    assert work.partition_points == 24_576


def test_blocks_of_sizes_hold_every_point_once_whatever_the_partitions():
    asked = ask(
        "sweep",
        {"model": "resnet50,mobilenet-v2", "hardware": "a100,l4", "batch_size": "1:7"},
    )
    work = dataclasses.replace(work_of(asked), block=3)
    assert work.points == 2 * 2 * 7
    rows = joined([work.evaluate(start, min(start + 5, 28)) for start in range(0, 28, 5)])
    # Three batches of all four cases, then the next three, then the one that is left.
    cases = [(m, d) for m in ("resnet50", "mobilenet-v2") for d in ("a100-sxm4-80gb", "l4")]
    blocks = ((1, 2, 3), (4, 5, 6), (7,))
    labels = zip(rows["model"].texts(), rows["device"].texts(), rows["batch"], strict=True)
    assert list(labels) == [(m, d, b) for block in blocks for m, d in cases for b in block]
    # In another order the same figures.
    whole = dataclasses.replace(work, block=0)
    order = np.lexsort((rows["batch"], rows["device"].codes, rows["model"].codes))
    assert whole.identity != work.identity
    every = whole.evaluate(0, 28)
    again = np.lexsort((every["batch"], every["device"].codes, every["model"].codes))
    for name in ("flops", "expected_time_s", "energy_per_item_j"):
        assert np.array_equal(rows[name][order], every[name][again]), name


@pytest.mark.parametrize(
    ("batches", "partitions"),
    [
        (1_024, 1),  # 2,048 points
        (81_920, 10),  # 163,840 points: the smallest partitions have 16,384
        (500_000, 32),
        (5_000_000, 77),  # the largest have 131,072
    ],
)
def test_partitions_are_enough_to_share(batches, partitions):
    def never(_):
        raise AssertionError("nothing is computed")

    work = SweepWork(
        cases=PointGrid((GridAxis(name="precision", values=("fp16", "fp32")),)),
        opened=never,
        sizes=PointGrid((GridAxis(name="batch", values=range(1, batches + 1)),)),
        size_names=("batch",),
        label_names=(),
    )
    assert -(-work.points // work.partition_points) == partitions


@pytest.mark.parametrize(("phase", "size"), [("decode", "context"), ("prefill", "seq")])
@pytest.mark.parametrize("model", ["deepseek-v3.2", "gemma-3-4b", "gpt-oss-20b", "llama-4-scout"])
def test_sweeps_over_positions_are_those_of_the_analysis(model, phase, size):
    """Windows, chunks and chosen positions: other ops run for a few positions than for many."""
    values = [9000, 512, 2048, 2049, 16384]
    swept = gambrel.sweep(model, ["h200"], phase=phase, batch_size=[1, 3], **{size: values})
    alone = [
        gambrel.analyze(model, "h200", phase=phase, batch_size=batch, **{size: value})
        for batch in (1, 3)
        for value in values
    ]
    assert swept.flops.tolist() == [a.flops for a in alone]
    assert swept.memory_bytes.tolist() == [a.footprint.total_bytes for a in alone]
    times = [a.expected_time_s.value for a in alone]
    assert swept.expected_time_s.tolist() == pytest.approx(times)


def test_a_change_holds_on_both_sides_of_a_window():
    values = [256, 8192]
    swept = gambrel.sweep("gemma-3-4b", ["h200"], phase="decode", context=values, change=["kv=fp8"])
    for row, value in enumerate(values):
        alone = gambrel.analyze(
            "gemma-3-4b", "h200", phase="decode", context=value, precision="bf16,kv=fp8"
        )
        assert swept.memory_bytes[row] == alone.footprint.total_bytes


@pytest.mark.parametrize("batches", [[1], [1, 4]])
@pytest.mark.parametrize(
    ("model", "sizes"),
    [("deepseek-v3.2", {}), ("gemma-3-4b", {"context": 8192}), ("gpt-oss-120b", {"context": 8192})],
)
def test_windows_and_chosen_positions_are_those_of_the_analysis(model, sizes, batches):
    """Sizes that do not vary are numbers: whether an indexer runs depends on them."""
    given = {name: [value] for name, value in sizes.items()}
    swept = gambrel.sweep(model, ["h200"], phase="decode", batch_size=batches, **given)
    for row, batch in enumerate(batches):
        alone = gambrel.analyze(model, "h200", phase="decode", batch_size=batch, **sizes)
        assert swept.flops[row] == alone.flops
        assert swept.expected_time_s[row] == pytest.approx(alone.expected_time_s.value)
        assert swept.memory_bytes[row] == alone.footprint.total_bytes
