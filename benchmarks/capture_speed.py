"""Capture and analysis of live torch models: seconds and memory, after imports.

Each case runs in its own process; the time starts when torch and the model libraries are imported.
"""

from __future__ import annotations

import json
import resource
import statistics
import subprocess
import sys
import time

import torch

from common import report

ROUNDS = 3
LAYERS = (200, 500, 1000, 2000, 4000)

LLAMA_405B = {
    "model_type": "llama", "architectures": ["LlamaForCausalLM"], "vocab_size": 128256,
    "hidden_size": 16384, "intermediate_size": 53248, "num_hidden_layers": 126,
    "num_attention_heads": 128, "num_key_value_heads": 8, "torch_dtype": "bfloat16",
    "max_position_embeddings": 131072,
}  # fmt: skip
MAMBA_130M = {
    "model_type": "mamba", "architectures": ["MambaForCausalLM"], "vocab_size": 50280,
    "hidden_size": 768, "num_hidden_layers": 24, "state_size": 16, "torch_dtype": "float32",
}  # fmt: skip


def resnet50() -> object:
    from gambrel.capture.torch import ensure_torchvision

    ensure_torchvision()
    import torchvision

    import gambrel

    inputs = torch.empty(256, 3, 224, 224, device="meta")
    model = torchvision.models.resnet50().eval()
    return lambda: gambrel.analyze(model, "a100", inputs, precision="fp16")


def from_config(config: dict[str, object], **sizes: int) -> object:
    import transformers  # noqa: F401
    from transformers import AutoConfig, AutoModelForCausalLM  # noqa: F401

    import gambrel
    from gambrel.capture.torch.huggingface import workload_from_config

    workload_from_config({**config, "num_hidden_layers": 1}, batch=1, seq=8)  # imports the model
    return lambda: gambrel.analyze(workload_from_config(config, batch=1, **sizes), "h100")


class Block(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.fc = torch.nn.Linear(64, 64)
        self.norm = torch.nn.LayerNorm(64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.nn.functional.gelu(self.norm(self.fc(x))) * 0.5


def chain(layers: int) -> object:
    import gambrel

    x = torch.empty(8, 64, device="meta")
    gambrel.analyze(Block().eval(), "a100", x)  # torch imports its shape functions when first used
    model = torch.nn.Sequential(*(Block() for _ in range(layers))).eval()
    return lambda: gambrel.analyze(model, "a100", x)


CASES = {
    "ResNet-50, batch 256": ("resnet50", resnet50),
    "Llama-3-405B prefill, 2048": ("llama405b", lambda: from_config(LLAMA_405B, seq=2048)),
    "Mamba-130M, 512": ("mamba512", lambda: from_config(MAMBA_130M, seq=512)),
    "Mamba-130M, 65536": ("mamba64k", lambda: from_config(MAMBA_130M, seq=65536)),
    **{f"chain of {n} blocks": (f"chain{n}", lambda n=n: chain(n)) for n in LAYERS},
}


def child(key: str) -> None:
    """Runs one case and prints its figures as JSON."""
    prepare = next(p for k, p in CASES.values() if k == key)
    action = prepare()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    start = time.perf_counter()
    found = action()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(
        json.dumps(
            {
                "seconds": seconds,
                "ops": len(found.ops),
                "before": before * 1024,
                "peak": peak * 1024,
                "flops": found.total.matrix_flops,
                "coverage": found.coverage,
            }
        )
    )


def measure(key: str) -> dict[str, float]:
    done = subprocess.run(
        [sys.executable, __file__, key], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main() -> None:
    rows = []
    for label, (key, _) in CASES.items():
        runs = [measure(key) for _ in range(ROUNDS)]
        seconds = statistics.median(r["seconds"] for r in runs)
        first = runs[0]
        rows.append(
            [
                label,
                first["ops"],
                " / ".join(f"{r['seconds']:.2f}" for r in runs),
                f"{seconds / first['ops'] * 1e6:.0f}",
                f"{first['peak'] / 1e6:.0f}",
                f"{first['before'] / 1e6:.0f}",
                f"{first['flops']:.4g}",
                f"{first['coverage']:.0%}",
            ]
        )
    report(
        "capture",
        "Capture and analysis of live models",
        ["case", "ops", "seconds, each run", "µs an op", "peak MB", "MB after imports", "FLOP",
         "coverage"],
        rows,
        notes=[
            "Building from the configuration is included for the language models.",
            "Targets: ResNet-50 under 0.3 s and 450 MB; Llama-3-405B under 2 s and 600 MB; Mamba "
            "under 0.5 s at any length; time per op flat from 1,000 to 20,000 ops.",
        ],
        packages=("gambrel", "torch", "transformers"),
    )  # fmt: skip


if __name__ == "__main__":
    if len(sys.argv) > 1:
        child(sys.argv[1])
    else:
        main()
