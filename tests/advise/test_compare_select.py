"""Order, unknowns, near misses: on hand-made devices and over the catalog."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import gambrel
from gambrel.advise.compare import Grid, compare
from gambrel.advise.fleet import Fleet
from gambrel.advise.limits import parse_limits
from gambrel.advise.select import select
from gambrel.analysis.question import ask
from gambrel.analysis.settings import Settings
from gambrel.api import advise as advising
from gambrel.capture import zoo
from gambrel.device.catalog import list_devices
from gambrel.errors import InputError, UnknownNameError
from gambrel.report import Options, render
from tests.advise.small import subject
from tests.analysis.small import device, perceptron

CATALOG = list_devices()
YOLO = Fleet(zoo.load("yolov8n"), Settings())
SUBJECT = subject("yolov8n")
ON_MANY = subject("yolov8n", bulk=True)


def named(*names):
    return [next(d for d in CATALOG if d.id == name) for name in names]


def over(*names, prices=None, precisions=(None,)):
    devices = named(*names) if names else CATALOG
    held = SUBJECT if names else ON_MANY
    return Grid(subjects=[held], devices=devices, precisions=precisions, prices=prices or {})


def hardware(candidates):
    return [c.row.hardware for c in candidates]


def test_best_first_and_unknown_last():
    found = compare(over("jetson-orin-nano-8gb", "coral-edge-tpu", "h100-sxm5-80gb"), ["latency"])
    assert [r.hardware for r in found.rows] == [
        "h100-sxm5-80gb",
        "jetson-orin-nano-8gb",
        "coral-edge-tpu",
    ]
    assert found.rows[-1].figures["latency"].value is None


def test_more_is_better_for_throughput():
    found = compare(over("l4", "h100-sxm5-80gb"), ["throughput"])
    assert [r.hardware for r in found.rows] == ["h100-sxm5-80gb", "l4"]


def test_what_does_not_fit_comes_last():
    big = subject("llama-3-70b-prefill")
    found = compare(Grid(subjects=[big], devices=named("l4", "mi300x")), ["memory"])
    assert [(r.hardware, r.fits) for r in found.rows] == [("mi300x", True), ("l4", False)]


def test_pareto_marks_what_no_other_row_beats():
    # the L4 is faster and draws more than the Orin Nano; the A10 is slower than L4 and draws more
    found = compare(over("l4", "jetson-orin-nano-8gb", "a10"), ["latency", "power"])
    marks = {r.hardware: r.pareto for r in found.rows}
    assert marks["l4"] is marks["jetson-orin-nano-8gb"] is True
    times = {r.hardware: r.figures["latency"].value for r in found.rows}
    assert marks["a10"] == (times["a10"] < times["l4"])


def test_nothing_to_compare():
    with pytest.raises(UnknownNameError, match="unknown metric 'speed'"):
        compare(over("l4"), ["speed"])
    with pytest.raises(InputError, match="at least one model and one device"):
        compare(Grid(subjects=[SUBJECT], devices=[]), ["latency"])
    with pytest.raises(InputError, match="at least one metric"):
        compare(over("l4"), [])


def test_prices_order_and_limit():
    prices = {"l4": 2500.0, "jetson-orin-nano-8gb": 249.0}
    field = over("l4", "jetson-orin-nano-8gb", "t4", prices=prices)
    found = select(field, parse_limits({"latency": "33ms", "price": 300}), "price")
    assert hardware(found.meets) == ["jetson-orin-nano-8gb"]
    assert hardware(found.unknown) == ["t4"]  # no price was given
    assert found.failed == ("l4",)


def test_near_misses_stand_apart_with_the_reason():
    points = SUBJECT.points(named("l4")[0], None)
    latency = min(p.facts.expected.low for p in points if p.facts.expected)
    found = select(over("l4"), parse_limits({"latency": latency * 0.99}))
    assert not found.meets
    assert found.near == () or found.near[0].reason.startswith("latency: ")
    # 17 MB against 15 MB: 13 % too much
    near = select(over("l4"), parse_limits({"memory": "15MB"}))
    assert hardware(near.near) == ["l4"]
    assert near.near[0].reason.startswith("memory: it needs 16.99 MB")
    assert select(over("l4"), parse_limits({"memory": "1MB"})).failed == ("l4",)


def test_each_device_takes_its_best_precision_and_only_what_it_has():
    field = over("l4", "v100-pcie-32gb", precisions=("fp16", "int8"))
    found = select(field, parse_limits({"latency": "33ms"}))
    formats = {c.row.hardware: c.row.precision for c in found.meets}
    assert formats["v100-pcie-32gb"] == "fp16"
    assert set(formats.values()) <= {"fp16", "int8"}


limits = st.fixed_dictionaries(
    {},
    optional={
        "latency": st.floats(1e-4, 1.0),
        "throughput": st.floats(1.0, 1e4),
        "power": st.floats(0.5, 1e3),
        "energy": st.floats(1e-4, 10.0),
        "memory": st.floats(1e6, 1e9),
    },
).filter(bool)


@settings(max_examples=8, deadline=None)
@given(limits, st.sampled_from(["latency", "power", "efficiency", "memory"]))
def test_over_the_catalog_nothing_that_violates_stands_above(wanted, sort):
    found = select(over(), parse_limits(wanted), sort)
    listed = hardware(found.meets) + hardware(found.unknown) + hardware(found.over_power)
    missed = hardware(c for c in found.near) + list(found.failed)
    assert sorted(listed + missed) == sorted(d.id for d in CATALOG)
    for candidate in found.meets:
        assert all(c.verdict.meets for c in candidate.constraints)
        for c in candidate.constraints:
            known = c.figure.value is not None or c.figure.worst is not None
            assert known, "an unknown never passes"
    for candidate in (*found.unknown, *found.over_power):
        assert {"UNKNOWN"} <= {c.verdict for c in candidate.constraints}
        assert "FAIL" not in {c.verdict for c in candidate.constraints}
    for candidate in found.near:
        assert "FAIL" in {c.verdict for c in candidate.constraints}


def test_what_is_expected_beyond_a_limit_stands_last_and_is_said():
    # Just below what one device is expected to need, which only the good end of its range meets.
    (orin,) = named("jetson-orin-nano-8gb")
    limit = 0.99 * YOLO.on(orin).facts.expected.value
    found = select(over(), parse_limits({"latency": limit}))
    times = [(c.verdict.value, c.row.figures["latency"].value) for c in found.meets]
    late = [i for i, (_, time) in enumerate(times) if time is not None and time > limit]
    assert late
    assert late == list(range(len(times) - len(late), len(times)))
    assert {times[i][0] for i in late} == {"MARGINAL"}
    assert f"of these {len(late)} only at the good end" in " ".join(render(found).split())


def test_reports_show_the_groups():
    found = select(over(), parse_limits({"latency": "33ms", "power": "75W"}))
    text = render(found)
    assert text.startswith("yolov8n: latency ≤ 33 ms, power ≤ 75 W\n")
    assert text.index("Meets all limits:") < text.index("Not known:") < text.index("Near misses")
    data = msgspec.json.decode(render(found, "json"))
    assert [c["row"]["hardware"] for c in data["meets"]] == hardware(found.meets)
    assert data["type"] == "gambrel/selection"


def test_a_comparison_in_text_says_what_is_unknown():
    found = compare(over("l4", "hailo-8"), ["efficiency", "latency", "price"])
    text = render(found)
    assert "best efficiency first" in text
    assert "unknown" in text


def test_a_toy_without_roofs_is_unknown_everywhere():
    bare = device(ceilings=(), memory=())
    field = Grid(subjects=[subject(perceptron())], devices=[bare])
    found = select(field, parse_limits({"latency": "1s"}))
    assert hardware(found.unknown) == ["toy"]


def strained(found):
    open_ = (*found.unknown, *found.over_power)
    return {c.row.hardware: (round(c.strain, 3), c.met_if) for c in open_}


def test_unknowns_say_what_would_have_to_come_true():
    field = over("coral-edge-tpu", "jetson-orin-nano-8gb", "a100-sxm4-80gb")
    found = select(field, parse_limits({"latency": "33ms", "power": "10W"}))
    said = strained(found)
    # 10 W of 15 W of design power: a third has to be saved.
    assert said["jetson-orin-nano-8gb"] == (0.333, "power at 67% of TDP")
    # Nothing is known but the bound, of which the limit allows a multiple.
    (coral,) = (c for c in found.unknown if c.row.hardware == "coral-edge-tpu")
    least = coral.row.figures["latency"].best
    assert said["coral-edge-tpu"] == (round(least / 0.033, 3), "latency at 23% of roofline")
    assert hardware(found.unknown) == ["coral-edge-tpu"]
    # Its design power is above the limit, and nothing says that it draws less.
    assert hardware(found.over_power) == ["jetson-orin-nano-8gb"]
    # Measured GPUs of its class draw more than that when they work, so it is no unknown.
    assert found.failed == ("a100-sxm4-80gb",)


def test_where_nothing_bounds_a_figure_everything_would_have_to_come_true():
    bare = device(ceilings=(), memory=())
    found = select(
        Grid(subjects=[subject(perceptron())], devices=[bare]),
        parse_limits({"latency": "1s"}),
    )
    assert strained(found) == {"toy": (1.0, "")}


def test_a_long_comparison_says_how_much_is_left_out():
    found = compare(over("l4", "t4", "a10"), ["latency"])
    short = render(found, "table", Options(top=2))
    assert "1 more; --top 0 shows all." in short
    assert "more;" not in render(found, "table", Options(top=0))


@pytest.mark.parametrize(("model", "phase"), [("yolov8n", None), ("llama-3-8b", "decode")])
def test_what_is_prepared_for_many_devices_changes_nothing(model, phase):
    # Over the catalog ops that share a formula are predicted together; over a few one by one.
    asked = {"latency": "20ms", "power": "300W", "phase": phase}
    kept: dict = {}
    whole = advising.select.answer(ask("select", {"model": model, **asked}), kept)
    (found, _), *rest = kept.values()
    assert not rest
    fleet = found.fleet()
    alone = Fleet(fleet.bench.workload, fleet._settings)
    for one in CATALOG:
        a, b = fleet.on(one), alone.on(one)
        assert (a.precision, a.runtime, a.bound) == (b.precision, b.runtime, b.bound)
        known = a.facts.expected, b.facts.expected
        if all(known):
            assert known[0].value == pytest.approx(known[1].value, rel=1e-12)

    # A second question with other limits uses the same fleet, and says what a fresh one does.
    def again_with(**more):
        return advising.select.answer(ask("select", {"model": model, **asked, **more}), kept)

    assert again_with() == whole
    other = asked | {"power": "75W"}
    again = again_with(prices={"l4": 2500}, power="75W")
    assert again == advising.select(model, prices={"l4": 2500}, **other) != whole
    assert len(kept) == 1
    assert again_with(batch_size=4) != whole
    assert len(kept) == 2


def test_a_price_is_no_part_of_what_is_kept():
    (l4,) = named("l4")
    assert [YOLO.on(l4, price=p).facts.price for p in (None, 2.0, None, 3.0)] == [None, 2, None, 3]


def test_the_best_runtime_is_named_and_those_asked_for_get_a_row_each():
    (h100,) = named("h100-sxm5-80gb")
    (best,) = compare(Grid(subjects=[subject("resnet50")], devices=[h100]), ["latency"]).rows
    rows = []
    for name in ("pytorch", "torch-compile", "tensorrt"):
        over_one = Grid(subjects=[subject("resnet50", runtime=name)], devices=[h100])
        rows += compare(over_one, ["latency"]).rows
    assert [row.runtime for row in rows] == ["pytorch", "torch-compile", "tensorrt"]
    times = [row.figures["latency"].value for row in rows]
    assert best.figures["latency"].value <= min(times)
    assert len({row.sol_time_s for row in (*rows, best)}) == 1  # no property of the runtime


def test_runtimes_share_what_is_evaluated_and_say_the_same():
    (l4,) = named("l4")
    for runtime in ("pytorch", "torch-compile", "onnxruntime", "tensorrt", "perfect"):
        chosen = Settings(runtime=runtime)
        shared = Fleet(zoo.load("yolov8n"), chosen, bench=YOLO.bench)
        assert shared.on(l4) == Fleet(zoo.load("yolov8n"), chosen).on(l4)


def test_under_a_few_watts_servers_of_unknown_power_come_last():
    few = over("gh200-96gb", "a2", "snapdragon-8-gen-3")
    found = select(few, parse_limits({"throughput": "30/s", "power": "10W"}))
    assert hardware(found.unknown) == ["snapdragon-8-gen-3", "gh200-96gb"]
    # Of its class an A2 draws the least, 60 W.
    found = select(few, parse_limits({"throughput": "30/s", "power": "100W"}))
    assert hardware(found.unknown) == ["gh200-96gb", "snapdragon-8-gen-3"]


def _faces(model, runtime):
    asked = {"runtime": runtime}
    return {
        "analyze": lambda: gambrel.analyze(model, "h100", **asked).expected_time_s.value,
        "sweep": lambda: gambrel.sweep(model, ["h100"], **asked).expected_time_s[0],
        "compare": lambda: (
            gambrel.compare(model, ["h100"], **asked).rows[0].figures["latency"].value
        ),
        "what_if": lambda: (
            gambrel.what_if(
                model, "h100", change=[f"runtime={runtime}"]
            ).after.total.expected_time_s.value
        ),
    }


def test_every_face_runs_an_encoder_under_a_serving_engine():
    assert len({round(float(face()), 12) for face in _faces("bert-base", "sglang").values()}) == 1


def test_no_face_runs_a_convolutional_network_under_a_serving_engine():
    for face in _faces("resnet50", "sglang").values():
        with pytest.raises(InputError, match="runs language models only"):
            face()


def test_a_runtime_leaves_the_devices_out_that_it_does_not_run_on():
    chosen = gambrel.select("resnet50", runtime="tensorrt", latency="10ms")
    assert chosen.meets
    assert "coral-edge-tpu" in chosen.refused
    with pytest.raises(InputError, match="does not run on"):
        gambrel.select("resnet50", hardware=["h100", "a100"], runtime="edgetpu", latency="10ms")
