"""Steps of torch code are counted once for each signature, then only timed."""

import pytest

torch = pytest.importorskip("torch")

import gambrel  # noqa: E402
from gambrel.errors import UnknownNameError  # noqa: E402


def trained():
    model = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.ReLU(), torch.nn.Linear(128, 32))
    return model, torch.optim.SGD(model.parameters(), 0.1)


def test_a_training_step_counts_forward_and_backward():
    """Forward 2·16·(64·128 + 128·32); backward twice that, without the gradient of the input."""
    model, optimizer = trained()
    with gambrel.track(device="a100") as t:
        for batch in t.iterate([torch.randn(16, 64)] * 2):
            optimizer.zero_grad()
            model(batch).sum().backward()
            optimizer.step()
    forward = 2 * 16 * (64 * 128 + 128 * 32)
    assert t.last.flops == 3 * forward - 2 * 16 * 64 * 128
    assert [s.counted for s in t.steps] == [True, False]


def test_each_signature_is_counted_once():
    model, _ = trained()
    with gambrel.track() as t:
        for rows in (16, 8, 16, 8):
            with t.step(torch.empty(rows, 64)):
                model(torch.randn(rows, 64))
    assert [s.counted for s in t.steps] == [True, True, False, False]
    assert t.steps[2].flops == 2 * t.steps[3].flops
    assert len(t.works()) == 2


def test_figures_follow_from_work_time_and_peaks():
    with gambrel.track(device="h100") as t, t.step("one"):
        torch.randn(64, 64, dtype=torch.bfloat16) @ torch.randn(64, 64, dtype=torch.bfloat16)
    step = t.last
    assert step.flops == 2 * 64**3
    assert step.achieved_flop_per_s == pytest.approx(step.flops / step.measured_time_s)
    assert t.works()[0].peak_time_s == pytest.approx(2 * 64**3 / 989.4e12, rel=1e-3)
    assert t.mfu == pytest.approx(t.works()[0].peak_time_s / step.measured_time_s)


def test_without_a_device_there_are_rates_and_no_shares():
    with gambrel.track() as t, t.step():
        torch.randn(8, 8) @ torch.randn(8, 8)
    assert t.mfu is None
    assert "MFU unknown" in str(t)


def test_nothing_was_tracked_yet():
    with gambrel.track() as t:
        assert t.last is None
    assert (str(t), t.mfu) == ("no step yet", None)


def test_an_unknown_device_is_refused():
    with pytest.raises(UnknownNameError), gambrel.track(device="h1000000"):
        pass
