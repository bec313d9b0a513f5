"""Runs of torch with one injected cause each, in variants: other models, sizes and code.

A case sets up what it needs and returns the loop that is recorded. The rules were written with the
variants ``tune`` and ``more`` in view and not with ``held``.
"""

from __future__ import annotations

import itertools
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, Dataset

Loop = Callable[[], None]


def repeat(times: int, step: Callable[[], object]) -> Loop:
    """A loop of so many steps."""

    def loop() -> None:
        for _ in range(times):
            step()

    return loop


def convnet(width: int) -> nn.Module:
    """Four convolutions."""
    sides = [3, width, width, 2 * width, 2 * width]
    layers: list[nn.Module] = []
    for a, b in itertools.pairwise(sides):
        layers += [nn.Conv2d(a, b, 3, padding=1), nn.ReLU(inplace=True)]
    return nn.Sequential(*layers).eval()


def clean_tune() -> Loop:
    """Training of a wide network: GEMMs."""
    model = nn.Sequential(nn.Linear(1024, 2048), nn.ReLU(), nn.Linear(2048, 1024))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(512, 1024)

    def step() -> None:
        optimizer.zero_grad()
        model(x).square().mean().backward()
        optimizer.step()

    return repeat(6, step)


def clean_more() -> Loop:
    """Inference of convolutions."""
    model, x = convnet(48), torch.randn(4, 3, 64, 64)
    return repeat(10, lambda: model(x))


def attention_tune() -> Loop:
    """Inference of a transformer's layer."""
    layer = nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, dropout=0.0).eval()
    x = torch.randn(4, 256, 512)
    return repeat(8, lambda: layer(x))


def attention_more() -> Loop:
    """Attention and products as a language model has them."""
    heads = [torch.randn(2, 12, 384, 64) for _ in range(3)]
    wide, x = nn.Linear(768, 3072), torch.randn(2, 384, 768)

    def step() -> None:
        nn.functional.scaled_dot_product_attention(*heads, is_causal=True)
        wide(x)

    return repeat(12, step)


def launches_tune() -> Loop:
    """A recurrence in eager mode: ops of microseconds."""
    cell, x = nn.LSTMCell(16, 32), torch.randn(4, 16)

    def loop() -> None:
        state = cell(x)
        for _ in range(300):
            state = cell(x, state)

    return loop


def launches_more() -> Loop:
    """Many layers of a few units for one sample."""
    model = nn.Sequential(*(nn.Linear(16, 16) for _ in range(24))).eval()
    x = torch.randn(1, 16)
    return repeat(60, lambda: model(x))


def python_tune() -> Loop:
    """Arithmetic of the interpreter between products."""
    x = torch.randn(512, 512)

    def step() -> None:
        x @ x
        sum(i * i for i in range(100_000))

    return repeat(20, step)


def python_more() -> Loop:
    """Text processing between convolutions."""
    model, x = convnet(24), torch.randn(2, 3, 48, 48)
    words = "the quick brown fox jumps over the lazy dog " * 600

    def step() -> None:
        model(x)
        counts: dict[str, int] = {}
        for word in re.findall(r"\w+", words):
            counts[word] = counts.get(word, 0) + 1
        sorted(counts.items(), key=lambda pair: -pair[1])

    return repeat(20, step)


def chains_tune() -> Loop:
    """Element-wise ops on 8 MB, one after another."""
    wide, x = torch.randn(1 << 21), torch.randn(512, 512)

    def step() -> None:
        (wide * 1.01 + 0.5).sigmoid().tanh().abs()
        x @ x

    return repeat(15, step)


def chains_more() -> Loop:
    """GELU by its formula, and a residual."""
    x, layer = torch.randn(8, 256, 768), nn.Linear(768, 768)

    def step() -> None:
        y = layer(x)
        inner = 0.79788456 * (y + 0.044715 * torch.pow(y, 3.0))
        x + 0.5 * y * (1.0 + torch.tanh(inner))

    return repeat(10, step)


def fp64_tune() -> Loop:
    """Products in double precision."""
    x = torch.randn(768, 768, dtype=torch.float64)
    return repeat(12, lambda: torch.relu(x @ x))


def fp64_more() -> Loop:
    """Convolutions of a model that took NumPy's default format."""
    model, x = convnet(24).double(), torch.randn(2, 3, 48, 48, dtype=torch.float64)
    return repeat(10, lambda: model(x))


def casts_tune() -> Loop:
    """There and back on 8 MB."""
    wide, x = torch.randn(1 << 21), torch.randn(512, 512)

    def step() -> None:
        wide.bfloat16().float()
        x @ x

    return repeat(15, step)


def casts_more() -> Loop:
    """Weights kept in half precision, widened for every step."""
    weight, x = torch.randn(2048, 2048, dtype=torch.float16), torch.randn(8, 2048)
    return repeat(20, lambda: x @ weight.float())


