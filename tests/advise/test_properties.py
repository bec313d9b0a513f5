"""Laws of checks and selections over the whole catalog and the zoo."""

import json
from functools import cache

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from gambrel.advise.check import judge_point
from gambrel.advise.compare import Grid
from gambrel.advise.figures import figure
from gambrel.advise.fleet import Fleet
from gambrel.advise.limits import LIMITED, METRICS, Limit, parse_limits
from gambrel.advise.recommend import recommend
from gambrel.advise.select import select
from gambrel.advise.verdict import Verdict, judge, worst
from gambrel.advise.whatif import with_change
from gambrel.analysis.analyze import analyze
from gambrel.analysis.settings import Settings
from gambrel.capture import zoo
from gambrel.capture.zoo import list_models
from gambrel.cli import run
from gambrel.device.catalog import list_devices
from gambrel.device.roofs import resolve
from tests.advise.small import subject

ORDER = [Verdict.PASS, Verdict.MARGINAL, Verdict.UNKNOWN, Verdict.FAIL]
DEVICES = list_devices()
#: Whatever the zoo holds, but for what takes long to read.
MODELS = sorted(m.name for m in list_models() if m.parameters < 2e9)
#: One of each family, for laws that ask every device.
FEW = sorted({m.family: m.name for m in list_models() if m.parameters < 2e8}.values())

models = st.sampled_from(MODELS)
few = st.sampled_from(FEW)
devices = st.sampled_from(DEVICES)
metrics = st.sampled_from(LIMITED)


@cache
def fleet(model, batch=None):
    workload = zoo.load(model)
    return Fleet(workload, Settings(sizes={"batch": batch} if batch else {}))


@cache
def kept(model, batch=None):
    return subject(model, batch, bulk=True)


@cache
def point(model, device_id):
    return fleet(model).on(next(d for d in DEVICES if d.id == device_id))


def around(found, factor):
    """A limit near the figures, so that every verdict comes up."""
    known = [v for v in (found.value, found.best, found.worst, found.low, found.high) if v]
    return (known[0] if known else 1.0) * factor


factors = st.floats(1e-3, 1e3)


@settings(max_examples=120, deadline=None)
@given(models, devices, metrics, factors, st.floats(0.01, 1.0))
def test_a_tighter_limit_never_makes_a_verdict_better(model, device, metric, factor, tighter):
    facts = point(model, device.id).facts
    value = around(figure(facts, metric), factor)
    harder = value / tighter if METRICS[metric].more_is_better else value * tighter
    loose, tight = (judge(facts, Limit(metric=metric, value=v)) for v in (value, harder))
    assert ORDER.index(tight.verdict) >= ORDER.index(loose.verdict)
    if loose.verdict is Verdict.FAIL:
        assert tight.verdict is Verdict.FAIL


@settings(max_examples=120, deadline=None)
@given(models, devices, metrics, factors)
def test_without_the_figure_there_is_no_pass(model, device, metric, factor):
    facts = point(model, device.id).facts
    found = figure(facts, metric)
    judged = judge(facts, Limit(metric=metric, value=around(found, factor)))
    if found.value is None and found.worst is None:
        assert not judged.verdict.meets
    if all(getattr(found, name) is None for name in ("value", "low", "high", "best", "worst")):
        assert judged.verdict is Verdict.UNKNOWN
        assert judged.headroom is None
    assert judged.reason


@settings(max_examples=60, deadline=None)
@given(models, devices, st.dictionaries(metrics, factors, min_size=1, max_size=4))
def test_the_whole_is_as_bad_as_its_worst_part(model, device, wanted):
    at = point(model, device.id)
    limits = [Limit(metric=m, value=around(figure(at.facts, m), f)) for m, f in wanted.items()]
    parts = judge_point(at, limits)
    assert worst(c.verdict for c in parts) is max((c.verdict for c in parts), key=ORDER.index)
    if at.fits is False:
        assert worst(c.verdict for c in parts) is Verdict.FAIL


