"""Predicted peaks against what torch really holds during a run on the CPU."""

import pytest

from gambrel.analysis.analyze import analyze
from tests.analysis.small import device

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch

from gambrel.capture.torch import capture  # noqa: E402
from gambrel.capture.torch.shim import ensure_torchvision  # noqa: E402
from tests.analysis.live_storages import peak_of  # noqa: E402

nn = torch.nn


def image(batch, side):
    return (torch.zeros(batch, 3, side, side),)


def tokens():
    return (torch.zeros(2, 64, dtype=torch.long),)


def vision(name, **options):
    ensure_torchvision()
    import torchvision

    return getattr(torchvision.models, name)(**options)


def language(kind):
    import transformers as hf

    sizes = {"vocab_size": 200, "hidden_size": 32, "num_hidden_layers": 2}
    sizes |= {"num_attention_heads": 4, "intermediate_size": 128}
    if kind == "bert":
        off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        return hf.BertModel(hf.BertConfig(**sizes, **off))
    return hf.LlamaForCausalLM(hf.LlamaConfig(**sizes, num_key_value_heads=2, use_cache=False))


class Unet(nn.Module):
    """Two levels with a skip connection: what goes down is read again on the way up."""

    def __init__(self):
        super().__init__()
        self.down, self.low = nn.Conv2d(3, 32, 3, padding=1), nn.Conv2d(32, 32, 3, stride=2)
        self.up, self.out = nn.ConvTranspose2d(32, 32, 4, stride=2), nn.Conv2d(64, 3, 1)

    def forward(self, x):
        high = self.down(x).relu_()
        return self.out(torch.cat([high, self.up(self.low(high).relu_())], 1))


SWIN = {"patch_size": [4, 4], "embed_dim": 32, "depths": [2, 2], "num_heads": [2, 4]}
SWIN |= {"window_size": [4, 4], "stochastic_depth_prob": 0.0, "num_classes": 10}

CASES = {
    "resnet18": (lambda: vision("resnet18"), lambda: image(2, 64)),
    "mobilenet_v2": (lambda: vision("mobilenet_v2", width_mult=0.25), lambda: image(2, 64)),
    "squeezenet (max-pooling, cat)": (lambda: vision("squeezenet1_1"), lambda: image(2, 64)),
    "swin": (lambda: vision("SwinTransformer", **SWIN), lambda: image(2, 64)),
    "bert": (lambda: language("bert"), tokens),
    "llama": (lambda: language("llama"), tokens),
    "unet": (Unet, lambda: image(2, 64)),
}


def predicted(model, inputs, *, train=False, checkpoint=False):
    found = analyze(capture(model, inputs, train=train), device())
    return found.memory_timeline(checkpoint).peak_bytes


@pytest.mark.parametrize("train", [False, True], ids=["inference", "step"])
@pytest.mark.parametrize("name", CASES)
def test_peak(name, train):
    build, inputs = CASES[name]
    torch.manual_seed(0)
    real, _ = peak_of(build().train(train), inputs(), train=train)
    assert predicted(build().train(train), inputs(), train=train) == pytest.approx(real, rel=0.01)


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(32), nn.Linear(32, 128), nn.Linear(128, 32)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


class Stack(nn.Module):
    def __init__(self, recompute=False):
        super().__init__()
        self.layers = nn.ModuleList(Block() for _ in range(6))
        self.recompute = recompute

    def forward(self, x):
        from torch.utils.checkpoint import checkpoint

        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return x


def test_checkpointing():
    x = (torch.zeros(256, 32),)
    plain, _ = peak_of(Stack(), x, train=True)
    real, _ = peak_of(Stack(recompute=True), x, train=True)
    assert real < 0.6 * plain
    assert predicted(Stack(), x, train=True) == pytest.approx(plain, rel=0.01)
    assert predicted(Stack(), x, train=True, checkpoint=True) == pytest.approx(real, rel=0.01)


def test_work_of_checkpointing():
    # of each block `up` is computed again, 2 * 256 * 32 * 128 FLOP; what `down` made nobody reads
    found = analyze(capture(Stack(), (torch.zeros(256, 32),), train=True), device())
    line = found.memory_timeline(checkpoint=True)
    assert line.blocks == 6
    assert line.recomputed_flops == 6 * 2 * 256 * 32 * 128
