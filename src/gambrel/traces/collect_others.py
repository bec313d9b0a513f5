"""Commands that record a run with PyTorch, AMD's profilers and perf, for the chip at hand."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Final

from gambrel.device.model import Device
from gambrel.errors import InputError

_KINETO: Final = """\
from torch.profiler import ProfilerActivity, profile

model, inputs = ..., (...)  # yours, on the device
for _ in range(3):
    model(*inputs)
activities = [ProfilerActivity.CPU, ProfilerActivity.CUDA]
with profile(activities=activities, record_shapes=True, with_stack=False) as run:
    for _ in range(5):
        model(*inputs)
run.export_chrome_trace("trace.json.gz")
"""

_VALU: Final = tuple(
    f"SQ_INSTS_VALU_{op}_F{bits}" for bits in (16, 32, 64) for op in ("ADD", "MUL", "FMA", "TRANS")
)
_MOPS: Final = tuple(f"SQ_INSTS_VALU_MFMA_MOPS_{f}" for f in ("I8", "F16", "BF16", "F32", "F64"))
_LINES: Final = ("SQ_INSTS_VALU", "SQ_INSTS_SALU", "SQ_WAVES")
_CACHE: Final = ("TCP_TOTAL_CACHE_ACCESSES_sum",)
_TCC: Final = ("TCC_READ_sum", "TCC_WRITE_sum", "TCC_ATOMIC_sum")
_LDS: Final = ("SQ_LDS_IDX_ACTIVE", "SQ_LDS_BANK_CONFLICT")
_MEMORY: Final = (
    *("TCC_EA_RDREQ_sum", "TCC_EA_RDREQ_32B_sum", "TCC_EA_WRREQ_sum", "TCC_EA_WRREQ_64B_sum"),
)
#: MI300 numbers the ports to the fabric and has 128-byte reads.
_MEMORY_300: Final = (
    *("TCC_EA0_RDREQ_sum", "TCC_EA0_RDREQ_32B_sum", "TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"),
    "TCC_BUBBLE_sum",
)
#: MI350 has a counter for each size instead: its TCC_BUBBLE counts something else.
_MEMORY_350: Final = (
    *("TCC_EA0_RDREQ_32B_sum", "TCC_EA0_RDREQ_64B_sum", "TCC_EA0_RDREQ_128B_sum"),
    *("TCC_EA0_WRREQ_sum", "TCC_EA0_WRREQ_64B_sum"),
)
#: Matrix formats that came with a generation.
_LATE_MOPS: Final = {"gfx94": ("F8", "XF32"), "gfx95": ("F8", "F6F4")}
#: Counters of one block that fit into one pass.
_EACH_PASS: Final = 4

#: perf events by what a processor's name holds; https://perfmon-events.intel.com and AMD's
#: "Processor Programming Reference" of the family.
_INTEL: Final = tuple(
    f"fp_arith_inst_retired.{w}_{p}"
    for p in ("double", "single")
    for w in ("scalar", "128b_packed", "256b_packed", "512b_packed")
)
_PERF: Final[tuple[tuple[tuple[str, ...], tuple[str, ...], str], ...]] = (
    (
        ("xeon", "intel", "core"),
        (*_INTEL, "uncore_imc/cas_count_read/", "uncore_imc/cas_count_write/", "l1d.replacement"),
        "an FMA counts twice by itself; the memory controllers need -a and root",
    ),
    (
        ("epyc 9", "zen4", "zen 4", "zen5", "zen 5"),
        ("fp_ret_sse_avx_ops.all", "amd_umc/umc_cas_cmd.rd/", "amd_umc/umc_cas_cmd.wr/"),
        "single and double are not told apart; the memory controllers need -a and root",
    ),
    (
        ("epyc", "ryzen", "zen"),
        ("fp_ret_sse_avx_ops.all", "ls_any_fills_from_sys.dram_io_all"),
        "single and double are not told apart",
    ),
    (
        ("graviton", "altra", "neoverse", "grace", "arm"),
        ("fp_fixed_ops_spec", "fp_scale_ops_spec", "mem_access", "ll_cache_miss_rd"),
        "operations of SVE scale with the vector length",
    ),
)


def kineto_script() -> str:
    """A script that records a PyTorch trace with shapes, and the command that reads it."""
    return f"{_KINETO}# then: gambrel import trace.json.gz\n"


def rocprof_commands(device: Device, program: Sequence[str] = ()) -> str:
    """The counters for rocprofv3, a line a pass, and the command.

    Args:
        device: A GPU of AMD.
        program: What to run; empty for a placeholder.

    Raises:
        InputError: The device is not AMD's.
    """
    if device.vendor != "AMD" or "CDNA" not in device.architecture:
        raise InputError(
            f"{device.id}: counters of work exist on AMD's CDNA GPUs (MI100 and later)."
        )
    run = shlex.join(program) if program else "./program"
    late = next((x for x in _LATE_MOPS if x in device.architecture), "")
    memory = {"": _MEMORY, "gfx94": _MEMORY_300, "gfx95": _MEMORY_350}[late]
    mops = tuple(f"SQ_INSTS_VALU_MFMA_MOPS_{f}" for f in _LATE_MOPS.get(late, ()))
    # CDNA 1 counts neither vector operations nor matrix operations by format.
    first = "gfx908" in device.architecture
    work = () if first else (*_VALU, *_MOPS, *mops)
    blocks = [*_split(work), _LINES, _LDS, _CACHE, _TCC, *_split(memory)]
    lines = [f"pmc: {' '.join(names)}" for names in blocks]
    made = "\n".join(lines)
    note = (
        "# this GPU counts instructions only: the instruction roofline (--instructions)\n"
        if first
        else "# measured roofs: rocprof-compute profile -n roofs --roof-only -- true\n"
    )
    return (
        f"cat > counters.txt <<'END'\n{made}\nEND\n{note}"
        f"rocprofv3 -i counters.txt --kernel-trace --output-format csv -d counters -- {run}\n"
        f"gambrel import counters/*/*counter_collection.csv --hardware {device.id}"
    )


def _split(names: Sequence[str]) -> list[Sequence[str]]:
    return [names[i : i + _EACH_PASS] for i in range(0, len(names), _EACH_PASS)]


def perf_command(device: Device, program: Sequence[str] = ()) -> str:
    """Perf's command with the events of a processor.

    Args:
        device: A CPU.
        program: What to run; empty for a placeholder.

    Raises:
        InputError: No events are known for the device.
    """
    name = f"{device.name} {device.architecture}".lower()
    found = next((x for x in _PERF if any(mark in name for mark in x[0])), None)
    if found is None or "cpu" not in device.category.lower():
        raise InputError(f"{device.id}: no events of perf are known for it; it must be a CPU.")
    run = shlex.join(program) if program else "./program"
    events = ",".join(("duration_time", *found[1]))
    return (
        f"# {found[2]}\nperf stat -x, -o run.csv -a -e {events} -- {run}\n"
        f"gambrel import run.csv --hardware {device.id}"
    )
