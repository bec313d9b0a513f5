"""Analyses built by hand for the report tests. The figures are honest: times follow from work."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from gambrel.analysis.measures import (
    Bound,
    EngineWork,
    Estimate,
    Limiter,
    Measures,
    ResourceTime,
    State,
)
from gambrel.analysis.needs import Footprint
from gambrel.analysis.result import Analysis, Group, ModelInfo, OpResult
from gambrel.analysis.sol import Sol
from gambrel.device.model import Ceiling, CeilingKind, Device, Fact, Link, MemoryLevel, Source

SHEET = Source(
    title="Round Numbers datasheet <rev. 1>",
    url="https://example.com/r1.pdf",
    date="2021-06",
    confidence="primary",
)

#: A machine with round numbers: ridge point of the matrix engine 100, of the vector engine 10.
DEVICE = Device(
    id="round-100",
    name="Round 100",
    vendor="Example",
    category="datacenter gpu",
    architecture="Circle",
    year=2021,
    ceilings=(
        Ceiling(
            engine="matrix",
            dtype="fp16",
            flop_per_s=100e12,
            sparse_flop_per_s=200e12,
            source=SHEET,
            sparse_source=SHEET,
        ),
        Ceiling(engine="matrix", dtype="bf16", flop_per_s=100e12, source=SHEET),
        Ceiling(engine="matrix", dtype="int8", flop_per_s=200e12, source=SHEET),
        Ceiling(
            engine="vector",
            dtype="fp32",
            flop_per_s=10e12,
            source=SHEET,
            kind=CeilingKind.MEASURED,
            note="at the boost clock",
        ),
    ),
    memory=(
        MemoryLevel(
            name="DRAM",
            capacity_bytes=16 * 2**30,
            byte_per_s=1e12,
            technology="HBM",
            capacity_source=SHEET,
            bandwidth_source=SHEET,
        ),
        MemoryLevel(name="L2", capacity_bytes=40 * 2**20, byte_per_s=5e12, bandwidth_source=SHEET),
        MemoryLevel(name="L1", capacity_bytes=2**17),
    ),
    links=(Link(name="pcie", byte_per_s=32e9, direction="per direction", source=SHEET),),
    tdp_w=300.0,
    tdp_source=SHEET,
    facts=(Fact(name="boost_clock", value=1.41e9, unit="Hz", source=SHEET),),
    notes=("The sparse figures need 2:4 structured weights.",),
)

MATRIX, VECTOR, DRAM = 100e12, 10e12, 1e12


@dataclass(frozen=True, kw_only=True)
class Row:
    """An op in short."""

    name: str
    kind: str
    matrix: int = 0
    vector: int = 0
    special: int = 0
    read: int = 0
    write: int = 0
    count: int = 1
    state: State = State.COUNTED
    shapes: str = "1x64x56x56 -> 1x64x56x56"
    op: str = "aten.op.default"


#: A small convolutional network. Times at the bound, by hand, with 100 FLOP/µs·1e6 etc.:
#: conv1 236e6/100e12 = 2.36 µs < 2e6/1e12 = 2 µs? no: 2.36 µs, compute-bound.
ROWS = (
    Row(
        name="conv1",
        kind="convolution",
        matrix=236_000_000,
        read=320_000,
        write=1_680_000,
        shapes="1x3x224x224, 64x3x7x7 -> 1x64x112x112",
    ),
    Row(name="bn1", kind="normalization", vector=1_600_000, read=1_600_000, write=1_600_000),
    Row(name="relu", kind="elementwise", vector=800_000, read=1_600_000, write=1_600_000),
    Row(name="maxpool", kind="pooling", vector=1_600_000, read=1_600_000, write=400_000),
    Row(
        name="layer1.*.conv2",
        kind="convolution",
        matrix=924_000_000,
        read=2_400_000,
        write=1_600_000,
        count=4,
    ),
    Row(
        name="layer1.*.relu",
        kind="elementwise",
        vector=800_000,
        read=1_600_000,
        write=1_600_000,
        count=4,
    ),
    Row(
        name="layer2.0.downsample",
        kind="convolution",
        matrix=50_000_000,
        read=900_000,
        write=600_000,
    ),
    Row(name="layer2.0.cat", kind="copy", read=1_000_000, write=1_000_000),
    Row(
        name="layer2.0.softmax",
        kind="softmax",
        vector=400_000,
        special=100_000,
        read=200_000,
        write=200_000,
    ),
    Row(name="layer2.0.on_chip", kind="elementwise", vector=10_000_000),
    Row(name="layer2.0.mystery", kind="mystery_op", state=State.UNMODELLED, op="custom.mystery"),
    Row(name="fc", kind="matmul", matrix=4_096_000, vector=1_000, read=4_100_000, write=2_000),
)

HOSTILE = (
    Row(
        name="<script>alert(1)</script>", kind="convolution", matrix=10**9, read=10**6, write=10**6
    ),
    Row(
        name="a]]></script><!--" + "encoder.layers.block." * 12 + "attention.output.dense",
        kind="<b>bold</b>",
        vector=10**6,
        read=10**6,
        write=10**6,
    ),
    Row(name="esc\x1b[31mred\x07\r\nline", kind="copy", read=10**6, write=10**6),
    Row(name='=HYPERLINK("http://x")|pipe', kind="matmul", matrix=10**8, read=10**5, write=10**5),
    Row(name="卷积.层 \u202egnp.exe", kind="matmul", matrix=10**8, read=10**5, write=10**5),
)


def measures(row: Row, whole: float | None) -> Measures:
    """The measures of one row on `DEVICE`, everything known."""
    if row.state is State.UNMODELLED:
        return Measures()
    matrix, vector = row.matrix / MATRIX, (row.vector + row.special) / VECTOR
    memory = (row.read + row.write) / DRAM
    time = max(matrix, vector, memory)
    compute = Bound.COMPUTE if max(matrix, vector) >= memory else Bound.MEMORY
    work = []
    if row.matrix:
        work.append(_work("matrix", "fp16", row.matrix, "matrix", "fp16", MATRIX))
    if row.vector:
        work.append(_work("vector", "fp16", row.vector, "vector", "fp32", VECTOR))
    if row.special:
        work.append(_work("special", "fp16", row.special, "vector", "fp32", VECTOR))
    busy = (
        ("matrix", Bound.COMPUTE, matrix),
        ("vector", Bound.COMPUTE, vector),
        ("DRAM", Bound.MEMORY, memory),
    )
    return Measures(
        matrix_flops=row.matrix,
        vector_flops=row.vector,
        special_ops=row.special,
        read_bytes=row.read,
        write_bytes=row.write,
        work=tuple(work),
        times=tuple(
            ResourceTime(resource=name, bound=bound, time_s=t, utilization=t / time)
            for name, bound, t in busy
            if t
        ),
        bound=compute if time else None,
        roofline_time_s=time,
        peak_flop_per_s=MATRIX if row.matrix else VECTOR,
        peak_byte_per_s=DRAM,
        time_share=time / whole if whole else None,
    )


def _work(
    work_class: str, dtype: str, flops: int, engine: str, roof: str, peak: float
) -> EngineWork:
    return EngineWork(
        work_class=work_class,
        dtype=dtype,
        flops=flops,
        engine=engine,
        engine_dtype=roof,
        peak_flop_per_s=peak,
        time_s=flops / peak,
    )


def add(parts: list[Measures], whole: float | None) -> Measures:
    """The sum of measures; times add, because ops run one after another."""
    work: dict[tuple[str, str, str, str], int] = {}
    busy: dict[tuple[str, Bound], float] = {}
    for part in parts:
        for w in part.work:
            key = (w.work_class, w.dtype, w.engine, w.engine_dtype)
            work[key] = work.get(key, 0) + w.flops
        for t in part.times:
            busy[(t.resource, t.bound)] = busy.get((t.resource, t.bound), 0.0) + t.time_s
    time = sum(p.roofline_time_s or 0.0 for p in parts)
    matrix = sum(p.matrix_flops for p in parts)
    longest = max(busy, key=lambda k: busy[k], default=None)
    return Measures(
        matrix_flops=matrix,
        vector_flops=sum(p.vector_flops for p in parts),
        special_ops=sum(p.special_ops for p in parts),
        read_bytes=sum(p.read_bytes for p in parts),
        write_bytes=sum(p.write_bytes for p in parts),
        work=tuple(
            _work(c, d, f, e, r, MATRIX if e == "matrix" else VECTOR)
            for (c, d, e, r), f in work.items()
        ),
        times=tuple(
            ResourceTime(resource=r, bound=b, time_s=t, utilization=t / time if time else 0.0)
            for (r, b), t in busy.items()
        ),
        bound=longest[1] if longest else None,
        roofline_time_s=time,
        peak_flop_per_s=MATRIX if matrix else VECTOR,
        peak_byte_per_s=DRAM,
        time_share=time / whole if whole else None,
    )


def groups(ops: tuple[OpResult, ...], key, whole: float) -> tuple[Group, ...]:
    """Sums of ops with the same ``key``, longest time first."""
    names = dict.fromkeys(key(op) for op in ops)
    found = [
        Group(
            name=name,
            count=sum(op.count for op in ops if key(op) == name),
            measures=add([op.measures for op in ops if key(op) == name], whole),
        )
        for name in names
    ]
    return tuple(sorted(found, key=lambda g: -(g.measures.roofline_time_s or 0.0)))


def build(
    rows: tuple[Row, ...] = ROWS, *, name: str = "tinynet", batch: int = 1, device: Device = DEVICE
) -> Analysis:
    """An analysis of ``rows``, each row's figures multiplied by its count already."""
    whole = sum(measures(row, None).roofline_time_s or 0.0 for row in rows)
    ops = tuple(
        OpResult(
            name=row.name,
            kind=row.kind,
            op=row.op,
            module=row.name,
            source="net.py:12",
            phase="forward",
            state=row.state,
            count=row.count,
            shapes=row.shapes,
            measures=measures(row, whole),
        )
        for row in rows
    )
    total = msgspec.structs.replace(
        add([op.measures for op in ops], whole),
        sol_time_s=12.2e-6 if ops else None,
        sol_bound=Bound.COMPUTE if ops else None,
        sol_traffic_bytes=12_000_000 if ops else 0,
    )
    lost = [op.kind for op in ops if op.state is State.UNMODELLED]
    shares: dict[str, float] = {}
    for op in ops:
        if op.measures.bound and whole:
            bound = op.measures.bound.value
            shares[bound] = shares.get(bound, 0.0) + (op.measures.roofline_time_s or 0.0) / whole
    return Analysis(
        model=ModelInfo(
            name=name,
            origin="built by hand",
            precision="fp16",
            precision_reason="the fastest format of the matrix engine that the model can run in",
            symbols={"batch": batch, "image": 224},
            parameters=11_700_000,
        ),
        hardware=device,
        sparsity=False,
        total=total,
        ops=ops,
        by_kind=groups(ops, lambda op: op.kind, whole),
        by_module=groups(ops, lambda op: ".".join(op.module.split(".")[:2]), whole),
        bound_shares=shares,
        coverage=1 - len(lost) / (len(ops) + 3) if ops else 1.0,
        coverage_traffic=0.99 if lost else 1.0,
        unmodelled={kind: lost.count(kind) for kind in lost},
        free_ops=3 if ops else 0,
        coverage_time=0.98 if lost else 1.0,
        sol=Sol(
            time_s=12.2e-6 if ops else None,
            bound=Bound.COMPUTE if ops else None,
            traffic_bytes=12_000_000 if ops else 0,
            resources={"matrix": 12.2e-6, "DRAM": 12e-6} if ops else {},
        ),
        runtime="pytorch",
        runtime_name="PyTorch eager",
        runtime_reason="as asked",
        footprint=Footprint(
            weights_bytes=23_400_000,
            activations_bytes=4_800_000,
            peak_op="maxpool",
            capacity_bytes=16 * 2**30,
            fits=True,
        ),
        conventions={"causal_attention": "half", "embedding": "none"},
        assumptions=("Weights are read once per run.",),
        warnings=("1 op has no formula: mystery_op.",) if lost else (),
        gambrel_version="0.1.0",
    )


