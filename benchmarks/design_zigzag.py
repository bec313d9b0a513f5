"""Least DRAM traffic that ZigZag finds for some GEMMs, as data for ``design_peers.py``.

    python -m venv peer && peer/bin/pip install zigzag-dse==3.9.1
    peer/bin/python benchmarks/design_zigzag.py > benchmarks/data/design_zigzag.json

The accelerator has one multiplier, one memory on chip for all operands and DRAM; DRAM alone costs
energy, 1 pJ a byte, so the mapping of least energy is that of least traffic.
"""

from __future__ import annotations

import contextlib
import io
import json
import logging
import tempfile
from pathlib import Path

MEMORY = """
  {name}:
    size: {bits}
    r_cost: {cost}
    w_cost: {cost}
    area: 0
    latency: 1
    operands: [I1, I2, O]
    ports:
      - name: r_port_1
        type: read
        bandwidth_min: 8
        bandwidth_max: {wide}
        allocation: [{read}]
      - name: w_port_1
        type: write
        bandwidth_min: 8
        bandwidth_max: {wide}
        allocation: [{write}]
    served_dimensions: [D1]
"""
READ, WRITE = '"I1, tl", "I2, tl", "O, tl", "O, th"', '"I1, fh", "I2, fh", "O, fh", "O, fl"'
#: Layer, (rows of the result, columns, length of the sum).
LAYERS = {
    "resnet50 layer2 1x1": (784, 512, 128),
    "resnet50 layer4 1x1": (49, 2048, 512),
    "mobilenet-v2 project": (3136, 24, 144),
    "bert-base query, 128 tokens": (128, 768, 768),
}
#: Bytes on chip.
ROOMS = (8 << 10, 64 << 10)


def accelerator(room: int) -> str:
    """The machine in YAML."""
    sram = MEMORY.format(name="sram", bits=room * 8, cost=0, wide=512, read=READ, write=WRITE)
    dram = MEMORY.format(name="dram", bits=10**12, cost=1, wide=8, read=READ, write=WRITE)
    array = (
        "operational_array:\n  unit_energy: 0\n  unit_area: 1\n  dimensions: [D1]\n  sizes: [1]\n"
    )
    return f"name: one\nmemories:{sram}{dram}{array}"


def workload(m: int, n: int, k: int) -> str:
    """One GEMM of bytes with partial sums of 32 bits."""
    return (
        "- id: 0\n  name: gemm\n  operator_type: Gemm\n  equation: O[b][k]+=I[b][c]*W[c][k]\n"
        f"  dimension_relations: []\n  loop_dims: [B, C, K]\n  loop_sizes: [{m}, {k}, {n}]\n"
        "  operand_precision:\n    W: 8\n    I: 8\n    O: 32\n    O_final: 8\n"
        "  operand_source: {I: 0, W: 0}\n"
    )


MAPPING = """- name: default
  spatial_mapping:
    D1:
      - K, 1
  memory_operand_links: {O: O, W: I2, I: I1}
"""


def traffic(room: int, layer: tuple[int, int, int]) -> float:
    """Bytes of the best mapping."""
    from zigzag.api import get_hardware_performance_zigzag

    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        top = Path(folder)
        (top / "hw.yaml").write_text(accelerator(room))
        (top / "load.yaml").write_text(workload(*layer))
        (top / "map.yaml").write_text(MAPPING)
        logging.disable(logging.CRITICAL)
        energy, *_ = get_hardware_performance_zigzag(
            workload=str(top / "load.yaml"),
            accelerator=str(top / "hw.yaml"),
            mapping=str(top / "map.yaml"),
            opt="energy",
            dump_folder=folder,
            pickle_filename=str(top / "list.pickle"),
            loma_show_progress_bar=False,
            lpf_limit=6,
        )
    return float(energy)


if __name__ == "__main__":
    rows = [
        {"layer": name, "m": m, "n": n, "k": k, "on_chip_bytes": room, "traffic_bytes": bytes_}
        for name, (m, n, k) in LAYERS.items()
        for room in ROOMS
        for bytes_ in [traffic(room, (m, n, k))]
    ]
    print(json.dumps({"program": "zigzag-dse 3.9.1", "rows": rows}, indent=1))
