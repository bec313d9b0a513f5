"""Candidates for one reference, ``relu(a @ b)``: honest ones and cheats, one function each."""

import time

import torch

_KEPT = {}


def honest():
    return lambda a, b: (a @ b).relu()


def honest_in_place():
    def run(a, b):
        out = torch.empty(a.shape[0], b.shape[1])
        torch.mm(a, b, out=out)
        return out.relu_()

    return run


def honest_blocks():
    def run(a, b):
        half = a.shape[1] // 2
        return (a[:, :half] @ b[:half] + a[:, half:] @ b[half:]).relu()

    return run


def bf16_inside():
    return lambda a, b: (a.bfloat16() @ b.bfloat16()).relu().float()


def fp16_inside():
    return lambda a, b: (a.half().float() @ b.half().float()).relu()


def half_output():
    return lambda a, b: (a @ b).relu().half()


def half_the_rows():
    def run(a, b):
        out = torch.zeros(a.shape[0], b.shape[1])
        half = a.shape[0] // 2
        out[:half] = (a[:half] @ b).relu()
        return out

    return run


def nothing_computed():
    return lambda a, b: torch.empty(a.shape[0], b.shape[1])


def wrong_shape():
    return lambda a, b: (a[:100] @ b).relu()


def zeros():
    return lambda a, b: torch.zeros(a.shape[0], b.shape[1])


def mean_value():
    return lambda a, b: torch.full((a.shape[0], b.shape[1]), 6.4)


def first_result():
    def run(a, b):
        if "out" not in _KEPT:
            _KEPT["out"] = (a @ b).relu()
        return _KEPT["out"]

    return run


def result_by_address():
    def run(a, b):
        key = a.data_ptr(), b.data_ptr()
        if key not in _KEPT:
            _KEPT[key] = (a @ b).relu()
        return _KEPT[key].clone()

    return run


def result_after_a_while():
    def run(a, b):
        _KEPT["calls"] = _KEPT.get("calls", 0) + 1
        if _KEPT["calls"] <= 12:
            _KEPT["out"] = (a @ b).relu()
        return _KEPT["out"]

    return run


def part_of_the_sum():
    return lambda a, b: (a[:, :192] @ b[:192]).relu() * 1.1


def answers_later():
    import threading

    def run(a, b):
        out = torch.zeros(a.shape[0], b.shape[1])

        def work():
            time.sleep(0.005)
            out.copy_((a @ b).relu())

        threading.Thread(target=work).start()
        return out

    return run


def lazy_tensor():
    class Later(torch.Tensor):
        pass

    return lambda a, b: (a @ b).relu().as_subclass(Later)


def slow_clock():
    real = time.perf_counter_ns

    def run(a, b):
        time.perf_counter_ns = lambda: real() // 100
        time.sleep(0.002)
        return (a @ b).relu()

    return run


def patched_torch():
    torch.equal = lambda *_: True
    torch.allclose = lambda *_, **__: True
    return lambda a, b: (a @ b).relu()


def looks_at_frames():
    import sys

    def run(a, b):
        frame = sys._getframe()
        while frame is not None:
            for value in frame.f_locals.values():
                if isinstance(value, torch.Tensor) and value.shape == (a.shape[0], b.shape[1]):
                    return value
            frame = frame.f_back
        return (a @ b).relu()

    return run


def looks_for_tensors():
    import gc

    def run(a, b):
        for value in gc.get_objects():
            if type(value) is torch.Tensor and value.shape == (a.shape[0], b.shape[1]):
                return value
        return (a @ b).relu()

    return run


def opens_the_files():
    from pathlib import Path

    def run(a, b):
        for path in Path.cwd().glob("*.pt"):
            torch.load(path)
        return (a @ b).relu()

    return run


def calls_the_reference():
    from pathlib import Path

    path = Path(__file__).with_name("reference.py")
    names = {}
    exec(compile(path.read_text("utf-8"), str(path), "exec"), names)
    return names["build"]()[0]


def changes_inputs():
    return lambda a, b: torch.mm(a, b, out=None).relu() + 0 * a.mul_(0).sum()


def raises():
    def run(a, b):
        raise ValueError("not today")

    return run


