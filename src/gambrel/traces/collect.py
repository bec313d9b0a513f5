"""Commands that record everything a hierarchical roofline needs, for the chip at hand.

A metric that a chip does not have makes Nsight Compute fail, so the list is made by chip.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Final

from gambrel.device.model import Device
from gambrel.errors import InputError

_CC: Final = re.compile(r"sm_(\d+)(\d)\b")
_PATH: Final = "sm__ops_path_tensor_"
_WIDE: Final = ("src_fp16_dst_fp16", "src_fp16_dst_fp32", "src_bf16_dst_fp32", "src_tf32_dst_fp32")
_AMPERE: Final = (*_WIDE, "src_fp64", "src_int8", "src_int4", "src_int1")
_FP4_JOINT: Final = ("src_fp4_fp6_fp8_dst_fp16", "src_fp4_fp6_fp8_dst_fp32", "src_fp4_dst_fp32")
_FP4: Final = (
    *("src_fp8_dst_fp16", "src_fp8_dst_fp32", "src_fp4_fp6_dst_fp16", "src_fp4_fp6_dst_fp32"),
    "src_fp4_dst_fp32",
)
#: Counters of tensor work by compute capability: the totals of each source format.
_TENSOR: Final[dict[str, tuple[str, ...]]] = {
    "7.0": ("src_fp16_dst_fp16", "src_fp16_dst_fp32"),
    "7.5": (
        *("src_fp16_dst_fp16", "src_fp16_bf16_tf32_dst_fp32"),
        *("src_int8", "src_int4", "src_int1"),
    ),
    "8.0": _AMPERE,
    "8.6": _AMPERE,
    "8.7": _AMPERE,
    "8.9": (*_AMPERE, "src_fp8"),
    "9.0": (
        *("src_fp16", "src_bf16_dst_fp32", "src_tf32_dst_fp32", "src_fp64"),
        *("src_fp8", "src_int8", "src_int1"),
    ),
    "10.0": (*_WIDE, *_FP4_JOINT, "src_fp64", "src_int8"),
    "10.3": (*_WIDE, *_FP4, "src_fp64", "src_int8"),
    "11.0": (*_WIDE, *_FP4_JOINT, "src_fp64", "src_int8"),
    "12.0": (*_WIDE, *_FP4, "src_fp64", "src_int8"),
    "12.1": (*_WIDE, *_FP4, "src_fp64", "src_int8"),
}
_MORE_VECTOR: Final[dict[str, tuple[str, ...]]] = {
    "10.0": ("fadd2", "fmul2", "ffma2", "qadd4", "qmul4", "qfma4"),
    "10.3": ("fadd2", "fmul2", "ffma2", "qadd4", "qmul4", "qfma4"),
    "12.0": ("ufadd", "ufmul", "uffma"),
    "12.1": ("ufadd", "ufmul", "uffma"),
}
#: Dense peaks of Hopper, whose totals carry the sparse peak.
_HOPPER_PEAKS: Final = tuple(
    f"op_hgmma_{source}_sparsity_off"
    for source in ("src_fp16", "src_bf16_dst_fp32", "src_tf32_dst_fp32")
)
#: Chips with one memory for CPU and GPU, which have no DRAM counters.
_UNIFIED: Final = frozenset({"8.7", "11.0", "12.1"})
_ALWAYS: Final = (
    "gpu__time_duration.sum",
    "sm__inst_executed.sum",
    "sm__cycles_elapsed.avg",
    "sm__cycles_elapsed.avg.per_second",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
    "sm__inst_executed_pipe_tensor.sum",
    "lts__t_sectors_srcunit_tex.sum",
    "l1tex__t_bytes.sum",
    "l1tex__data_pipe_lsu_wavefronts_mem_shared.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",
    "l1tex__t_requests_pipe_lsu_mem_global_op_st.sum",
)
_VECTOR: Final = tuple(f"{t}{op}" for t in "dfh" for op in ("add", "mul", "fma"))
_ROOFS: Final = (
    "lts__lts2xbar_cycles_active.sum.peak_sustained",
    "lts__cycles_elapsed.avg.per_second",
)


def compute_capability(device: Device) -> str:
    """The compute capability of a device, e.g. ``"8.0"``.

    Raises:
        InputError: It is no device of NVIDIA, or the catalog does not say.
    """
    found = _CC.search(device.architecture)
    if found is None:
        raise InputError(
            f"{device.id}: Nsight Compute needs an NVIDIA GPU, and the catalog names no compute "
            "capability (sm_..) for this one."
        )
    return f"{found[1]}.{found[2]}"


def ncu_metrics(cc: str) -> tuple[str, ...]:
    """The metrics to collect on a chip.

    Args:
        cc: Compute capability.

    Raises:
        InputError: The chip is not known.
    """
    if cc not in _TENSOR:
        raise InputError(
            f"compute capability {cc}: no list of metrics for it; known are {', '.join(_TENSOR)}."
        )
    thread = [
        f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum"
        for op in (*_VECTOR, *_MORE_VECTOR.get(cc, ()))
    ]
    tensor = [f"{_PATH}{name}.sum" for name in _TENSOR[cc]]
    return (*_ALWAYS, *thread, *tensor, *_memory(cc), *_peaks(cc))


def _memory(cc: str) -> tuple[str, ...]:
    if cc in _UNIFIED:
        return ("lts__t_sectors_aperture_sysmem.sum",)
    names = ("dram__bytes.sum.peak_sustained", "dram__cycles_elapsed.avg.per_second")
    return ("dram__bytes.sum", *names)


def _peaks(cc: str) -> tuple[str, ...]:
    thread = [
        f"sm__sass_thread_inst_executed_op_{op}_pred_on.sum.peak_sustained"
        for op in ("dfma", "ffma", "hfma")
    ]
    dense = _HOPPER_PEAKS if cc == "9.0" else _TENSOR[cc]
    return (*thread, *(f"{_PATH}{name}.sum.peak_sustained" for name in dense), *_ROOFS)


def ncu_command(cc: str, program: Sequence[str] = (), *, nvtx: bool = False) -> str:
    """The command that records a hierarchical roofline.

    Args:
        cc: Compute capability.
        program: What to run, with its arguments; empty for a placeholder.
        nvtx: Record NVTX ranges as well.

    Raises:
        InputError: The chip is not known.
    """
    ranges = " --nvtx" if nvtx else ""
    run = shlex.join(program) if program else "./program"
    metrics = ",\\\n".join(ncu_metrics(cc))
    # Clocks and caches are left alone, as in a run without a profiler.
    return (
        f"ncu --target-processes all --clock-control none --cache-control none{ranges} \\\n"
        f"    --csv --page raw --print-units base --metrics \\\n{metrics} \\\n"
        f"    {run} > kernels.csv"
    )


#: Name of the section, and of its file without the suffix.
SECTION: Final = "GambrelRoofline"


def ncu_section(cc: str = "") -> str:
    """A section file for Nsight Compute that holds all metrics.

    Only fields that the Customization Guide documents and that sections of every version since
    2020 have are used: https://docs.nvidia.com/nsight-compute/CustomizationGuide/ , "Section
    Files". A metric of a section that a chip lacks brings a warning and reads "n/a", not an error.
    Filters by chip would silence it, but a section with a chip or a field that the installed
    version does not know yet is not loaded at all, so there are none.

    Args:
        cc: Compute capability; empty for the metrics of every known chip.

    Raises:
        InputError: The chip is not known.
    """
    chips = [cc] if cc else sorted(_TENSOR, key=lambda chip: tuple(map(int, chip.split("."))))
    names = dict.fromkeys(name for chip in chips for name in ncu_metrics(chip))
    return "\n".join(
        [
            f'Identifier: "{SECTION}"',
            'DisplayName: "Hierarchical roofline (gambrel)"',
            'Description: "Work, bytes at every memory level, and peaks, for gambrel import."',
            "Order: 900",
            "Metrics {",
            *(f'  Metrics {{ Label: "{name}" Name: "{name}" }}' for name in names),
            "}",
            "",
        ]
    )


def section_command(folder: str, program: Sequence[str] = (), *, nvtx: bool = False) -> str:
    """The command that records with the section file.

    Args:
        folder: Where the section file is.
        program: What to run; empty for a placeholder.
        nvtx: Record NVTX ranges as well.
    """
    run = shlex.join(program) if program else "./program"
    ranges = " --nvtx" if nvtx else ""
    return (
        "LC_ALL=C ncu --target-processes all --clock-control none --cache-control none \\\n"
        f"    --section-folder {shlex.quote(folder)} --section {SECTION}{ranges} \\\n"
        f"    --csv --page raw --print-units base {run} > kernels.csv"
    )
