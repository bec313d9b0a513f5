"""GEMMs in every format: what the vendor's library attains."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from gambrel.measure.gpu.engines import FORMATS
from gambrel.measure.gpu.tasks import GpuTask, TaskVariant
from gambrel.measure.gpu.timing import Bench, Call

#: Sides of the square products. All are multiples of 256: tiles are filled, rows aligned.
SIDES: Final = (1024, 2048, 4096, 6144, 8192, 12288, 16384)

#: Bytes of an operand and of a result.
_BYTES: Final = {
    "fp64": (8, 8),
    "fp32": (4, 4),
    "tf32": (4, 4),
    "fp16": (2, 2),
    "bf16": (2, 2),
    "int8": (1, 4),
    "fp8": (1, 2),
}
_TORCH: Final = {
    "fp64": "float64",
    "fp32": "float32",
    "tf32": "float32",
    "fp16": "float16",
    "bf16": "bfloat16",
}

Prepare = Callable[[Bench, int], Call]


def products(bench: Bench) -> Iterator[GpuTask]:
    """One task a format that the device has; fp8 has two."""
    for dtype in FORMATS:
        engine = bench.engines[dtype][0]
        if engine:
            for mix, ways in _kinds(dtype):
                yield GpuTask(
                    resource=engine,
                    mix=mix,
                    dtype=dtype,
                    unit="FLOP/s",
                    sustained=True,
                    ways=tuple(_way(bench, dtype, *w, side) for side in bench.sides for w in ways),
                )


def lacking(bench: Bench) -> list[str]:
    """The formats that the device does not have, and why."""
    return [f"{d} matmul: {reason}" for d, (engine, reason) in bench.engines.items() if not engine]


def _kinds(dtype: str) -> list[tuple[str, list[tuple[str, Prepare]]]]:
    """Mixes of a format, each with layouts by name."""
    if dtype == "int8":
        return [("matmul", [("second operand by columns", _int8)])]
    if dtype == "fp8":
        # Sums in fewer bits, as the datasheet counts; frameworks use it for inference.
        return [
            ("matmul", [("second operand by columns", lambda b, s: _fp8(b, s, fast=False))]),
            (
                "matmul, fast sums",
                [("second operand by columns", lambda b, s: _fp8(b, s, fast=True))],
            ),
        ]
    return [("matmul", [(name, _plain(dtype, by_columns=c)) for name, c in _LAYOUTS])]


#: As a linear layer stores its weights, and as `a @ b` has them: either may be the faster one.
_LAYOUTS: Final = (("second operand by columns", True), ("both by rows", False))


def _way(bench: Bench, dtype: str, layout: str, prepare: Prepare, side: int) -> TaskVariant:
    operand, result = _BYTES[dtype]
    return TaskVariant(
        note=f"square product of side {side}, {layout}",
        work=2.0 * side**3,
        # Random numbers are drawn in fp32 for formats of one byte.
        holds_bytes=side**2 * (2 * operand + result + (4 if operand == 1 else 0)),
        prepare=lambda: prepare(bench, side),
    )


def _plain(dtype: str, *, by_columns: bool) -> Prepare:
    def prepare(bench: Bench, side: int) -> Call:
        import torch

        kind = getattr(torch, _TORCH[dtype])
        a, b = (torch.randn(side, side, device=bench.device, dtype=kind) for _ in range(2))
        out = torch.empty(side, side, device=bench.device, dtype=kind)
        second = b.t() if by_columns else b
        return lambda: torch.mm(a, second, out=out)

    return prepare


def _int8(bench: Bench, side: int) -> Call:
    import torch

    def drawn() -> Any:
        shape = (side, side)
        return torch.randint(-128, 128, shape, device=bench.device, dtype=torch.int8)

    a, second = drawn(), drawn().t()
    out = torch.empty(side, side, device=bench.device, dtype=torch.int32)
    return lambda: torch._int_mm(a, second, out=out)


def _fp8(bench: Bench, side: int, *, fast: bool) -> Call:
    import torch

    kind = getattr(torch, bench.fp8)

    def drawn() -> Any:
        return torch.randn(side, side, device=bench.device, dtype=torch.float32).to(kind)

    a, second = drawn(), drawn().t()  # the library takes the second operand by columns alone
    one = torch.ones((), device=bench.device, dtype=torch.float32)
    return lambda: torch._scaled_mm(
        a, second, scale_a=one, scale_b=one, out_dtype=torch.bfloat16, use_fast_accum=fast
    )