def layout_tune() -> Loop:
    """Channels to the end, in memory."""
    image, x = torch.randn(8, 64, 56, 56), torch.randn(512, 512)

    def step() -> None:
        image.permute(0, 2, 3, 1).contiguous()
        x @ x

    return repeat(12, step)


def layout_more() -> Loop:
    """Heads of attention split and merged by copies."""
    x, layer = torch.randn(16, 512, 512), nn.Linear(512, 64)

    def step() -> None:
        heads = x.view(16, 512, 8, 64).transpose(1, 2).contiguous()
        merged = heads.transpose(1, 2).reshape(16, 512, 512)
        layer(merged)

    return repeat(10, step)


def unaligned_tune() -> Loop:
    """Products with a side of 1021."""
    x = torch.randn(1021, 1021)
    return repeat(10, lambda: x @ x)


def unaligned_more() -> Loop:
    """A head over 9,973 words."""
    head, x = nn.Linear(512, 9973), torch.randn(64, 512)
    return repeat(10, lambda: head(x))


def syncs_tune() -> Loop:
    """The loss of every product read by the host."""
    x = torch.randn(512, 512)
    return repeat(30, lambda: float((x @ x).sum().item()))


def syncs_more() -> Loop:
    """A branch on a value, and rows chosen by one."""
    model, x = nn.Linear(512, 512), torch.randn(256, 512)

    def step() -> None:
        y = model(x)
        if y.mean() > 0.0:
            y = y * 2
        y[(y[:, 0] > 0).nonzero()]

    return repeat(30, step)


class Slow(Dataset[Tensor]):
    """Samples that take a while."""

    def __init__(self, shape: tuple[int, ...], count: int, seconds: float) -> None:
        self.shape, self.count, self.seconds = shape, count, seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Tensor:
        time.sleep(self.seconds)
        return torch.randn(self.shape)


def loading_tune() -> Loop:
    """Samples made in the loop's own process."""
    loader, x = DataLoader(Slow((256,), 64, 0.002), batch_size=8), torch.randn(512, 512)

    def loop() -> None:
        for batch in loader:
            batch @ batch.T
            x @ x

    return loop


def loading_more() -> Loop:
    """One worker that is slower than the model."""
    loader = DataLoader(Slow((3, 48, 48), 48, 0.01), batch_size=4, num_workers=1)
    model = convnet(24)

    def loop() -> None:
        for batch in loader:
            model(batch)

    return loop


def communication_tune() -> Loop:
    """Gradients summed after the backward pass."""
    gradient, x = torch.randn(1 << 21), torch.randn(512, 512)

    def step() -> None:
        x @ x
        torch.distributed.all_reduce(gradient)

    return repeat(8, step)


def communication_more() -> Loop:
    """Activations gathered between the layers of a sharded model."""
    layer, x = nn.Linear(512, 512), torch.randn(512, 512)
    parts = [torch.empty(512, 512) for _ in range(2)]

    def step() -> None:
        torch.distributed.all_gather(parts, layer(x).detach())
        torch.distributed.barrier()

    return repeat(20, step)


#: Lets a process run for some milliseconds in every ten.
BRAKE = """
import os, signal, sys, time
pid, on, off = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])
print(flush=True)
sys.stdin.readline()
while True:
    time.sleep(on)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(off)
    os.kill(pid, signal.SIGCONT)
"""


