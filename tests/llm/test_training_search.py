"""Searches of training layouts, recomputation by class, offloading."""

from __future__ import annotations

import msgspec
import pytest

import gambrel
from gambrel.cli import run
from gambrel.device.resolve import resolve_hardware
from gambrel.errors import InputError
from gambrel.llm.known import spec_of
from gambrel.llm.recompute import choices, classes_of, parse
from gambrel.llm.sharding import Sharding
from gambrel.llm.training import train
from gambrel.llm.training_plan import TrainingPlan
from gambrel.report import render

LLAMA = spec_of("llama-3.1-8b")
H100 = resolve_hardware("h100")[0]
PLAN = TrainingPlan(
    sequences=1, seq=8192, microbatches=4, zero=2, sharding=Sharding(data=8), recompute="none"
)


def trained(**changes):
    return train(LLAMA, H100, msgspec.structs.replace(PLAN, **changes))


@pytest.fixture(scope="module")
def none():
    return trained()


@pytest.fixture(scope="module")
def found():
    return gambrel.train_search("llama-3.1-8b", "h100", seq=8192, devices=16, global_batch=64,
                                topology="dgx-h100")  # fmt: skip


def test_what_classes_free_by_hand(none):
    freed = {c.name: c.freed_bytes for c in none.choices}
    # In 16 bits, 8,192 tokens, 32 layers. The step is fullest at the loss, before any runs again.
    # Norms: two outputs of 4,096. Activations: 14,336. The first product: twice that.
    # Attention: 4,096. Projections: 32 + 2 x 8 heads of 128.
    per = 8192 * 2 * 32
    widths = {"norms": 2 * 4096, "activations": 14336, "feed-forward": 28672}
    widths |= {"attention": 4096, "projections": 48 * 128}
    del freed["full"]
    assert freed == {name: per * width for name, width in widths.items()}


def test_costs_of_classes_are_those_of_the_plan_with_them(none):
    for choice in none.choices:
        again = trained(recompute=choice.name)
        assert again.step_s - none.step_s == pytest.approx(choice.cost_s, abs=1e-9 * none.step_s)
        less = none.memory.total_bytes - again.memory.total_bytes
        assert less == pytest.approx(choice.freed_bytes)
        assert again.mfu * again.step_s == pytest.approx(none.mfu * none.step_s)
        assert again.sol_step_s == none.sol_step_s


def test_the_least_time_that_fits(none):
    assert trained(recompute="auto").recompute == "none"  # it fits as it is
    longer = {"sequences": 2, "recompute": "auto"}
    auto = trained(**longer)
    assert auto.memory.within(0.95)
    assert not trained(sequences=2).memory.fits
    for name in choices(frozenset(c.name for c in none.choices if c.name != "full")):
        other = trained(sequences=2, recompute=name)
        assert not other.memory.within(0.95) or other.step_s >= auto.step_s
    # Where nothing fits, the least memory.
    assert trained(sequences=64, recompute="auto").recompute == "full"


def test_names_of_choices():
    assert parse("activations, norms") == "norms,activations"
    assert classes_of("full") > classes_of("norms,attention") == {"norms", "attention"}
    with pytest.raises(
        InputError, match="recompute='layers': use none, selective, full, auto, or some of"
    ):
        parse("layers")
    assert list(choices(frozenset({"norms"}))) == ["none", "norms", "full"]


def test_offloading_pays_the_link(none):
    away = trained(offload="optimizer")
    # An eighth of 8.03 G parameters, 2 bytes out and 2 back, at 63 GB/s.
    assert away.offload_s == pytest.approx(4 * 8_030_261_248 / 8 / 63e9)
    assert away.step_s == pytest.approx(none.step_s + away.offload_s)
    assert away.memory.optimizer_bytes == 0
    both = trained(offload="all")
    # Logits stay; of what layers leave, two layers.
    logits = 4 * 8192 * 128256
    left = both.memory.activations_bytes - logits
    assert left < (none.memory.activations_bytes - logits) / 8
    assert both.offload_s > away.offload_s


def test_a_search_agrees_with_the_plan_of_its_best(found):
    best = found.best[0]
    assert found.step.step_s == pytest.approx(best.step_s)
    assert found.step.memory.total_bytes == pytest.approx(best.memory_bytes)
    assert found.mfu(best) == pytest.approx(found.step.mfu)
    other = train(LLAMA, H100, found.best[1].plan, topology="dgx-h100")
    assert other.step_s == pytest.approx(found.best[1].step_s)


