"""Cycles that SCALE-Sim counts for some layers, as data for ``design_peers.py``.

    python -m venv peer && peer/bin/pip install scalesim==3.0.0 "numpy<2"
    peer/bin/python benchmarks/design_scalesim.py > benchmarks/data/design_scalesim.json

What is compared is the array: the cycles of its operand matrices, before its memories stall it.
"""

from __future__ import annotations

import contextlib
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


class ArrayCyclesError(Exception):
    """Carries the cycles of the array out of the simulator before it simulates its memories."""


def stop(_: object, _ifmap: object, _filter: object, ofmap: object) -> None:
    """Stands in for the memories: the operand matrices have one row for each cycle."""
    raise ArrayCyclesError(ofmap.shape[0])


def cycles(name: str, layer: tuple[int, int, int], array: tuple[int, int, str]) -> dict:
    """One run of the simulator."""
    from scalesim.memory.double_buffered_scratchpad_mem import double_buffered_scratchpad
    from scalesim.scale_sim import scalesim

    double_buffered_scratchpad.service_memory_requests = stop
    rows, cols, dataflow = array
    m, n, k = layer
    found = 0
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
            try:
                simulator.run_scale(top_path=folder)
            except ArrayCyclesError as error:
                found = int(error.args[0])
    sizes = {"m": m, "n": n, "k": k}
    return {
        "layer": name,
        **sizes,
        "rows": rows,
        "cols": cols,
        "dataflow": dataflow,
        "cycles": found,
    }


if __name__ == "__main__":
    found = [cycles(*one, array) for one in LAYERS.items() for array in ARRAYS[one[0]]]
    print(json.dumps({"program": "scalesim 3.0.0", "rows": found}, indent=1))
