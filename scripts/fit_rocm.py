"""Fits what AMD's GPUs attain in 16 bits and less to published runs of whole models.

    python scripts/fit_rocm.py [--write]

MI300X with vLLM: no kernel was measured. Of 80 rows (benchmarks/data/rocm) follow the share of the
bandwidth (weights and cache alike), the share of the fp8 peak, the time of a layer's launches and
the share of the links that all-reduces attain, which the best fit chooses from a few; steps and
requests cost the host what they cost served vLLM. Two models cannot say how one does for the other
(their layers cost what their weights do); errors are those of one version by the other.

PyTorch's products in 16 bits: the formula of its fp32 ones, fitted to an MI210, with
another share of the peak. On a die of an MI250 it is that of BERT's encoder, as AITemplate
published it with PyTorch 1.12 and ROCm 5.2.3 (benchmarks/data/networks, rows where the host is not
the limit); on an MI300X what SemiAnalysis measured of torch.matmul. A product with one row attains
the share of the bandwidth that vLLM does. The encoder's share holds what its other kernels take
beyond their own formulas: all of it grows with the tokens, so that these rows cannot tell one from
the other. A product alone may be as much faster as fp32 ones, measured alone, attain more of their
peak; the low end of the range of products reaches so far.
``--write`` stores all sets in
src/gambrel/analysis/calibration/constants.json.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec
import numpy as np

import constants_file
from gambrel.analysis.estimate.constants import Calibration, packaged
from gambrel.analysis.estimate.forms import IN_FLIGHT_BYTE_PER_S
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.device.roofs import main_memory, peer_link, resolve
from gambrel.llm.accounting import forward_flops
from gambrel.llm.known import spec_of
from gambrel.ops import Conventions
from gambrel.runtimes import Service, runtime

ROOT: Final = Path(__file__).parents[1]
ROWS: Final = ROOT / "benchmarks/data/rocm/rows.csv"
DEVICE: Final = "mi300x"
RANKS: Final = 8
#: Kernels of a layer besides its two all-reduces, and the start of one, s: that of NCCL on eight
#: GPUs, an assumption; only the sum of a layer is fitted.
KERNELS: Final = 9
REDUCE_S: Final = 15e-6
#: Link's rate over what all-reduces attain, of which the best is taken.
REDUCES: Final = (1.5, 2.0, 2.5, 3.0, 3.5, 4.0)
#: No kernel was measured, and one layout.
RANGE: Final = (0.75, 1.35)
NETWORKS: Final = ROOT / "benchmarks/data/networks/rows.csv"
SOURCE, MODEL = "aitemplate", "bert-base-encoder"
#: Tokens of a run from which on the host is not the limit.
BUSY_TOKENS: Final = 8192
#: FLOP/s of torch.matmul in bf16 on an MI300X: "MI300X vs H100 vs H200 Benchmark Part 1: Training",
#: SemiAnalysis, December 2024. AMD's own best with a tuned library and shape is 708e12 (ROCm blogs,
#: "Measuring Max-Achievable FLOPs, Part 2", 2025).
MI300X_MATMUL: Final = 620e12
#: Formats of 16 bits and less, and the constants that are shares of the peak.
HALF: Final = "half"
SHARES: Final = ("compute", "engine", "engine_3d", "transposed", "grouped", "few_lanes")
#: Between versions of a library: CK's kernels took 0.55 of the time of PyTorch 1.12 on an MI250.
HALF_RANGE: Final = (0.65, 1.5)


class Row(NamedTuple):
    """One published run: seconds at the peaks by what is done, and as measured."""

    version: str
    memory_s: float
    layers: float
    matrix_s: float
    links_s: float
    requests: float
    steps: float
    measured_s: float


class Fit(NamedTuple):
    """Peak over attained, and seconds of a layer's launches."""

    memory: float
    layer_s: float
    matrix: float
    links: float


def rows() -> list[Row]:
    """All of them."""
    device = load(DEVICE)
    level, link, peak = main_memory(device), peer_link(device), resolve(device, "matrix", "fp8")
    assert level is not None
    assert link is not None
    assert peak is not None
    bandwidth, rate = level.byte_per_s, link.byte_per_s_per_direction
    assert bandwidth is not None
    assert rate is not None
    found = []
    with ROWS.open(newline="") as file:
        for r in csv.DictReader(file):
            spec = spec_of(r["model"])
            assert spec is not None
            into, out, batch = (int(r[key]) for key in ("input", "output", "requests"))
            layers = sum(group.count for group in spec.layers)
            head = spec.vocab * spec.hidden
            inner = (forward_flops(spec, 1) / 2 - head) / RANKS
            cache = 2 * layers * 128 / RANKS * 8  # one key/value head of 128 a device, fp8
            tokens = batch * (into + out)
            moved = 2 * layers * tokens * spec.hidden * 2 * 2 * (RANKS - 1) / RANKS
            step = inner + 2 * head / RANKS + batch * (into + out / 2) * cache
            matrix = 2 * inner * tokens + 4 * head / RANKS * batch * out
            given = r["seconds"]
            measured = float(given) if given else batch * out / float(r["tokens_per_s"])
            found.append(
                Row(
                    version=r["version"],
                    memory_s=out * step / bandwidth,
                    layers=out * layers,
                    matrix_s=matrix / peak.flop_per_s,
                    links_s=moved / rate,
                    requests=batch * out,
                    steps=out,
                    measured_s=measured,
                )
            )
    return found


