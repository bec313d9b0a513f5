"""Peak memory: predicted from the captured workload, against what a real run holds.

The real figure is the largest number of bytes in storages that torch has alive after any op of a
run on the CPU, followed by weak references. Workspace inside kernels is invisible to both.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import torch
from tests.analysis.live_storages import peak_of
from torch.utils.checkpoint import checkpoint

import gambrel
from common import report
from gambrel.capture.torch.shim import ensure_torchvision
from gambrel.units import format_capacity


def cases():
    """Name → (builder, inputs)."""
    ensure_torchvision()
    import torchvision.models as vision
    import transformers as hf

    def image(batch, side):
        return (torch.zeros(batch, 3, side, side),)

    ids = (torch.zeros(4, 128, dtype=torch.long),)
    small = {"vocab_size": 1000, "hidden_size": 64, "num_hidden_layers": 4}
    small |= {"num_attention_heads": 4, "intermediate_size": 256}
    off = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    gpt = {"vocab_size": 1000, "n_embd": 64, "n_layer": 4, "n_head": 4, "use_cache": False}
    gpt |= {"attn_pdrop": 0.0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}
    gpt |= {"bos_token_id": 0, "eos_token_id": 0}
    llama = {**small, "num_key_value_heads": 2, "use_cache": False}
    return {
        "resnet18": (vision.resnet18, image(2, 96)),
        "mobilenet_v2": (vision.mobilenet_v2, image(2, 96)),
        "densenet121": (vision.densenet121, image(2, 64)),
        "vgg11": (lambda: vision.vgg11(num_classes=10), image(2, 64)),
        "swin_t": (vision.swin_t, image(4, 112)),
        "vit (torchvision, 4 layers)": (
            lambda: vision.VisionTransformer(64, 16, 4, 4, 64, 128),
            image(8, 64),
        ),
        "bert (4 layers)": (lambda: hf.BertModel(hf.BertConfig(**small, **off)), ids),
        "gpt2 (4 layers)": (lambda: hf.GPT2LMHeadModel(hf.GPT2Config(**gpt)), ids),
        "llama (4 layers)": (lambda: hf.LlamaForCausalLM(hf.LlamaConfig(**llama)), ids),
        "lstm (2 layers)": (
            lambda: torch.nn.LSTM(64, 64, 2, batch_first=True),
            (torch.zeros(8, 64, 64),),
        ),
    }


class Block(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(torch.nn.functional.gelu(self.up(self.norm(x))))


class Stack(torch.nn.Module):
    def __init__(self, recompute):
        super().__init__()
        self.layers = torch.nn.ModuleList(Block(32) for _ in range(8))
        self.recompute = recompute

    def forward(self, x):
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.recompute else layer(x)
        return x


def main() -> None:
    warnings.filterwarnings("ignore")
    rows = [
        _row(name, build, inputs, train=train)
        for name, (build, inputs) in cases().items()
        for train in (False, True)
    ]
    x = (torch.zeros(512, 32),)
    real, op = peak_of(Stack(True), x, train=True)
    found = gambrel.analyze(Stack(False), "a100", x, train=True).memory_timeline(True)
    rows.append(
        _cells("8 MLP blocks, checkpointed", "step", found.peak_bytes, real, found.peak.op, op)
    )
    report(
        "memory",
        "Peak memory, predicted and real",
        ("model", "run", "predicted", "real", "ratio", "predicted at", "real at"),
        rows,
        notes=NOTES,
        packages=("gambrel", "torch", "torchvision", "transformers"),
    )


NOTES = (
    "fp32, CPU, small sizes; step = forward, backward, fused AdamW whose states exist.",
    "gpt2: local variables of the model's code hold tensors after their last use (positions, "
    "masks, the layer's input).",
    "vit: in inference torch runs multi-head attention as one kernel of its own (fast path); in "
    "training the CPU's attention kernel writes the layout that the next op wants, where the "
    "neutral op is followed by a copy.",
    "LSTM: the CPU kernel keeps a workspace for backward and packs its weights; the workload has "
    "one neutral op for the whole layer.",
)


def _row(name, build, inputs, *, train):
    model = build().train(train)
    real, op = peak_of(model, inputs, train=train)
    footprint = gambrel.analyze(build().train(train), "a100", inputs, train=train).footprint
    run = "step" if train else "inference"
    return _cells(name, run, footprint.total_bytes, real, footprint.peak_op, op)


def _cells(name, run, predicted, real, at, real_at):
    sizes = format_capacity(predicted), format_capacity(real)
    short = real_at.removesuffix(".default")
    return (name, run, *sizes, f"{predicted / real:.4f}", at.strip(), short)


if __name__ == "__main__":
    main()
