"""The process of a candidate: loads it, calls it, times it, and says what happened.

Started by `gambrel.measure.candidate.child` with a folder and two pipes. It holds no expected
output. Everything that it uses after the candidate was loaded was looked up before.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gambrel.measure.candidate.timing import Series, listed
from gambrel.measure.candidate.watch import Watch, originals, replaced

#: What a candidate could replace in this module to be timed or compared as it likes.
_OWN = ("load", "call", "count", "time", "burst", "seen", "_timed", "_events", "_inputs", "_same")


class Worker:
    """One candidate.

    Args:
        folder: Of the job.
        torch: The module.
    """

    def __init__(self, folder: Path, torch: Any) -> None:
        self.folder, self.torch = folder, torch
        self.job = json.loads((folder / "job.json").read_text("utf-8"))
        self.sets = torch.load(folder / "inputs.pt", weights_only=True)
        self.state = torch.load(folder / "state.pt", weights_only=True)
        self.device = torch.device(self.job["device"])
        candidate = Path(self.job["candidate"].rpartition(":")[0])
        self.watch = Watch(candidate, folder, self.job["reference"])
        self.clock, self.save, self.clone = time.perf_counter_ns, torch.save, torch.Tensor.clone
        self.sleep, self.equal = time.sleep, torch.equal
        self.fill, self.flush_with = torch.Tensor.copy_, torch.Tensor.add_
        self.wait = torch.cuda.synchronize if self.device.type == "cuda" else lambda: None
        self.flush = torch.zeros(self.job["flush_bytes"] // 4, device=self.device)
        self.function: Any = None
        self.held: list[Any] = []
        self.series = self._series
        self.replaced = replaced
        for name in _OWN:  # what is replaced in the class later has no effect here
            setattr(self, name, getattr(self, name))

    def load(self, _: dict[str, Any]) -> dict[str, Any]:
        """Builds the candidate, with the reference's weights where it has such parameters."""
        from gambrel.measure.candidate.loading import load_candidate

        self.watch.install()
        self.before = originals(Worker, Series)
        with self._watched():
            self.torch.manual_seed(self.job["seed"])
            self.function = load_candidate(self.job["candidate"], self.state, self.device)
        return {}

    def call(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One call; its outputs at once, and again a moment later."""
        inputs = self._inputs(asked)
        with self._watched():
            found = self.function(*inputs)
        outputs = listed(found)
        lazy = [type(o).__name__ for o in outputs if type(o) is not self.torch.Tensor]
        if lazy:
            return {"lazy": lazy[0]}
        first = [self.clone(o.detach()) for o in outputs]
        self.wait()
        self.sleep(asked.get("wait_s", 0.0))
        late = not all(map(self._same, first, outputs))
        self.save({"outputs": [o.cpu() for o in first]}, self.folder / asked["save"])
        before = self.sets[asked["set"]]
        changed = not all(self._same(a, b.cpu()) for a, b in zip(before, inputs, strict=True))
        return {"late": late, "changed_inputs": changed}

    def count(self, asked: dict[str, Any]) -> dict[str, Any]:
        """FLOP of the candidate's ATen ops, where it has any."""
        from torch.utils.flop_counter import FlopCounterMode

        with FlopCounterMode(display=False) as counter, self._watched():
            self.function(*self._inputs(asked))
        return {"flops": counter.get_total_flops()}

    def time(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Calls on values that change, caches flushed before each; some outputs are handed back."""
        series = self.series(asked)
        budget = asked["budget_ns"]
        warm = series.warm_up(self.clock, budget // 2)
        times: list[int] = []
        kept: dict[int, Any] = {}
        start, done = self.clock(), False
        while not done:
            times.append(series.step())
            enough = len(times) >= asked["least"] and self.clock() - start > budget
            done = enough or len(times) >= asked["most"]
            if done or len(times) in asked["keep"]:
                kept[series.calls - 1] = [o.cpu() for o in series.copies()]
        self.sleep(asked["wait_s"])
        series.look()
        self.save(kept, self.folder / "kept.pt")
        return {"times_ns": times, "warmup": warm, "late": series.late}

    def burst(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Calls one after another: the other process measures the same with its own clock."""
        clock, calls = self.clock, range(asked["calls"])
        with self._watched():
            start = clock()
            for _ in calls:
                self.function(*self.held)
            self.wait()
            spent = clock() - start
        return {"spent_ns": spent}

    def seen(self, _: dict[str, Any]) -> dict[str, Any]:
        """What the candidate did beside its work."""
        sys.stdout.flush()
        sys.stderr.flush()
        return {
            "seen": self.watch.seen,
            "replaced": self.replaced(self.before, Worker, Series),
            "printed": os.fstat(1).st_size,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        }

    def _timed(self, inputs: list[Any]) -> tuple[int, Any]:
        self.flush_with(self.flush, 1)
        self.wait()
        if self.device.type == "cuda":
            return self._events(inputs)
        self.watch.active = True
        start = self.clock()
        found = self.function(*inputs)
        spent = self.clock() - start
        self.watch.active = False
        return spent, found

    def _series(self, asked: dict[str, Any]) -> Series:
        return Series(
            call=self._timed,
            clone=self.clone,
            fill=self.fill,
            same=self._same,
            plain=self.torch.Tensor,
            first=self.sets[asked["set"]],
            inputs=self._inputs(asked),
            numbers=asked["numbers"],
        )

    def _events(self, inputs: list[Any]) -> tuple[int, Any]:
        """Between two events of the current stream, and never less than other streams take."""
        start, end = (self.before["torch.cuda.Event"](enable_timing=True) for _ in range(2))
        start.record()
        begun = self.clock()
        found = self.function(*inputs)
        end.record()
        end.synchronize()
        on_stream = self.clock() - begun
        self.wait()
        everything = self.clock() - begun
        spent = int(start.elapsed_time(end) * 1e6)
        return (everything if everything > 2 * on_stream else spent), found

    def _inputs(self, asked: dict[str, Any]) -> list[Any]:
        """New tensors, or the ones of another call with other values in the same memory."""
        values = self.sets[asked["set"]]
        if asked.get("reuse") and self.held:
            for tensor, value in zip(self.held, values, strict=True):
                tensor.copy_(value)
            return list(self.held)
        self.held = [v.to(self.device, copy=True) for v in values]
        return list(self.held)

    def _same(self, a: Any, b: Any) -> bool:
        if a.dtype.is_floating_point:
            a, b = a.nan_to_num(), b.nan_to_num()
        return bool(self.equal(a, b))

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        self.watch.active = True
        try:
            yield
        finally:
            self.watch.active = False


def main(folder: str, commands: int, replies: int) -> None:
    """Answers one command after another until there are no more."""
    import torch

    torch.set_grad_enabled(False)
    job = json.loads((Path(folder) / "job.json").read_text("utf-8"))
    torch.set_num_threads(job["threads"])
    worker = Worker(Path(folder), torch)
    _limit(job["memory_bytes"])
    dumps, write = json.dumps, os.write
    write(replies, (dumps({"ready": True}) + "\n").encode())
    with os.fdopen(commands, encoding="utf-8") as asked:
        for line in asked:
            command = json.loads(line)
            try:
                said = getattr(worker, command["do"])(command)
            except BaseException as error:
                said = {"error": type(error).__name__, "about": str(error)[:300]}
            said["nonce"] = command["nonce"]
            write(replies, (dumps(said) + "\n").encode())


def _limit(memory_bytes: int) -> None:
    """Memory beyond what the process already has; no core files."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if memory_bytes:
        mapped = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * os.sysconf(
            "SC_PAGE_SIZE"
        )
        resource.setrlimit(resource.RLIMIT_AS, (mapped + memory_bytes,) * 2)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
