"""Models exported by torch.onnx: the matrix FLOP of the capture of the module, exactly."""

import contextlib
import io
import warnings

import pytest

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def compared(name, build, *, dynamo=False):
    from scripts.sweeps.onnx_exports import compared as compare

    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        return compare(name, build, dynamo=dynamo)


def cnn():
    nn = torch.nn
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3, 2, 1, bias=False),
        nn.BatchNorm2d(8),
        nn.Hardswish(),
        nn.Conv2d(8, 8, 3, groups=8),
        nn.MaxPool2d(2),
        nn.ConvTranspose2d(8, 4, 2, 2),
        nn.GroupNorm(2, 4),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(4, 5),
    )
    return model, (torch.randn(2, 3, 32, 32),)


def transformer():
    layer = torch.nn.TransformerEncoderLayer(16, 2, 32, activation="gelu", batch_first=True)
    return torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), (
        torch.randn(2, 7, 16),
    )


def recurrent():
    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.LSTM(6, 8, 2, bidirectional=True, batch_first=True)

        def forward(self, x):
            return self.layers(x)[0]

    return Last(), (torch.randn(2, 9, 6),)


@pytest.mark.parametrize("build", [cnn, transformer, recurrent])
def test_the_older_exporter(build):
    row = compared(build.__name__, build)
    assert row.verdict == "equal", row
    assert row.flops[0] > 0
    assert row.coverage == 1.0


def test_the_newer_exporter_names_modules(tmp_path):
    pytest.importorskip("onnxscript")
    from gambrel.capture.onnx.reader import read_onnx

    model, args = cnn()
    path = tmp_path / "m.onnx"
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        torch.onnx.export(model.eval(), args, str(path), dynamo=True)
    workload = read_onnx(path)
    assert workload.ops[-1].module == "9"
    assert workload.ops[-1].kind == "matmul"


def test_same_answer_as_the_module(tmp_path):
    from scripts.sweeps.onnx_exports import distinct

    import gambrel

    model, args = transformer()
    distinct(model)
    path = tmp_path / "m.onnx"
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            torch.onnx.export(model.eval(), args, str(path), dynamo=False)
        own = gambrel.analyze(model, "a100", inputs=args[0], precision="fp16")
    finally:
        torch.backends.mha.set_fastpath_enabled(True)
    read = gambrel.analyze(str(path), "a100", precision="fp16")
    assert read.model.parameters == own.model.parameters
    assert read.total.matrix_flops == own.total.matrix_flops
    assert read.sol_time_s == pytest.approx(own.sol_time_s, rel=0.01)