def predicted(row: Row, own: Fit, service: Service) -> float:
    """Seconds of a run."""
    shared = own.memory * row.memory_s + own.layer_s * row.layers + own.matrix * row.matrix_s
    return shared + own.links * row.links_s + host_s(row, service)


def host_s(row: Row, service: Service) -> float:
    """What steps and requests cost the host."""
    return service.step_s * row.steps + service.request_s * row.requests


def error(data: Sequence[Row], own: Fit, service: Service) -> float:
    """Mean absolute error, 1."""
    return float(np.mean([abs(predicted(r, own, service) / r.measured_s - 1) for r in data]))


def fit(data: Sequence[Row], service: Service) -> Fit:
    """Least squares of relative errors."""
    tried = []
    for links in REDUCES:
        left = np.array([[r.memory_s, r.layers, r.matrix_s] for r in data])
        measured = np.array([r.measured_s for r in data])
        known = np.array([links * r.links_s + host_s(r, service) for r in data])
        found = np.linalg.lstsq(left / measured[:, None], 1 - known / measured, rcond=None)[0]
        tried.append(Fit(*map(float, found), links))
    return min(tried, key=lambda one: error(data, one, service))


def sets(own: Fit) -> list[dict[str, Any]]:
    """As the constants of formulas; what only measured kernels tell is left out (0)."""
    device = load(DEVICE)
    units, clock = device.fact("num_units"), device.fact("boost_clock")
    level = main_memory(device)
    assert units is not None
    assert clock is not None
    assert level is not None
    assert level.byte_per_s is not None
    most = 1 + level.byte_per_s / units.value / IN_FLIGHT_BYTE_PER_S
    launch = round((own.layer_s - 2 * REDUCE_S) / KERNELS * clock.value)
    memory = round(most / own.memory, 4)
    zero = dict.fromkeys(
        ("quantize", "row", "by_rows", "k_fill", "wave", "operand", "unaligned"), 0.0
    )
    matmul = {**zero, "k_split": 128.0, "headroom": 1e9, "settle": 0.002, "launch": launch}
    matmul |= {"compute": round(1 / own.matrix, 4), "memory": memory}
    decode = dict.fromkeys(
        ("lone_launch", "tile", "query", "key", "wide", "block", "edge", "late", "combine", "warm"),
        0.0,
    )
    decode |= dict.fromkeys(
        ("lone_memory", "split_lone", "split_shared", "pack_window", "grouped"), 1.0
    )
    decode |= {"keys_split": 128.0, "join": 4.0, "launch": launch, "memory": memory}
    reduce = {"step_s": 0.0, "base_s": REDUCE_S, "share": round(1 / own.links, 4), "middle": 0.0}
    cached = ["bf16", "fp16", "bf16_kv8", "fp16_kv8", "fp8"]
    stream = {"launch": launch, "memory": memory, "vector": 0.5}
    kinds: list[tuple[str, list[str], dict[str, Any]]] = [
        ("matmul", ["fp8"], matmul),
        ("stream", ["any"], stream),
        ("decode_attention", cached, decode),
        *(("collective", [f"all_reduce-{n}"], reduce) for n in (2, 4, 8)),
    ]
    return [
        {
            "framework": "vllm",
            "form": form,
            "formats": formats,
            "device": DEVICE,
            "constants": constants,
            "points": 0,
            "low": [RANGE[0]] * 4,
            "high": [RANGE[1]] * 4,
            "confidence": "low",
            "describes": "vllm",
        }
        for form, formats, constants in kinds
    ]


@cache
def encoder(batch: int, length: int) -> Workbench:
    """BERT's encoder in fp16 without a mask, attention spelled out, as AITemplate timed it."""
    import torch
    import transformers

    from gambrel.capture.torch import capture, ensure_torchvision

    ensure_torchvision()
    config = transformers.BertConfig(attn_implementation="eager", max_position_embeddings=length)
    with torch.device("meta"):
        module = transformers.BertModel(config).encoder.eval().half()
        hidden = torch.empty(batch, length, config.hidden_size, dtype=torch.float16)
        return Workbench(capture(module, (hidden,)), {}, Conventions())


