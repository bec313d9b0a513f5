"""A design as an accelerator of other explorers, for the workloads of `loops`.

ZigZag: accelerator in YAML, https://kuleuven-micas.github.io/zigzag/hardware.html; read by
zigzag-dse 3.9.1. Timeloop: architecture 0.4, after the classes of its front end and the published
example designs (github.com/Accelergy-Project/timeloopfe, v4/arch.py; github.com/NVlabs/timeloop,
workspace/example_designs; 2026-11). The program is on no package index and was not run.
Energies that a design does not state are written as 0 and named in a comment.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gambrel.advise.design.record import DesignStudy
from gambrel.dtypes import width_bytes
from gambrel.errors import InputError

#: Dataflow → the operand that stays in the units, as ZigZag calls it.
_RESIDENT: Final = {"output": "O", "weight": "I2", "input": "I1"}
#: The same as Timeloop calls its data spaces.
_KEPT: Final = {"output": "Outputs", "weight": "Weights", "input": "Inputs"}
_OPERANDS: Final = ("I1", "I2", "O")
#: Bits of a line of a memory, as the published examples have them.
_LINE: Final = 64
#: A memory that never limits how much it holds, bits.
_PLENTY: Final = 10**13


def zigzag_accelerator(study: DesignStudy) -> bytes:
    """The array with one register for what stays, the on-chip memory and DRAM.

    Raises:
        InputError: A row-stationary array, which ZigZag states by a spatial mapping.
    """
    d = _device(study)
    register = _RESIDENT[d["dataflow"]]
    wide = d["sum_bits"] if register == "O" else d["bits"]
    on_chip = round(d["sram"] * 8)
    row = max(8, round(d["rows"])) * d["bits"]
    dram = max(8, round(d["dram_byte_per_s"] * 8 * d["s_per_cycle"]))
    memories = (
        _memory("register", wide, (register,), wide, 0.0, 0.0, "[]")
        + _memory("sram", on_chip, _OPERANDS, row, d["sram_j_per_byte"], row, "[D1, D2]")
        + _memory("dram", _PLENTY, _OPERANDS, dram, d["dram_j_per_byte"], dram, "[D1, D2]")
    )
    return (
        f"{_head(study, d)}name: {_word(study.name)}\n\nmemories:\n{memories}\n"
        f"operational_array:\n  unit_energy: {d['mac_j'] * 1e12:g} # pJ\n  unit_area: 1\n"
        f"  dimensions: [D1, D2]\n  sizes: [{round(d['rows'])}, {round(d['cols'])}]\n"
    ).encode()


def _memory(
    name: str,
    bits: int,
    operands: tuple[str, ...],
    port: int,
    j_per_byte: float,
    moved: float,
    served: str,
) -> str:
    """A memory with one port to read and one to write; a cost is that of one full access."""
    cost = j_per_byte * moved / 8 * 1e12
    read = "".join(f"          - {o}, tl\n" for o in operands)
    write = "".join(f"          - {o}, fh\n" for o in operands)
    if "O" in operands:
        read, write = f"{read}          - O, th\n", f"{write}          - O, fl\n"
    narrow = min(port, 8)
    return (
        f"  {name}:\n    size: {bits}\n    r_cost: {cost:g}\n    w_cost: {cost:g}\n    area: 0\n"
        f"    latency: 1\n    operands: [{', '.join(operands)}]\n    ports:\n"
        f"      - name: r_port_1\n        type: read\n        bandwidth_min: {narrow}\n"
        f"        bandwidth_max: {port}\n        allocation:\n{read}"
        f"      - name: w_port_1\n        type: write\n        bandwidth_min: {narrow}\n"
        f"        bandwidth_max: {port}\n        allocation:\n{write}"
        f"    served_dimensions: {served}\n\n"
    )


def timeloop_architecture(study: DesignStudy) -> bytes:
    """DRAM, the on-chip memory, and the array with one register for what stays.

    Raises:
        InputError: A row-stationary array, which Timeloop states by constraints.
    """
    d = _device(study)
    bits, rows, cols = d["bits"], round(d["rows"]), round(d["cols"])
    line = max(_LINE, bits)
    words_per_cycle = d["dram_byte_per_s"] * d["s_per_cycle"] * 8 / bits
    system = f"global_cycle_seconds: {d['s_per_cycle']:g}, technology: {_technology(d)}"
    dram = f"width: {line}, datawidth: {bits}, shared_bandwidth: {words_per_cycle:g}"
    buffer = f"depth: {int(d['sram'] * 8 // line)}, width: {line}, datawidth: {bits}"
    register = f"depth: 1, width: {d['sum_bits']}, datawidth: {d['sum_bits']}"
    kept = f"    constraints: {{dataspace: {{keep_only: [{_KEPT[d['dataflow']]}]}}}}\n"
    nodes = (
        _node("Container", "system", system),
        _node("Component", "DRAM", dram, "class: DRAM", " # bandwidth in words for each cycle"),
        _node("Container", "chip"),
        _node("Component", "buffer", buffer, "class: smartbuffer_SRAM"),
        _node("Container", "PE", "", f"spatial: {{meshX: {cols}, meshY: {rows}}}"),
        _node("Component", "register", register, "class: storage\n    subclass: aladdin_register"),
        kept,
        _node(
            *("Component", "mac", f"multiplier_width: {bits}, adder_width: {d['sum_bits']}"),
            "class: intmac" if d["precision"].startswith(("int", "uint")) else "class: fpmac",
        ),
    )
    head = f"{_head(study, d)}architecture:\n  version: 0.4\n  nodes:\n"
    return (head + "".join(nodes)).encode()


def _node(kind: str, name: str, attributes: str = "", more: str = "", said: str = "") -> str:
    lines = [f"  - !{kind}", f"    name: {name}"]
    lines += [f"    {more}"] if more else []
    lines += [f"    attributes: {{{attributes}}}{said}"] if attributes else []
    return "\n".join(lines) + "\n"


def _technology(d: Mapping[str, Any]) -> str:
    """The node of the energies; Timeloop asks for one whether it is known or not."""
    return f'"{d["node"]}"' if d["node"] else "-1"


def _device(study: DesignStudy) -> dict[str, Any]:
    found: Mapping[str, Any] = study.device
    if found["dataflow"] not in _RESIDENT:
        raise InputError(
            f"{study.name} is row-stationary, which other tools state as constraints of the "
            "mapping; export it as output, weight or input stationary."
        )
    bits, sums = (round(8 * width_bytes(found[key])) for key in ("precision", "accumulate"))
    return {**found, "bits": bits, "sum_bits": sums}


def _head(study: DesignStudy, d: Mapping[str, Any]) -> str:
    names = {"mac_j": "a multiply-add", "sram_j_per_byte": "SRAM", "dram_j_per_byte": "DRAM"}
    unknown = [about for key, about in names.items() if not d[key]]
    said = f"# The energy of {', '.join(unknown)} is unknown and stands as 0.\n" if unknown else ""
    arrays = f"# One of {d['arrays']:g} equal arrays.\n" if d["arrays"] > 1 else ""
    return f"# {_word(study.name)}, exported by gambrel\n{said}{arrays}"


def _word(text: str) -> str:
    return "".join(c if c.isalnum() or c in "-_" else "_" for c in text) or "design"