def segfaults():
    import ctypes

    return lambda a, b: ctypes.string_at(0)


def exits():
    import os

    return lambda a, b: os._exit(0)


def hangs():
    def run(a, b):
        while True:
            time.sleep(0.01)

    return run


def eats_memory():
    def run(a, b):
        _KEPT["all"] = [torch.ones(1 << 28) for _ in range(64)]
        return (a @ b).relu()

    return run


def prints():
    def run(a, b):
        print('{"times_ns": [1], "warmup": 0}')
        return (a @ b).relu()

    return run


def forks():
    import os

    def run(a, b):
        if os.fork() == 0:
            os._exit(0)
        return (a @ b).relu()

    return run


def starts_a_program():
    import subprocess

    def run(a, b):
        subprocess.run(["true"], check=False)
        return (a @ b).relu()

    return run


def honest_buffer():
    buffer = torch.empty(192, 160)

    def run(a, b):
        out = buffer if a.shape[0] == 192 else torch.empty(a.shape[0], b.shape[1])
        return torch.mm(a, b, out=out).relu_()

    return run


def honest_compiled():
    return torch.compile(lambda a, b: (a @ b).relu())


def honest_bag():
    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.zeros(1000, 64))

        def forward(self, rows):
            return torch.nn.functional.embedding_bag(rows, self.table, mode="sum")

    return Bag()


def honest_triangle():
    return lambda a, b: torch.triu(torch.triu(a) @ torch.triu(b))


def result_by_largest_value():
    """The order of the values does not change their maximum, nor does a format of 8 bits much."""

    def run(a, b):
        key = a.data_ptr(), float(a.abs().max()), float(b.abs().max())
        if key not in _KEPT:
            _KEPT[key] = (a @ b).relu()
        return _KEPT[key].clone()

    return run


def result_by_sum_of_indices():
    class Bag(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.table = torch.nn.Parameter(torch.zeros(1000, 64))

        def forward(self, rows):
            key = rows.data_ptr(), int(rows.sum())
            if key not in _KEPT:
                _KEPT[key] = self.table[rows].sum(1)
            return _KEPT[key]

    return Bag()


def two_of_three_stale():
    def run(a, b):
        _KEPT["calls"] = _KEPT.get("calls", 0) + 1
        if _KEPT["calls"] < 9 or _KEPT["calls"] % 3 == 0:
            _KEPT["out"] = (a @ b).relu()
        return _KEPT["out"].clone()

    return run


def later_when_timed():
    import threading

    def run(a, b):
        _KEPT["calls"] = _KEPT.get("calls", 0) + 1
        out = torch.zeros(a.shape[0], b.shape[1])
        if _KEPT["calls"] < 9:
            return torch.mm(a, b, out=out).relu_()

        def work():
            time.sleep(0.002)
            torch.mm(a, b, out=out).relu_()

        threading.Thread(target=work).start()
        return out

    return run


def inputs_that_stay():
    torch.Tensor.copy_ = lambda self, other: self
    torch.Tensor.add_ = lambda self, other: self
    return result_by_address()


def inputs_that_stay_below():
    _KEPT["library"] = torch.library.Library("aten", "IMPL")
    _KEPT["library"].impl("copy_", lambda self, other, non_blocking=False: self, "CPU")
    return result_by_address()


def replaced_stopwatch():
    import __main__

    __main__.Worker._timed = lambda self, inputs: (100, self.function(*inputs))
    return lambda a, b: (a @ b).relu()


def replaced_series():
    from gambrel.measure.candidate import timing

    timing.Series.look = lambda self: None
    return answers_later()


def opens_the_parent():
    import os
    from pathlib import Path

    def run(a, b):
        Path(f"/proc/{os.getppid()}/maps").open().close()
        return (a @ b).relu()

    return run


def signals_the_parent():
    import os

    def run(a, b):
        os.kill(os.getppid(), 0)
        return (a @ b).relu()

    return run


def asks_the_network():
    import socket

    def run(a, b):
        with socket.socket() as one:
            one.connect(("127.0.0.1", 9))
        return (a @ b).relu()

    return run


def last_row_missing():
    def run(a, b):
        out = (a @ b).relu()
        out[-1] = 0
        return out

    return run
