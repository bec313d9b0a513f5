"""Peak memory on a CPU with the workspace of kernels, against every allocation of a real run.

`memory.py` follows storages, to which workspace is invisible; here the real figure is the model's
own memory plus the peak of what torch's CPU allocator handed out, from its profiler.
"""

from __future__ import annotations

import gc
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from torch.profiler import ProfilerActivity, profile

import gambrel
from common import report
from gambrel.capture.torch.shim import ensure_torchvision
from gambrel.units import format_capacity

nn = torch.nn
#: Any CPU on which the rules hold; its times play no part.
DEVICE = "epyc-9654"


class First(nn.Module):
    """A recurrent layer whose results are returned without its states."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, x):
        return self.layer(x)[0]


class Recommender(nn.Module):
    """Eight embedding bags and their pairwise products; ``frees``: drops what it needs no more."""

    def __init__(self, frees):
        super().__init__()
        self.frees = frees
        self.bags = nn.ModuleList(nn.EmbeddingBag(1000, 64, mode="sum") for _ in range(8))
        self.low = nn.Sequential(nn.Linear(13, 512), nn.ReLU(), nn.Linear(512, 64))
        self.top = nn.Sequential(nn.Linear(64 + 36, 512), nn.ReLU(), nn.Linear(512, 1))

    def forward(self, x, ids):
        dense = self.low(x)
        rows = [bag(ids[:, i]) for i, bag in enumerate(self.bags)]
        z = torch.stack([dense, *rows], 1)
        if self.frees:
            del rows
        z = z @ z.transpose(1, 2)
        a, b = torch.tril_indices(9, 9, -1)
        z = torch.cat([dense, z[:, a, b]], 1)
        if self.frees:
            del dense, a, b
        return self.top(z)


def cases():
    """Name → (builder, inputs)."""
    ensure_torchvision()
    import torchvision.models as vision
    import transformers as hf

    def image(batch, side):
        return (torch.zeros(batch, 3, side, side),)

    def sequence(batch, steps, width):
        return (torch.zeros(batch, steps, width),)

    ids = (torch.zeros(4, 128, dtype=torch.long),)
    small = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 4}
    small |= {"num_attention_heads": 4, "intermediate_size": 256}
    speech = {"num_hidden_layers": 2, "layerdrop": 0.0, "apply_spec_augment": False}
    heads = {"weights": None, "weights_backbone": None}
    pairs = (torch.zeros(2048, 13), torch.zeros(2048, 8, 20, dtype=torch.long))
    tall = {"batch_first": True}
    return {
        "resnet18": (vision.resnet18, image(2, 96)),
        "resnet50": (vision.resnet50, image(4, 224)),
        "mobilenet_v2": (vision.mobilenet_v2, image(2, 96)),
        "densenet121": (vision.densenet121, image(2, 64)),
        "resnext50_32x4d": (vision.resnext50_32x4d, image(2, 96)),
        "vgg11": (lambda: vision.vgg11(num_classes=10), image(2, 64)),
        "convnext_tiny": (vision.convnext_tiny, image(2, 96)),
        "efficientnet_b0": (vision.efficientnet_b0, image(2, 96)),
        "swin_t": (vision.swin_t, image(4, 112)),
        "deeplabv3_resnet50": (
            lambda: vision.segmentation.deeplabv3_resnet50(**heads),
            image(2, 224),
        ),
        "r3d_18": (vision.video.r3d_18, (torch.zeros(1, 3, 8, 64, 64),)),
        "bert (4 layers)": (lambda: hf.BertModel(hf.BertConfig(**small)), ids),
        "wav2vec2 (2 layers)": (
            lambda: hf.Wav2Vec2Model(hf.Wav2Vec2Config(**speech)),
            (torch.zeros(1, 16000),),
        ),
        "lstm 512": (lambda: First(nn.LSTM(512, 512, **tall)), sequence(8, 100, 512)),
        "lstm 64, 2 layers": (lambda: First(nn.LSTM(64, 64, 2, **tall)), sequence(8, 64, 64)),
        "lstm 256, both directions": (
            lambda: First(nn.LSTM(128, 256, bidirectional=True, **tall)),
            sequence(4, 50, 128),
        ),
        "gru 512": (lambda: First(nn.GRU(512, 512, **tall)), sequence(8, 100, 512)),
        "rnn 512": (lambda: First(nn.RNN(512, 512, **tall)), sequence(8, 100, 512)),
        "recommender": (lambda: Recommender(frees=False), pairs),
        "recommender, locals deleted": (lambda: Recommender(frees=True), pairs),
    }


#: Also measured in a training step.
STEPS = ("resnet18", "mobilenet_v2", "r3d_18", "efficientnet_b0", "lstm 512")


def peak_of(model, inputs, *, train: bool) -> int:
    """Most bytes that a run holds: the model's own, and what the allocator hands out."""
    own = [*model.parameters(), *model.buffers(), *inputs]
    optimizer = torch.optim.AdamW(model.parameters(), fused=True) if train else None
    if optimizer:
        for parameter in model.parameters():  # the states are there once a first step was made
            state = optimizer.state[parameter]
            state["step"] = torch.zeros(())
            state["exp_avg"], state["exp_avg_sq"] = (torch.zeros_like(parameter) for _ in range(2))
            own += state.values()

    def run() -> None:
        if optimizer is None:
            with torch.no_grad():
                model(*inputs)
            return
        model(*inputs).sum().backward()
        optimizer.step()

    if not train:
        run()  # what libraries keep after the first call is not the run's
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in own}
    return sum(storages.values()) + _allocated(run)


