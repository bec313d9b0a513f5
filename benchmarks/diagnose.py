"""Ten traces with known causes, made by real runs of torch on this processor, and what is found.

``python benchmarks/diagnose.py FOLDER`` writes one trace for each injected cause and one without,
diagnoses each, and prints precision and recall.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

from gambrel.traces.diagnose import diagnose

BIG = torch.randn(768, 768)
WIDE = torch.randn(1 << 21)


def clean() -> None:
    for _ in range(20):
        torch.relu(BIG @ BIG)


def gaps() -> None:
    small = torch.randn(8, 8)
    for _ in range(300):
        small = small @ small
        small = small / small.norm()
        sum(i * i for i in range(2000))


def chains() -> None:
    for _ in range(12):
        x = WIDE
        for _ in range(3):
            x = (x * 1.01 + 0.5).sigmoid().tanh().abs()
    torch.relu(BIG @ BIG)


def fp64() -> None:
    big = BIG.double()
    for _ in range(12):
        torch.relu(big @ big)


def layout() -> None:
    image = torch.randn(16, 64, 56, 56)
    for _ in range(10):
        image.permute(0, 2, 3, 1).contiguous()
        BIG @ BIG


def casts() -> None:
    for _ in range(15):
        WIDE.bfloat16().float()
        BIG @ BIG


def unaligned() -> None:
    odd = torch.randn(1021, 1021)
    for _ in range(10):
        odd @ odd


def syncs() -> None:
    for _ in range(30):
        float((BIG @ BIG).sum().item())


class Slow(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 64

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(0.002)
        return torch.randn(256)


def loading() -> None:
    for batch in torch.utils.data.DataLoader(Slow(), batch_size=8):
        batch @ batch.T
        BIG @ BIG


def _peer(rank: int, port: str) -> None:
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    torch.distributed.init_process_group("gloo", rank=rank, world_size=2)
    _reduce()


def _reduce() -> None:
    gradient = torch.randn(1 << 21)
    for _ in range(8):
        torch.distributed.all_reduce(gradient)
        gradient.mul_(0.5)


def communication() -> None:
    _reduce()


def throttling() -> None:
    for _ in range(60):
        BIG @ BIG
    words = [sys.executable, "-S", "-c", "while True: pass"]
    burners = [subprocess.Popen(words) for _ in range(8)]
    for _ in range(60):
        BIG @ BIG
    for burner in burners:
        burner.kill()


#: Injected → what a right diagnosis says.
CAUSES = {
    "clean": None,
    "gaps": "gaps between launches",
    "chains": "small ops to fuse",
    "fp64": "wrong precision",
    "layout": "layout transposes",
    "casts": "format conversions",
    "unaligned": "unaligned shapes",
    "syncs": "host syncs",
    "loading": "data loading",
    "communication": "unhidden communication",
    "throttling": "clock throttling",
}


def record(name: str, path: Path) -> None:
    """One trace."""
    peer = None
    if name == "communication":
        port = "29512"
        peer = multiprocessing.Process(target=_peer, args=(1, port), daemon=True)
        peer.start()
        os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
        torch.distributed.init_process_group("gloo", rank=0, world_size=2)
    BIG @ BIG
    with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as recorded:
        globals()[name]()
    recorded.export_chrome_trace(str(path))
    if peer is not None:
        peer.join(20)
        torch.distributed.destroy_process_group()


def main() -> None:
    """Makes, diagnoses, counts."""
    multiprocessing.set_start_method("spawn", force=True)
    folder = Path(sys.argv[1])
    folder.mkdir(exist_ok=True)
    right = wrong = missed = first = 0
    for name, cause in CAUSES.items():
        path = folder / f"{name}.json"
        if not path.exists():
            record(name, path)
        items = diagnose(path).items
        causes = [item.cause for item in items]
        right += cause in causes
        missed += cause is not None and cause not in causes
        wrong += sum(c != cause for c in causes)
        first += bool(causes) and causes[0] == cause
        shares = [f"{i.cause} {(i.saves_share or 0):.0%}" for i in items]
        print(f"{name:14} {'ok' if cause in causes or not (cause or causes) else '--'} {shares}")
    print(
        f"recall {right}/{right + missed}, precision {right}/{right + wrong}, "
        f"injected cause first in {first}"
    )


if __name__ == "__main__":
    main()
