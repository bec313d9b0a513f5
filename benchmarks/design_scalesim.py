"""Cycles that SCALE-Sim counts for some layers, as data for ``design_peers.py``.

    python -m venv peer && peer/bin/pip install scalesim==3.0.0 "numpy<2"
    peer/bin/python benchmarks/design_scalesim.py > benchmarks/data/design_scalesim.json

Its memories are made so large and wide that nothing stalls: what is compared is the array.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import tempfile
from pathlib import Path

CONFIG = """[general]
run_name = run
[architecture_presets]
ArrayHeight: {rows}
ArrayWidth: {cols}
IfmapSramSzkB: 8192
FilterSramSzkB: 8192
OfmapSramSzkB: 8192
IfmapOffset: 0
FilterOffset: 10000000
OfmapOffset: 20000000
Dataflow: {dataflow}
Bandwidth: 1000
ReadRequestBuffer: 64
WriteRequestBuffer: 64
[layout]
IfmapCustomLayout: False
IfmapSRAMBankBandwidth: 10
IfmapSRAMBankNum: 10
IfmapSRAMBankPort: 2
FilterCustomLayout: False
FilterSRAMBankBandwidth: 10
FilterSRAMBankNum: 10
FilterSRAMBankPort: 2
[sparsity]
SparsitySupport: false
SparseRep: ellpack_block
OptimizedMapping: false
BlockSize: 4
RandomNumberGeneratorSeed: 40
[run_presets]
InterfaceBandwidth: CALC
UseRamulatorTrace: False
"""
#: Layer, (rows of the result, columns, length of the sum).
LAYERS = {
    "alexnet conv5": (169, 128, 1728),
    "resnet50 layer2 1x1": (784, 512, 128),
    "resnet50 layer4 3x3": (49, 512, 4608),
    "mobilenet-v2 project": (3136, 24, 144),
    "bert-base query, 128 tokens": (128, 768, 768),
    "fc of one image": (1, 1000, 2048),
}
#: Layer → rows, columns and dataflow of the arrays that it is tried on.
ARRAYS = {
    "alexnet conv5": ((128, 128, "ws"), (32, 32, "os")),
    "resnet50 layer2 1x1": ((128, 128, "ws"), (32, 32, "is")),
    "resnet50 layer4 3x3": ((128, 128, "ws"), (64, 64, "os")),
    "mobilenet-v2 project": ((128, 128, "ws"), (32, 32, "os")),
    "bert-base query, 128 tokens": ((128, 128, "ws"), (64, 64, "is")),
    "fc of one image": ((128, 128, "ws"), (32, 32, "os")),
}


def cycles(name: str, layer: tuple[int, int, int], array: tuple[int, int, str]) -> dict:
    """One run of the simulator."""
    from scalesim.scale_sim import scalesim

    rows, cols, dataflow = array
    m, n, k = layer
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        word = name.replace(" ", "_").replace(",", "")
        (top / "c.cfg").write_text(CONFIG.format(rows=rows, cols=cols, dataflow=dataflow))
        (top / "t.csv").write_text(f"Layer,M,N,K,\n{word},{m},{n},{k},\n")
        (top / "l.csv").write_text(f"head\n{word},{','.join(['1'] * 20)},\n")
        with contextlib.redirect_stdout(io.StringIO()):
            simulator = scalesim(
                save_disk_space=True,
                verbose=False,
                config=str(top / "c.cfg"),
                topology=str(top / "t.csv"),
                layout=str(top / "l.csv"),
                input_type_gemm=True,
            )
            simulator.run_scale(top_path=folder)
        head, row = csv.reader(next(top.rglob("COMPUTE_REPORT.csv")).open())
    found = dict(zip((title.strip() for title in head), row, strict=True))
    # The report numbers cycles from zero.
    return {
        "layer": name,
        "m": m,
        "n": n,
        "k": k,
        "rows": rows,
        "cols": cols,
        "dataflow": dataflow,
        "cycles": int(float(found["Total Cycles"])) + 1,
        "stalls": int(float(found["Stall Cycles"])),
    }


if __name__ == "__main__":
    found = [cycles(*one, array) for one in LAYERS.items() for array in ARRAYS[one[0]]]
    print(json.dumps({"program": "scalesim 3.0.0", "rows": found}, indent=1))