@settings(max_examples=12, deadline=None)
@given(
    few,
    st.floats(1e-5, 10.0),
    st.one_of(st.none(), st.floats(0.5, 1000)),
    st.sampled_from(["latency", "throughput", "power", "energy", "efficiency", "memory"]),
)
def test_what_violates_never_stands_above_what_meets(model, latency, power, sort):
    limits = parse_limits({"latency": latency, "power": power})
    found = select(Grid(subjects=[kept(model)], devices=DEVICES), limits, sort)
    assert all(c.verdict.meets for c in found.meets)
    assert all(c.verdict is Verdict.UNKNOWN for c in found.unknown)
    assert all(c.verdict is Verdict.FAIL for c in found.near)
    for c in found.meets:
        for part in c.constraints:
            assert part.verdict.meets
            best = part.figure.best
            assert best is None or best <= part.limit, "the best possible run violates it"
    order = [ORDER.index(c.verdict) for c in found.meets]
    assert order == sorted(order)
    strains = [c.strain for c in found.unknown]
    assert strains == sorted(strains)
    assert all(0 <= s <= 1 for s in strains)
    groups = (found.meets, found.unknown, found.over_power, found.near)
    everyone = [c.row.hardware for g in groups for c in g]
    assert sorted([*everyone, *found.failed]) == sorted(d.id for d in DEVICES)


@settings(max_examples=12, deadline=None)
@given(few, st.floats(1e-5, 10.0), st.floats(0.01, 1.0), st.floats(1, 500))
def test_tighter_limits_never_add_a_device(model, latency, tighter, power):
    field = Grid(subjects=[kept(model)], devices=DEVICES)

    def met(seconds):
        found = select(field, parse_limits({"latency": seconds, "power": power}))
        return {c.row.hardware for c in found.meets}

    assert met(latency * tighter) <= met(latency)


@pytest.mark.parametrize("latency", ["10us", "700us", "5ms", "1s"])
@pytest.mark.parametrize(
    "place", ["resnet50 a100", "yolov8n coral-edge-tpu", "bert-base t4", "llama-3.2-1b hailo-8"]
)
@pytest.mark.parametrize("power", [None, "15W"])
def test_verdict_exit_code_and_json_agree(latency, power, place, capsys):
    model, hardware = place.split()
    words = ["check", model, "--hardware", hardware, "--latency", latency, "--json"]
    code = run([*words, *(["--power", power] if power else [])])
    told = json.loads(capsys.readouterr().out)
    parts = [Verdict(c["verdict"]) for c in told["constraints"]]
    assert Verdict(told["verdict"]) is max(parts, key=ORDER.index)
    assert code == {"PASS": 0, "MARGINAL": 0, "FAIL": 1, "UNKNOWN": 3}[told["verdict"]]
    assert run([w for w in words if w != "--json"]) in (0, 1, 3)
    if not power:
        assert capsys.readouterr().out.splitlines()[1].startswith(told["verdict"])


@settings(max_examples=6, deadline=None)
@given(few, devices)
def test_recommendations_hold_when_they_are_applied(model, device):
    before = analyze(zoo.load(model), device)
    assume(before.roofline_time_s is not None)
    for r in recommend(before):
        after = with_change(before, r.changes)

        def per_item(found, kind=r.time_kind):
            time = found.expected_time_s.value if kind == "expected" else found.roofline_time_s
            return time / found.model.symbols.get("batch", 1)

        assert per_item(before) / per_item(after) == pytest.approx(r.gain, rel=1e-9)
        assert r.gain >= 1.05
        assert after.footprint.fits is not False
        if any(text.startswith("precision=") for text in r.changes):
            roof = resolve(device, "matrix", after.model.precision)
            assert roof.dtype == after.model.precision


def test_contradicting_limits_are_one_sentence_each():
    limits = parse_limits({"latency": "10ms", "throughput": "1000fps"})
    found = select(Grid(subjects=[kept("resnet18", 1)], devices=DEVICES), limits)
    (note,) = found.notes
    assert "1000 items/s at batch 1 need a batch every 1 ms" in note
    assert "raise the batch" in note
    at_batch = select(Grid(subjects=[kept("resnet18", 16)], devices=DEVICES), limits)
    assert at_batch.notes == ()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("--latency -5ms", "latency"),
        ("--latency 0ms", "latency"),
        ("--latency 5", "has no unit"),
        ("--latency 5W", "latency"),
        ("--power 10ms", "power"),
        ("--memory 4", "has no unit"),
        ("--throughput -30fps", "throughput"),
        ("--throughput nan", "throughput"),
        ("--latency inf", "latency"),
        ("--energy 5", "has no unit"),
        ("--latency ''", "latency"),
        ("--latency 1e400ms", "latency"),
    ],
)
@pytest.mark.parametrize("command", ["check resnet50 --hardware a100", "select resnet50"])
def test_impossible_limits_are_one_sentence(command, words, message, capsys):
    import shlex

    assert run([*command.split(), *shlex.split(words)]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert len(err.splitlines()) == 1
