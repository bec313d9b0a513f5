"""Training steps: what is measured, and that nothing of the model is left changed."""

import pytest

torch = pytest.importorskip("torch")

from gambrel import RooflineAnalyzer  # noqa: E402
from gambrel.device.lookup import from_peaks  # noqa: E402
from gambrel.errors import CaptureError, InputError  # noqa: E402

nn = torch.nn
FAST = from_peaks(1e18, 1e18, name="fast")


def model():
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.5))


def profiled(net, sample, **options):
    ra = RooflineAnalyzer(net, sample, FAST)
    ra.profile("cpu", **({"warmup": 1, "steps": 2, "train": True} | options))
    return ra


def test_forward_backward_and_optimizer_have_their_times():
    ra = profiled(model(), torch.randn(4, 8))
    assert {p.phase for p in ra.results} == {"forward", "backward", "optimizer"}
    assert all(p.time_s is not None and p.time_s > 0 for p in ra.results)
    # Weight and bias of the linear layer and of the norm: four updates in one call.
    (update,) = [p for p in ra.results if p.phase == "optimizer"]
    assert (update.count, update.name) == (4, "torch.optim.adamw (4 updates)")
    # 2 * batch 4 * 8 * 16 for the product; backward has the same for the weights, and no gradient
    # of the input is wanted.
    work = [(p.phase, p.flops) for p in ra.results if p.type == "matmul"]
    assert work == [("forward", 1024), ("backward", 1024)]


def test_weights_gradients_buffers_flags_and_random_state_are_as_they_were():
    net = model().eval()
    net[0].weight.grad = torch.full_like(net[0].weight, 3.0)
    before = {k: v.clone() for k, v in net.state_dict().items()}
    sample = torch.randn(4, 8)
    state = torch.get_rng_state()
    profiled(net, sample, optimizer="sgd_momentum")
    assert torch.equal(torch.get_rng_state(), state)
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert torch.equal(net[0].weight.grad, torch.full_like(net[0].weight, 3.0))
    assert net[1].weight.grad is None
    assert not net.training
    assert not net[3].training


def test_an_optimizer_of_the_user_gives_its_settings_and_is_not_stepped():
    net = model()
    own = torch.optim.AdamW(net.parameters(), lr=0.5, weight_decay=0.1)
    ra = profiled(net, torch.randn(4, 8), optimizer=own)
    assert own.state_dict()["state"] == {}
    assert any(p.phase == "optimizer" for p in ra.results)
    without = profiled(net, torch.randn(4, 8), optimizer="none")
    assert not any(p.phase == "optimizer" for p in without.results)


def test_the_loss_of_the_user_is_differentiated():
    seen = []

    def loss(out):
        seen.append(out.shape)
        return (out**2).mean()

    ra = profiled(model(), torch.randn(4, 8), loss=loss)
    assert len(seen) >= 4  # captured once, and run in every step
    assert any(p.phase == "backward" for p in ra.results)


def test_errors_leave_the_model_alone():
    net = model().eval()
    with pytest.raises(CaptureError, match="unknown optimizer 'lion'"):
        profiled(net, torch.randn(4, 8), optimizer="lion")
    frozen = nn.Linear(2, 2).requires_grad_(False)
    with pytest.raises(CaptureError, match="nothing to train"):
        profiled(frozen, torch.randn(1, 2))
    with pytest.raises(InputError, match="give 'op' or 'module'"):
        profiled(net, torch.randn(4, 8)).summary(by="layer")
    assert not net.training


class Interrupted(nn.Module):
    """Runs on the meta device and is interrupted in the third real step."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        if self.layer.weight.device.type != "meta":
            self.calls += 1
            if self.calls == 3:
                raise KeyboardInterrupt
        return self.layer(x)


def test_an_interrupted_training_restores_everything():
    net = Interrupted().eval()
    before = {k: v.clone() for k, v in net.state_dict().items()}
    threads, precision = torch.get_num_threads(), torch.get_float32_matmul_precision()
    with pytest.raises(KeyboardInterrupt):
        profiled(net, torch.randn(2, 4))
    assert net.calls == 3
    for key, value in net.state_dict().items():
        assert torch.equal(value, before[key]), key
    assert net.layer.weight.grad is None
    assert not net.training
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == threads
    assert torch.get_float32_matmul_precision() == precision
    assert not net._forward_hooks
    assert not net._forward_pre_hooks


def test_peak_memory_counts_weights_states_gradients_and_activations():
    net = nn.Linear(64, 64, bias=False)
    ra = profiled(net, torch.randn(32, 64))
    # Weight, gradient and two states of 16,384 bytes are alive together in the optimizer, and the
    # input (8,192) all along.
    assert ra.totals.peak_bytes >= 4 * 16384 + 8192
    assert ra.totals.peak_bytes <= 2 * ra.totals.predicted_bytes
