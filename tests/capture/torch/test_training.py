"""Training steps: work, phases, owners and roles."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from gambrel.capture.torch import capture
from gambrel.errors import CaptureError
from gambrel.workload import Phase, Role
from tests.capture.torch.reading import matrix_flops

pytestmark = pytest.mark.torch


def _mlp() -> nn.Module:
    return nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 8))


def test_backward_of_an_mlp_is_twice_the_forward_less_the_input_gradient():
    w = capture(_mlp(), torch.randn(4, 16), train=True)
    # forward: 2*4*16*32 = 4,096 and 2*4*32*8 = 2,048
    assert matrix_flops(w, Phase.FORWARD) == 4096 + 2048
    # backward: gradients of both weights 4,096 + 2,048, of the hidden layer 2,048; the input
    # needs none
    assert matrix_flops(w, Phase.BACKWARD) == 4096 + 2048 + 2048


def test_backward_is_exactly_twice_when_the_input_wants_a_gradient():
    w = capture(_mlp(), torch.randn(4, 16, requires_grad=True), train=True)
    assert matrix_flops(w, Phase.BACKWARD) == 2 * (4096 + 2048)


def test_backward_of_a_convolutional_net():
    model = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.ReLU(), nn.Conv2d(8, 4, 3, padding=1))
    w = capture(model, torch.randn(2, 3, 10, 10, requires_grad=True), train=True)
    first = 2 * 2 * 8 * 3 * 9 * 100  # 2 · batch · out · in · 3·3 · 10·10 = 86,400
    second = 2 * 2 * 4 * 8 * 9 * 100  # 115,200
    assert matrix_flops(w, Phase.FORWARD) == first + second == 201_600
    assert matrix_flops(w, Phase.BACKWARD) == 403_200


def test_backward_ops_belong_to_the_modules_that_ran_forward():
    w = capture(_mlp(), torch.randn(4, 16), train=True)
    backward = [op for op in w.ops if op.phase is Phase.BACKWARD]
    assert [op.module for op in backward if op.kind == "matmul"] == ["2", "2", "0"]
    assert [op.module for op in backward if op.name == "aten.threshold_backward"] == ["1"]


def test_phases_follow_each_other():
    phases = [op.phase for op in capture(_mlp(), torch.randn(4, 16), train=True).ops]
    order = [Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER]
    assert phases == sorted(phases, key=order.index)
    assert set(phases) == set(order)


def test_adamw_is_the_default_and_reads_gradients_and_states():
    w = capture(_mlp(), torch.randn(4, 16), train=True)
    steps = [op for op in w.ops if op.phase is Phase.OPTIMIZER]
    # two weights and two biases: 512, 32, 256, 8 elements
    assert [op.sizes["elements"] for op in steps] == [512, 32, 256, 8]
    assert {op.attrs["function"] for op in steps} == {"adamw"}
    assert [op.module for op in steps] == ["0", "0", "2", "2"]
    roles = [w.tensors[i].role for i in steps[0].inputs]
    assert roles == [Role.WEIGHT, Role.GRADIENT, Role.OPTIMIZER_STATE, Role.OPTIMIZER_STATE]
    assert [w.tensors[i].version for i in steps[0].outputs] == [1, 1, 1]
    assert w.training


@pytest.mark.parametrize(
    ("optimizer", "function", "states"),
    [
        ("sgd", "sgd", 0),
        ("sgd-momentum", "sgd_momentum", 1),
        ("adam", "adam", 2),
        (torch.optim.SGD, "sgd", 0),
        (torch.optim.AdamW, "adamw", 2),
    ],
)
def test_other_optimizers(optimizer, function, states):
    w = capture(_mlp(), torch.randn(4, 16), train=True, optimizer=optimizer)
    steps = [op for op in w.ops if op.phase is Phase.OPTIMIZER]
    assert {op.attrs["function"] for op in steps} == {function}
    assert {len(op.inputs) for op in steps} == {2 + states}


def test_instance_of_an_optimizer_with_momentum():
    model = _mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    w = capture(model, torch.randn(4, 16), train=True, optimizer=optimizer)
    steps = [op for op in w.ops if op.phase is Phase.OPTIMIZER]
    assert {op.attrs["function"] for op in steps} == {"sgd_momentum"}
    assert not optimizer.state


def test_nesterov_looks_ahead():
    model = _mlp()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    w = capture(model, torch.randn(4, 16), train=True, optimizer=optimizer)
    steps = [op for op in w.ops if op.kind == "optimizer"]
    assert {op.attrs["function"] for op in steps} == {"sgd_nesterov"}


def test_optimizer_without_a_formula_is_recorded_op_by_op():
    w = capture(_mlp(), torch.randn(4, 16), train=True, optimizer=torch.optim.Rprop)
    steps = [op for op in w.ops if op.phase is Phase.OPTIMIZER]
    assert len(steps) > 4
    assert "optimizer" not in {op.kind for op in steps}


@pytest.mark.parametrize("optimizer", [torch.optim.RMSprop, torch.optim.RAdam, torch.optim.Adagrad])
def test_the_recorded_step_is_not_the_first(optimizer):
    """States are made once; RAdam takes roots from its sixth step on."""
    w = capture(_mlp(), torch.randn(4, 16), train=True, optimizer=optimizer)
    steps = [op for op in w.ops if op.phase is Phase.OPTIMIZER]
    assert "fill" not in {op.kind for op in steps}
    assert sum(op.name == "aten.sqrt" for op in steps) == 4  # one a parameter
    states = {t.storage: t for t in w.tensors if t.role is Role.OPTIMIZER_STATE}
    kept = 2 if optimizer is torch.optim.RAdam else 1
    assert sorted(t.shape for t in states.values()) == sorted(
        kept * [(32, 16), (32,), (8, 32), (8,)]
    )


def test_no_optimizer():
    w = capture(_mlp(), torch.randn(4, 16), train=True, optimizer="none")
    assert Phase.OPTIMIZER not in {op.phase for op in w.ops}


def test_loss_of_the_user_replaces_the_sum():
    x = torch.randn(4, 16)
    target = torch.zeros(4, dtype=torch.long)
    plain = capture(_mlp(), x, train=True)
    assert plain.assumptions == (
        "assumed that the loss is the sum of the outputs, for want of another.",
    )
    own = capture(_mlp(), x, train=True, loss=lambda y: nn.functional.cross_entropy(y, target))
    assert own.assumptions == ()
    assert any(op.kind == "loss" for op in own.ops)


def test_loss_of_a_library_model_is_used(transformers):
    config = transformers.GPT2Config(vocab_size=99, n_embd=16, n_layer=1, n_head=2)
    ids = torch.zeros(1, 8, dtype=torch.long)
    kwargs = {"input_ids": ids, "labels": ids}
    w = capture(transformers.GPT2LMHeadModel(config), kwargs=kwargs, train=True)
    assert w.assumptions == ()
    assert any(op.kind == "loss" for op in w.ops)
    backward = [op.kind for op in w.ops if op.phase is Phase.BACKWARD]
    assert backward.count("attention_backward") == 1


def test_attention_backward_has_the_sizes_of_its_forward():
    class Attend(nn.Module):
        def forward(self, q, k, v):
            return nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)

    q = torch.randn(2, 4, 16, 8, requires_grad=True)
    k, v = (torch.randn(2, 4, 16, 8, requires_grad=True) for _ in range(2))

    class Wrapped(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(()))
            self.attend = Attend()

        def forward(self, q, k, v):
            return self.attend(q * self.scale, k, v)

    w = capture(Wrapped(), (q, k, v), train=True)
    forward = next(op for op in w.ops if op.kind == "attention")
    backward = next(op for op in w.ops if op.kind == "attention_backward")
    assert forward.sizes == backward.sizes
    assert backward.attrs["causal"] is True
    assert backward.module == "attend"
    assert len(backward.outputs) == 3


def test_checkpointed_module_runs_again_in_backward():
    from torch.utils.checkpoint import checkpoint

    class Saved(nn.Module):
        def __init__(self):
            super().__init__()
            self.block = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))

        def forward(self, x):
            return checkpoint(self.block, x, use_reentrant=False)

    w = capture(Saved(), torch.randn(2, 8), train=True)
    # A layer is 2·2·8·8 = 256. In backward the first layer runs again (the second layer's input is
    # then there), and there are gradients of two weights and of the hidden layer.
    assert matrix_flops(w, Phase.FORWARD) == 2 * 256
    assert matrix_flops(w, Phase.BACKWARD) == 256 + 3 * 256
    again = [op for op in w.ops if op.phase is Phase.BACKWARD and op.name == "aten.addmm"]
    assert [op.module for op in again] == ["block.0"]


def test_errors():
    frozen = _mlp().requires_grad_(False)
    with pytest.raises(CaptureError, match="no output depends on a trainable parameter"):
        capture(frozen, torch.randn(4, 16), train=True)
    with pytest.raises(CaptureError, match=r"unknown optimizer 'adamx'; choose one of adamw, adam"):
        capture(_mlp(), torch.randn(4, 16), train=True, optimizer="adamx")
    with pytest.raises(CaptureError, match=r"one number that can be differentiated, not shape"):
        capture(_mlp(), torch.randn(4, 16), train=True, loss=lambda y: y)
