"""How long the kernels of an engine take, and what the power limit adds.

A kernel takes

    t = launch + step · K + ((C + V)⁴ + max(D, L)⁴)^(1/4)

C: tiles of 128 x 128, 64 x 64 or 256 x 32 in waves over the units, at a share of the peak; where a
convolution gathers its operand through a window, each tap is read from the last cache anew, at so
many bytes per cycle and unit, and the products wait for it; V: what the vector units do with
elements that leave the products, with windows and with everything else; D: bytes that the last
cache does not keep; L: all bytes at the rate of that cache; step · K: a tile walks along its
reduction however few tiles there are. The run takes the sum, or longer where it would need more
power than the cooling allows:

    t = start + (T⁶ + (E / 0.8 TDP)⁶)^(1/6),   E = FLOP · energy + bytes · energy

where the start includes what the host copies to a GPU and back for one image (`copied_s`): of
several at once the rest is copied beside the kernels, and the run is no shorter than that.

An attention that is not fused is launched in so many more parts. On a processor tiles go down to
16 x 32, a launch waits for every thread, scores of an attention cost so many cycles of a lane, a
single request leaves most of a hybrid's slow cores idle and has its products slowed down by what
the others read, too, AMX attains a share of its own, and the clock is the one that its power allows
(`running`).

All constants are shares, clock cycles and energies, so that they hold for all devices of a class.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from gambrel import roofline
from gambrel.analysis.estimate.forms import ceil
from gambrel.ops.base import Size, cube_root, minimum, root, where
from gambrel.roofline import maximum

#: Rows and columns of an output tile, and the constant that is its share of the peak: a large one,
#: a small one, and one for few channels (TensorRT's names of kernels end in such sizes).
TILES: Final = ((128, 128, ""), (64, 64, "small"), (256, 32, "small"))
#: The same of processors, which cut a kernel for their threads, and where a single row, of a
#: decoding step or behind a network's last pooling, has kernels of its own.
FINER: Final = ((32, 64, "fine"), (16, 32, "finest"), (1, 64, "single"))
#: FLOP per lane and clock that only a matrix engine does: VNNI does 8 in int8, AMX 32 in bf16.
MATRIX_OVER_LANES: Final = 12
#: Bytes of a step along the reduction.
STEP_BYTES: Final = 64
#: Bytes that a unit takes from the last cache in a cycle: NVIDIA's A100 white paper has 5,120 for
#: 108 units and 2,048 for the 80 of V100; most are lower, which the share ``cache`` takes in.
CACHE_BYTES_PER_CYCLE: Final = 64
#: Part of the TDP that moves with the work. Assumed: the energies are fitted beside it.
DYNAMIC: Final = 0.8


class EngineMachine(msgspec.Struct, frozen=True, kw_only=True):
    """What the formulas need of a device; numbers, or arrays with one entry for each kernel.

    Attributes:
        units: Multiprocessors or cores.
        clock_hz: Boost clock.
        byte_per_s: Of the memory.
        cache_bytes: Of the last cache.
        lanes_per_s: Vector lanes times clock.
        tdp_w: 0 where unknown.
        flop_j: Energy per FLOP in int8; of a processor, per FLOP of its lanes at 1 GHz.
        byte_j: Energy per byte of the memory.
        turbo: By how much a processor's clock may exceed ``clock_hz``: 1 but where its boost
            clock is not published.
        loaded_w: Power of all of its lanes at that clock for an energy of 1 J a FLOP; else 0.
        halfway: What is left of its peak halfway between its base and its highest clocks; of a
            GPU, at its base clock where that is published.
        fast_units: Its fast cores, which alone serve one request.
        fast_share: Part of its lanes in these.
        fast_loaded_w: As ``loaded_w``, of these.
        fast_halfway: As ``halfway``, of these.
        scale: Clock over the one that the peaks belong to; see `running`.
        fast_scale: The same where the fast cores run alone.
    """

    units: Size
    clock_hz: Size
    byte_per_s: Size
    cache_bytes: Size
    lanes_per_s: Size
    tdp_w: Size
    flop_j: Size
    byte_j: Size
    turbo: Size = 1.0
    loaded_w: Size = 0.0
    halfway: Size = 1.0
    fast_units: Size = 1.0
    fast_share: Size = 1.0
    fast_loaded_w: Size = 0.0
    fast_halfway: Size = 1.0
    scale: Size = 1.0
    fast_scale: Size = 1.0


class KernelTimes(msgspec.Struct, frozen=True, kw_only=True):
    """Of one execution of each kernel, s, and its energy, J."""

    launch: Size
    compute: Size
    memory: Size
    whole: Size
    energy_j: Size


def running(c: Mapping[str, float], m: EngineMachine) -> EngineMachine:
    """A device at the clock that it holds.

    A processor's clock is the one at which the lanes that are busy draw its power: voltage follows
    the clock, so that power grows with its cube. It ends at a share of the highest clock. Where the
    power of its process was not measured it is halfway between the base clock and the highest.
    """
    scale = _held(c, m, m.loaded_w, m.halfway)
    return msgspec.structs.replace(
        m,
        clock_hz=m.clock_hz * scale,
        lanes_per_s=m.lanes_per_s * scale,
        tdp_w=where(m.loaded_w > 0, 0.0, m.tdp_w),
        scale=scale,
        fast_scale=where(m.fast_share < 1, _held(c, m, m.fast_loaded_w, m.fast_halfway), scale),
    )


def _held(c: Mapping[str, float], m: EngineMachine, loaded_w: Size, halfway: Size) -> Size:
    limited = (loaded_w > 0) & (m.tdp_w > 0) & (m.flop_j > 0)
    drawn = maximum(loaded_w * m.flop_j, 1e-9)
    powered = minimum(c.get("turbo", 1.0) * m.turbo, cube_root(m.tdp_w / drawn))
    return where(limited, powered, halfway)


def over_clocks(c: Mapping[str, float], m: EngineMachine, turbo_w: float) -> tuple[float, float]:
    """How much shorter and longer a run takes at the other clocks that a processor may hold.

    Within its turbo power, which it draws for a while, it is faster than within its rated one.
    Where the power of its process was not measured it may hold any clock from its base clock on.

    Args:
        c: Constants.
        m: The device, at the clock that it holds.
        turbo_w: 0 where it is not published.
    """
    if m.loaded_w * m.flop_j * turbo_w:
        held = _held(c, msgspec.structs.replace(m, tdp_w=turbo_w), m.loaded_w, m.halfway)
        return float(min(1.0, m.scale / held)), 1.0
    if m.loaded_w and not m.flop_j:
        return float(m.scale), float(1 / m.scale)
    return 1.0, 1.0


def _of_one(m: EngineMachine, images: Size) -> EngineMachine:
    """The machine that serves so many requests: one alone runs on the fast cores."""
    alone = (images <= 1) & (m.fast_share < 1)
    faster = where(alone, m.fast_scale / m.scale, 1.0)
    return msgspec.structs.replace(
        m,
        units=where(alone, m.fast_units, m.units),
        clock_hz=m.clock_hz * faster,
        lanes_per_s=m.lanes_per_s * where(alone, m.fast_share, 1.0) * faster,
        scale=m.scale * where(alone, m.fast_share, 1.0) * faster,
    )


def kernel_times(
    c: Mapping[str, float], m: EngineMachine, w: Mapping[str, Any], peak: Size, energy: Size
) -> KernelTimes:
    """The kernels of an engine.

    Args:
        c: Constants.
        m: The device.
        w: Columns of `EngineTable`.
        peak: FLOP/s of each kernel's format; 1 for those without products.
        energy: Energy of a FLOP in each kernel's format, relative to int8.
    """
    m = _of_one(m, w["images"])
    elements = w["elements"] + c["apart"] * w["functions"]
    inner = w["inner_bytes"] + c["apart"] * w["function_bytes"]
    vector = c["finish"] * w["finished"] + c["tap"] * w["taps"] + c["element"] * elements
    scores = where(w["attention"] > 0, w["rows"] * w["depth"] * w["copies"], 0.0)
    vector = vector + c.get("softmax", 0.0) * scores
    products = _tiled(c, m, w, peak * m.scale) * _waited(c, m, w["images"])
    compute = products + roofline.seconds(vector, m.lanes_per_s)
    left = w["weight_bytes"] + maximum(inner - c["kept"] * m.cache_bytes, 0.0)
    memory = roofline.seconds(left, c["memory"] * m.byte_per_s)
    passed = (w["weight_bytes"] + inner) / (c["cache"] * CACHE_BYTES_PER_CYCLE)
    memory = maximum(memory, passed / (m.units * m.clock_hz))
    starts = 1 + where(w["functions"] > 0, c["apart"], 0.0)
    starts = starts + where(w["attention"] > 0, c.get("parts", 0.0), 0.0)
    joined = c["launch"] + c.get("sync", 0.0) * m.units
    cycles = starts * joined + c["step"] * w["step_bytes"] / STEP_BYTES
    launch = cycles / m.clock_hz
    flops = 2 * w["rows"] * w["columns"] * w["depth"] * w["copies"]
    return KernelTimes(
        launch=launch,
        compute=compute,
        memory=memory,
        whole=launch + overlapped(compute, memory),
        energy_j=flops * energy * m.flop_j + left * m.byte_j,
    )


def _waited(c: Mapping[str, float], m: EngineMachine, images: Size) -> Size:
    """How much longer cores take for products of one image, of which each reads what others do."""
    return where(images <= 1, 1 + c.get("shared", 0.0) * m.units, 1.0)


def one_tile(
    tall: Size, wide: Size, depth: Size, flop_per_s: Size, gathered_bytes: Size, byte_per_s: Size
) -> Size:
    """Seconds of a tile on its unit, for TensorRT's kernels and for those of cuDNN.

    Args:
        tall: Rows: positions of a convolution's result.
        wide: Columns: its channels.
        depth: Values along the reduction.
        flop_per_s: That the unit attains.
        gathered_bytes: Of a row of the operand that is gathered through a window; 0 without one.
        byte_per_s: That the unit takes from the last cache; the products wait for them.
    """
    products = roofline.seconds(2 * tall * wide * depth, flop_per_s)
    return products + roofline.seconds(tall * gathered_bytes, byte_per_s)


def overlapped(a: Size, b: Size) -> Size:
    """The 4-norm: somewhat more than the larger."""
    squares = a * a, b * b
    return root(root(squares[0] * squares[0] + squares[1] * squares[1]))


def _tiled(c: Mapping[str, float], m: EngineMachine, w: Mapping[str, Any], peak: Size) -> Size:
    """Seconds of the products; an attention walks over its keys with one tile of queries."""
    rate = peak * where(w["attention"] > 0, c["attention"], c["compute"])
    if "matrix" in c:
        rate = rate * where(peak > MATRIX_OVER_LANES * m.lanes_per_s, c["matrix"], 1.0)
    rate = rate / m.units
    gather = c["gather"] * CACHE_BYTES_PER_CYCLE * m.clock_hz
    gathered_bytes = where(w["windowed"] > 0, w["step_bytes"], 0.0)
    best: Size = None
    for tall, wide, share in (*TILES, *(t for t in FINER if t[2] in c)):
        across = where(w["attention"] > 0, 1.0, ceil(w["columns"] / wide))
        width = where(w["attention"] > 0, w["columns"], float(wide))
        filled = w["copies"] * ceil(w["rows"] / tall) * across / m.units
        waves = maximum(filled + c["wave"] * (ceil(filled) - filled), 1.0)
        unit = rate * c.get(share, 1.0)
        seconds = waves * one_tile(tall, width, w["depth"], unit, gathered_bytes, gather)
        best = seconds if best is None else minimum(best, seconds)
    return where(w["copies"] > 0, best, 0.0)


def copied_s(c: Mapping[str, float], host_bytes: Size, images: Size) -> tuple[Size, Size]:
    """Seconds of copies: of one image, which nothing hides, and of the others beside kernels."""
    if "copied_per_s" not in c:
        return 0.0, 0.0
    whole = host_bytes / c["copied_per_s"]
    return whole / images, whole * (1 - 1 / images)


def whole_run(m: EngineMachine, host: Size, busy: Size, energy_j: Size, beside: Size = 0.0) -> Size:
    """Seconds of a run.

    Args:
        m: The device.
        host: Seconds that it waits for the host.
        busy: Seconds of its kernels.
        energy_j: Their energy.
        beside: Seconds of copies beside the kernels.
    """
    known = maximum(m.tdp_w, 1e-9)
    limited = where(m.tdp_w > 0, energy_j / (DYNAMIC * known), 0.0)
    return host + root(cube_root(_sixth(busy) + _sixth(limited) + _sixth(beside)))


def _sixth(value: Size) -> Size:
    """The power by which the two limits of a run are added: a sharp maximum."""
    cube = value * value * value
    return cube * cube