def tiny() -> Analysis:
    """The usual case: 12 ops, one without work, one without traffic, one unmodelled."""
    return build()


def hostile() -> Analysis:
    """Names that try to break out of their place."""
    return build(HOSTILE, name="</script><img src=x onerror=alert(1)>")


def empty() -> Analysis:
    """A model without ops."""
    return build(())


def unknown() -> Analysis:
    """A device of which next to nothing is known."""
    bare = Device(id="bare", name="Bare Metal")
    known = tiny()

    def strip(m: Measures) -> Measures:
        return Measures(
            matrix_flops=m.matrix_flops,
            vector_flops=m.vector_flops,
            read_bytes=m.read_bytes,
            write_bytes=m.write_bytes,
        )

    def bared(rows):
        return tuple(msgspec.structs.replace(r, measures=strip(r.measures)) for r in rows)

    return msgspec.structs.replace(
        known,
        hardware=bare,
        total=strip(known.total),
        ops=bared(known.ops),
        by_kind=bared(known.by_kind),
        by_module=bared(known.by_module),
        bound_shares={},
        sol=Sol(time_s=None, bound=None, traffic_bytes=12_000_000, resources={}),
        footprint=Footprint(weights_bytes=1, activations_bytes=1),
    )


def estimated() -> Analysis:
    """With a calibrated estimate."""
    known = tiny()
    time = Estimate(
        value=2e-5,
        low=1.6e-5,
        high=2.6e-5,
        confidence="medium",
        reason="calibrated on a sibling",
        launches_s=1.1e-5,
    )
    return msgspec.structs.replace(
        known,
        total=msgspec.structs.replace(
            known.total, expected_time_s=time, limited_by=Limiter.LAUNCHES
        ),
    )


def large(n: int = 2000) -> Analysis:
    """Many ops of all sizes, deterministic."""
    kinds = ("matmul", "elementwise", "normalization", "softmax", "copy", "convolution")
    rows = []
    for i in range(n):
        kind = kinds[i % len(kinds)]
        heavy = kind in {"matmul", "convolution"}
        traffic = 10_000 + 9973 * (i * 7919 % 1009)
        rows.append(
            Row(
                name=f"model.layers.{i // 20}.{kind}_{i % 20}",
                kind=kind,
                matrix=traffic * (1 + i * 31 % 300) if heavy else 0,
                vector=0 if heavy or kind == "copy" else traffic * (1 + i % 5) // 4,
                read=traffic // 2,
                write=traffic - traffic // 2,
            )
        )
    return build(tuple(rows), name="large")