def _allocated(run: Callable[[], None]) -> int:
    gc.collect()
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as found:
        run()
    events = [e for e in found.profiler.kineto_results.events() if e.name() == "[memory]"]
    live = peak = 0
    for event in sorted(events, key=lambda e: e.start_ns()):
        live += event.nbytes()
        peak = max(peak, live)
    return peak


def main() -> None:
    warnings.filterwarnings("ignore")
    rows = []
    for name, (build, inputs) in cases().items():
        for train in (False, True) if name in STEPS else (False,):
            rows.append(_row(name, build, inputs, train=train))
            print(*rows[-1], flush=True)
    report(
        "memory_workspace",
        "Peak memory on a CPU, with the workspace of kernels",
        ("model", "run", "predicted", "workspace", "real", "ratio", "without", "no rule"),
        rows,
        notes=NOTES,
        packages=("gambrel", "torch", "torchvision", "transformers"),
    )


NOTES = (
    "fp32, PyTorch eager; step = forward, backward, fused AdamW whose states exist.",
    "workspace: of the op at the peak. without: ratio if no op had any. no rule: kinds of ops "
    "whose workspace is not known.",
    "lstm: oneDNN's state copies and its transposed input are left out.",
    "recommender: its forward keeps the rows of all tables in local variables until it returns "
    "(4.3 MiB less with these deleted after their last use). The other 2.2 MiB are the ids: an "
    "input that the model reads column by column counts as one column.",
    "deeplabv3: its convolutions dilated by 12 and more pad too much for oneDNN's blocked kernels.",
)


def _row(name, build, inputs, *, train):
    def footprint(device):
        model = build().train(train)
        asked = {"train": train, "precision": "fp32", "runtime": "pytorch"}
        return gambrel.analyze(model, device, inputs, **asked).footprint

    real = peak_of(build().train(train), inputs, train=train)
    found, bare = footprint(DEVICE), footprint("a100")
    sizes = (format_capacity(n) for n in (found.total_bytes, found.workspace_bytes, real))
    ratios = (f"{n / real:.3f}" for n in (found.total_bytes, bare.total_bytes))
    predicted, workspace, measured = sizes
    ratio, without = ratios
    missing = ", ".join(found.workspace_unknown) or "none"
    run = "step" if train else "inference"
    return name, run, predicted, workspace, measured, ratio, without, missing


if __name__ == "__main__":
    main()