def eager_rows(device: str = "mi250") -> list[tuple[Workbench, float]]:
    """What was run, and seconds."""
    with NETWORKS.open(newline="") as file:
        wanted = SOURCE, MODEL, device
        found = csv.DictReader(file)
        rows = [r for r in found if (r["source"], r["model"], r["device"]) == wanted]
    return [
        (encoder(int(r["batch"]), int(r["size"])), int(r["batch"]) / float(r["per_s"]))
        for r in rows
        if int(r["batch"]) * int(r["size"]) >= BUSY_TOKENS
    ]


def half_sets(stream: float) -> list[dict[str, Any]]:
    """PyTorch's products and convolutions in 16 bits, by the share of what fp32 ones attain.

    Convolutions are products to this library as well: their share is that of the products.

    Args:
        stream: Share of the bandwidth of a product with one row.
    """
    content = constants_file.read()["sets"]
    wide = {
        name: s["constants"] | {"vector": stream}
        for s in content
        for name in s["formats"]
        if (s["form"], s["device"]) == ("torch_matmul", "mi210") and not name.endswith(HALF)
    }
    convolution = next(
        s["constants"]
        for s in content
        if (s["form"], s["device"]) == ("torch_convolution", "mi210")
    )
    rows, device = eager_rows(), load("mi250")

    def ratios(share: float) -> Any:
        calibration = _with(_half(wide, "mi210", share))
        settings = Settings(precision="fp16", runtime="pytorch", calibration=calibration)
        machine = Machine(device, settings)
        totals = [answered(bench, machine, settings).expected.total for bench, _ in rows]
        return np.array([m / t.value for (_, m), t in zip(rows, totals, strict=True) if t])

    low, high = 0.1, 1.0
    while high - low > 1e-3:
        share = (low + high) / 2
        low, high = (share, high) if np.log(ratios(share)).mean() < 0 else (low, share)
    share = float(f"{(low + high) / 2:.3g}")
    found = ratios(share)
    error = np.abs(1 / found - 1).mean()
    print(f"16 bits on an MI250: {share} of fp32's share, {len(found)} rows, {error:.1%} in-sample")
    print(f"  measured / expected {found.min():.2f} to {found.max():.2f}")
    peak = resolve(load(DEVICE), "matrix", "bf16")
    assert peak is not None
    newer = MI300X_MATMUL / peak.flop_per_s / wide["linear"]["compute"]
    return [
        *_half(wide, "mi100", share),
        *_half(wide, "mi210", share),
        *_half(wide, DEVICE, newer),
        *(
            _set("torch_convolution", HALF, of, _slower(convolution, by))
            for of, by in (("mi100", share), ("mi210", share), (DEVICE, newer))
        ),
    ]


def _half(wide: dict[str, dict[str, float]], device: str, share: float) -> list[dict[str, Any]]:
    found = [
        _set("torch_matmul", f"{name}_{HALF}", device, _slower(own, share))
        for name, own in wide.items()
    ]
    low = float(f"{min(HALF_RANGE[0], share):.3g}")
    return [{**one, "low": [low] * 4} for one in found]


def _slower(wide: dict[str, float], share: float) -> dict[str, float]:
    return {k: float(f"{v * share:.4g}") if k in SHARES else v for k, v in wide.items()}


def _set(form: str, name: str, device: str, constants: dict[str, float]) -> dict[str, Any]:
    return {
        "framework": "torch",
        "form": form,
        "formats": [name],
        "device": device,
        "constants": constants,
        "points": 0,
        "low": [HALF_RANGE[0]] * 4,
        "high": [HALF_RANGE[1]] * 4,
        "confidence": "low",
        "describes": "torch",
    }


def _is_half(device: str, name: str) -> bool:
    return device.startswith("mi") and name.endswith(HALF)


def _with(fresh: Sequence[dict[str, Any]]) -> Calibration:
    base = packaged()
    own = [msgspec.convert(s, type(base.sets[0]), strict=False) for s in fresh]
    kept = [s for s in base.sets if not _is_half(s.device, s.formats[0])]
    return msgspec.structs.replace(base, sets=(*kept, *own))


def main() -> int:
    """Prints errors and constants."""
    service = runtime("vllm").service
    assert service is not None
    data = rows()
    own = fit(data, service)
    print(f"{len(data)} rows: {error(data, own, service):.1%}; {own}")
    for version in sorted({r.version for r in data}):
        others = [r for r in data if r.version != version]
        left = [r for r in data if r.version == version]
        print(f"{version} by the other: {error(left, fit(others, service), service):.1%}")
    halves = half_sets(float(f"{1 / own.memory:.3g}"))
    if "--write" in sys.argv:
        constants = constants_file.read()
        kept = [s for s in constants["sets"] if s["device"] != DEVICE]
        kept = [s for s in kept if not _is_half(s["device"], s["formats"][0])]
        constants["sets"] = kept + sets(own) + halves
        constants_file.write(constants)
    return 0


if __name__ == "__main__":
    sys.exit(main())
