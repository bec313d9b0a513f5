"""Sentences that a user meets when a model cannot be captured."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from gambrel.capture.torch import capture
from gambrel.errors import CaptureError

pytestmark = pytest.mark.torch


class Wrap(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.inner = Inner(function)

    def forward(self, x):
        return self.inner(x)


class Inner(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def test_number_read_from_data_names_module_and_way_out():
    # On meta the input has no values, so the slice has no length.
    with pytest.raises(CaptureError) as caught:
        capture(Wrap(lambda x: x[: int(x.sum())]), torch.empty(3, device="meta"))
    message = str(caught.value)
    assert message.startswith("cannot capture Wrap: it stopped in module 'inner' at or after")
    assert "reads a number out of a tensor that depends on its input's data" in message
    assert "\n" not in message


@pytest.mark.parametrize(
    ("function", "way_out"),
    [
        (lambda x: torch.arange(x.max()), "decides a size, which is therefore unknown"),
        (lambda x: x[x.argmax().item()], "is an index, so data decide what is read"),
        (lambda x: x * float(x.sum()), "take that part of the model out of the forward pass"),
    ],
)
def test_a_number_read_from_data_names_its_line_and_what_fits_its_use(function, way_out):
    with pytest.raises(CaptureError) as caught:
        capture(Wrap(function), torch.empty(3, device="meta"))
    line = function.__code__.co_firstlineno
    assert "at or after aten._local_scalar_dense: the model reads" in str(caught.value)
    assert f"(test_errors.py:{line}: (lambda x: " in str(caught.value)
    assert way_out in str(caught.value)


def test_a_value_that_the_meta_device_lacks_asks_for_the_cpu():
    class Padded(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.tensor(2))

        def forward(self, x):
            return nn.functional.pad(x, (self.total, 0))

    x = torch.zeros(1, 1, 4)
    assert capture(Padded(), x).ops  # on the CPU the buffer has its value
    with torch.device("meta"):
        model = Padded()
    with pytest.raises(
        CaptureError, match="value of its tensor 'total', which has none on the meta"
    ) as e:
        capture(model, x)
    assert "build the model on the CPU" in str(e.value)


def test_conditions_on_data_take_the_usual_way_and_say_so():
    def usual(x):
        if not bool((x > 0).all()) or bool(x.isnan().any()):
            raise ValueError("unusual data")
        return x.exp()

    w = capture(Wrap(usual), torch.empty(3, device="meta"))
    assert w.ops[-1].name == "aten.exp"
    assert w.assumptions == (
        "assumed that where the control flow tests data, 'all' of the elements pass and 'any' "
        "does not occur (in inner).",
    )


@pytest.mark.parametrize("read", [lambda x: x.tolist(), lambda x: x.numpy(), list])
def test_values_read_from_data(read):
    with pytest.raises(CaptureError, match="reads a number out of a tensor"):
        capture(Wrap(lambda x: x * len([float(v) for v in read(x)])), torch.empty(3, device="meta"))


def test_op_without_a_shape_function():
    library = torch.library.Library("gambrel_test", "DEF")
    library.define("opaque(Tensor x) -> Tensor")
    library.impl("opaque", lambda x: x.clone(), "CPU")
    with pytest.raises(CaptureError, match=r"gambrel_test\.opaque.*torch\.library\.register_fake"):
        capture(Wrap(torch.ops.gambrel_test.opaque), torch.randn(3))


def test_wrong_inputs():
    with pytest.raises(CaptureError, match="Do the example inputs"):
        capture(nn.Linear(4, 4), (torch.randn(2, 4), torch.randn(2, 4)))
    with pytest.raises(CaptureError, match=r"after aten\.addmm: RuntimeError.*with these inputs\?"):
        capture(nn.Linear(4, 4), torch.randn(2, 5))


def test_array_is_no_tensor():
    with pytest.raises(
        CaptureError, match=r"input 'input' is a numpy\.ndarray; pass a torch\.Tensor"
    ):
        capture(nn.Linear(4, 4), (np.zeros((2, 4)),))


def test_sparse_input():
    with pytest.raises(CaptureError, match=r"tensor 'input' is sparse_coo; capture takes dense"):
        capture(nn.Linear(4, 4), torch.eye(4).to_sparse())


def test_lazy_parameter():
    with pytest.raises(CaptureError, match=r"parameter 'weight' is lazy and has no shape yet"):
        capture(nn.LazyLinear(4), torch.randn(2, 4))


def test_input_that_cannot_be_copied():
    with pytest.raises(CaptureError, match=r"input 'x' \(generator\) cannot be copied"):
        capture(Wrap(lambda x: x), ((i for i in range(3)),))


def test_unknown_number_format():
    with pytest.raises(CaptureError, match=r"bits16 has no counterpart"):
        capture(Wrap(lambda x: x.clone()), torch.empty(3, dtype=torch.bits16))


def test_callable_that_is_no_module():
    w = capture(lambda x: x @ x, torch.randn(4, 4), name="square")
    assert (w.name, [op.kind for op in w.ops]) == ("square", ["matmul"])


def test_inference_mode_inside_the_model_changes_nothing():
    layer = nn.Linear(4, 4)
    x = torch.randn(2, 3, 4)
    plain = capture(Wrap(lambda x: layer(x).relu()), x, source=False)
    inside = capture(Wrap(torch.inference_mode()(lambda x: layer(x).relu())), x, source=False)
    assert [op.name for op in inside.ops] == [op.name for op in plain.ops]


def test_hard_coded_device():
    w = capture(Wrap(lambda x: x.cuda() * 2), torch.randn(3))
    assert [op.name for op in w.ops] == ["aten.mul"]