class Brake:
    """Holds this process at a share of its speed, as a lower clock does."""

    def __init__(self, on_s: float, off_s: float) -> None:
        self._off_s = off_s
        words = [sys.executable, "-S", "-c", BRAKE, str(os.getpid()), str(on_s), str(off_s)]
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdout is not None
        self._process.stdout.readline()

    def pull(self) -> None:
        """From now on."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()

    def release(self) -> None:
        """At full speed again."""
        self._process.kill()
        self._process.wait()
        os.kill(os.getpid(), signal.SIGCONT)


def throttling_tune() -> Loop:
    """Products at half speed from the middle on."""
    x, brake = torch.randn(1024, 1024), Brake(0.003, 0.003)

    def loop() -> None:
        repeat(25, lambda: x @ x)()
        brake.pull()
        repeat(25, lambda: x @ x)()
        brake.release()

    return loop


def throttling_more() -> Loop:
    """Convolutions at 60 % from the first third on."""
    model, x, brake = convnet(48), torch.randn(4, 3, 64, 64), Brake(0.003, 0.002)

    def loop() -> None:
        repeat(15, lambda: model(x))()
        brake.pull()
        repeat(30, lambda: model(x))()
        brake.release()

    return loop


def clean_held() -> Loop:
    """Training of convolutions."""
    model = nn.Sequential(nn.Conv2d(3, 64, 5, padding=2), nn.ReLU(), nn.Conv2d(64, 64, 5))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    x = torch.randn(2, 3, 64, 64)

    def step() -> None:
        optimizer.zero_grad()
        model(x).mean().backward()
        optimizer.step()

    return repeat(8, step)


def attention_held() -> Loop:
    """A feed-forward part with a norm."""
    model = nn.Sequential(nn.LayerNorm(640), nn.Linear(640, 2560), nn.GELU(), nn.Linear(2560, 640))
    x = torch.randn(512, 640)
    return repeat(10, lambda: model(x))


def launches_held() -> Loop:
    """A recurrence of gates written out."""
    weights = [torch.randn(24, 24) * 0.1 for _ in range(3)]
    start = torch.randn(2, 24)

    def loop() -> None:
        state = start
        for _ in range(400):
            a, b, c = (state @ w for w in weights)
            state = a.sigmoid() @ weights[0] + b.tanh() @ weights[1] - c

    return loop


def python_held() -> Loop:
    """Sorting of lists between the steps of a network."""
    model, x = nn.Sequential(nn.Linear(768, 768), nn.Linear(768, 768)), torch.randn(128, 768)
    values = [(i * 7919) % 10_007 for i in range(40_000)]

    def step() -> None:
        model(x)
        sorted(values, key=lambda v: -v)

    return repeat(20, step)


def chains_held() -> Loop:
    """A norm and a gate by their formulas."""
    x, gate, layer = torch.randn(4096, 512), torch.randn(4096, 512), nn.Linear(512, 256)

    def step() -> None:
        y = x * 0.9
        y = torch.sub(y, 0.1)
        y = y * torch.sigmoid(gate)
        y = torch.clamp(y, -3.0, 3.0)
        layer(y[:512])

    return repeat(12, step)


def fp64_held() -> Loop:
    """A network whose inputs and weights came from NumPy."""
    model = nn.Sequential(nn.Linear(640, 1280), nn.Tanh(), nn.Linear(1280, 640)).double()
    x = torch.randn(256, 640, dtype=torch.float64)
    return repeat(10, lambda: model(x))


def casts_held() -> Loop:
    """Integers of a quantized weight widened for every step."""
    weight, x = torch.randint(-128, 127, (1536, 1536), dtype=torch.int8), torch.randn(16, 1536)
    return repeat(20, lambda: x @ weight.to(torch.float32))


def layout_held() -> Loop:
    """Images that go to channels last and back."""
    image, layer = torch.randn(16, 32, 64, 64), nn.Linear(64, 32)

    def step() -> None:
        last = image.to(memory_format=torch.channels_last)
        layer(last.contiguous()[:1])

    return repeat(12, step)


def unaligned_held() -> Loop:
    """Batches of 333 and layers of 1,234."""
    model, x = nn.Linear(1234, 777), torch.randn(333, 1234)
    return repeat(12, lambda: model(x))


def syncs_held() -> Loop:
    """A norm read after every layer, as gradient clipping by hand does."""
    layers, x = [nn.Linear(384, 384) for _ in range(6)], torch.randn(512, 384)

    def step() -> None:
        y = x
        for layer in layers:
            y = layer(y)
            if y.norm().item() > 1e9:
                y = y * 0.5

    return repeat(6, step)


def loading_held() -> Loop:
    """Two workers, samples of unequal cost."""
    loader = DataLoader(Slow((384,), 120, 0.008), batch_size=6, num_workers=2)
    model = nn.Linear(384, 384)

    def loop() -> None:
        for batch in loader:
            model(batch)

    return loop


def communication_held() -> Loop:
    """Parameters sent to everybody before every step."""
    weights, x = torch.randn(1 << 20), torch.randn(384, 384)

    def step() -> None:
        torch.distributed.broadcast(weights, 0)
        x @ x

    return repeat(12, step)


def throttling_held() -> Loop:
    """A wide layer at 40 % of its speed for the last half."""
    layer, x, brake = nn.Linear(1024, 2048), torch.randn(512, 1024), Brake(0.002, 0.003)

    def loop() -> None:
        repeat(20, lambda: layer(x))()
        brake.pull()
        repeat(20, lambda: layer(x))()
        brake.release()

    return loop


#: Injected → what a right diagnosis says; the names of the functions are ``<case>_<variant>``.
CASES = {
    "clean": None,
    "attention": None,
    "launches": "gaps between launches",
    "python": "Python between ops",
    "chains": "small ops to fuse",
    "fp64": "wrong precision",
    "casts": "format conversions",
    "layout": "layout transposes",
    "unaligned": "unaligned shapes",
    "syncs": "host syncs",
    "loading": "data loading",
    "communication": "unhidden communication",
    "throttling": "clock throttling",
}