def test_a_search_uses_all_devices_and_the_batch_and_is_ranked(found):
    times = [t.step_s for t in found.best]
    assert times == sorted(times)
    for trial in (*found.best, *found.pareto):
        p = trial.plan
        assert p.sharding.devices == 16
        assert p.tokens == 64 * 8192
        assert trial.memory_bytes <= 0.95 * found.capacity_bytes
    assert all(t.why_not for t in found.best[1:])
    memory = [t.memory_bytes for t in found.pareto]
    assert memory == sorted(memory, reverse=True)
    assert found.pareto[0].step_s == times[0]


def test_a_search_on_the_command_line(capsys):
    asked = ["train-plan", "llama-3.1-8b", "-d", "h100", "--seq", "4k", "--search"]
    assert run([*asked, "--devices", "8", "--global-batch", "16", "--tensor", "2"]) == 0
    said = capsys.readouterr().out
    assert "Best:     TP2" in said
    assert "Why not the next" in said
    assert run([*asked, "--devices", "8"]) == 2
    assert "a search needs global-batch" in capsys.readouterr().err
    assert run([*asked, "--devices", "7", "--global-batch", "3", "--tensor", "2"]) == 2
    assert "tensor=2 does not divide the 7 devices; it may be 1, 7." in capsys.readouterr().err
    assert run([*asked[:-1], "--devices", "8"]) == 2
    assert "belong to a search" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        (["--tensor", "3"], "tensor=3 does not divide the 8 devices; it may be 1, 2, 4, 8."),
        (["--context-parallel", "5"], "context=5 does not divide the 8 devices"),
        (["--data", "3"], "data=3 does not divide the 8 devices"),
        (["--devices", "6", "--tensor", "3"], "tensor=3 does not divide the 32 attention heads"),
        (["--zero", "3", "--recompute", "full"], "--zero, --recompute: a search decides this"),
    ],
)
def test_what_a_search_refuses(more, sentence, capsys):
    asked = ["train-plan", "llama-3.1-8b", "-d", "h100", "--seq", "4k", "--search"]
    assert run([*asked, "--devices", "8", "--global-batch", "16", *more]) == 2
    assert sentence in capsys.readouterr().err


def test_replicas_that_are_given_stay():
    found = gambrel.train_search(
        "llama-3.1-8b", "h100", seq=4096, devices=8, global_batch=16, data=2
    )
    assert {t.plan.sharding.data for t in found.best} == {2}


@pytest.mark.parametrize("share", [1.0, 0.8])
def test_a_search_fills_the_share_of_the_memory_that_is_given(share):
    asked = {"seq": 8192, "devices": 16, "global_batch": 64, "topology": "dgx-h100"}
    other = gambrel.train_search("llama-3.1-8b", "h100", **asked, utilization=share)
    usual = gambrel.train_search("llama-3.1-8b", "h100", **asked)
    assert all(t.memory_bytes <= share * other.capacity_bytes for t in (*other.best, *other.pareto))
    faster, slower = sorted((other, usual), key=lambda f: -f.utilization)
    assert faster.best[0].step_s < slower.best[0].step_s
    with pytest.raises(InputError, match=r"utilization=0.0: a share above 0"):
        gambrel.train_search("llama-3.1-8b", "h100", **asked, utilization=0.0)


@pytest.mark.parametrize(
    ("seq", "said"),
    [(8192, ", fits\n"), (9216, "with too little left for the context"), (12288, "does NOT fit")],
)
def test_a_step_says_how_it_fits(seq, said):
    layout = {"sequences": 3, "data": 8, "zero": 1, "recompute": "full"}
    step = gambrel.train_plan("llama-3.1-8b", "h100", seq=seq, **layout)
    assert said in render(step, "markdown")


def test_a_search_where_nothing_fits():
    found = gambrel.train_search("llama-3.1-405b", "h100", seq=8192, devices=8, global_batch=8)
    assert not found.best
    assert found.nearest.memory_bytes > found.capacity_bytes
    assert found.step is None


def test_a_search_needs_measured_stacks():
    with pytest.raises(gambrel.GambrelError, match="no training step was measured"):
        gambrel.train_search("llama-3.1-8b", "rtx-4090", seq=4096, devices=8, global_batch=8)
