"""Scans as engines compute them: prompts in chunks by several kernels, tokens by one.

Of Mamba-2 the bytes between kernels are counted (`dual_bytes`), and nothing was fitted.

The gated delta rule: the kernels of flash-linear-attention, which SGLang, vLLM and Transformers
call, hand to each other through memory what one kernel could keep: the products of keys within a
chunk and their inverse, weighted keys and values, and the state before each chunk. Their products
are small, so that multiprocessors wait for each one's latency; and the kernel that carries the
state walks over the chunks of a sequence one after another. These times overlap imperfectly:

    prompt: starts + norm(chunks · step, heads · chunks · cycles / units, bytes / rate)
    token:  norm(heads · cycles / units, bytes / rate)
    fused:  norm(chunks · ceil(heads / units) · cycles, bytes / rate)

The numbers of cycles of the first two were fitted to times that flashinfer-ai/flashinfer and
vllm-project/vllm published of these kernels beside their own (benchmarks/delta_scan.py has the
errors), that of the last to half of the measured kernels of benchmarks/accuracy/delta_rule.py; the
bytes are counted.
"""

from __future__ import annotations

from typing import Final

from gambrel.analysis.estimate import forms
from gambrel.analysis.estimate.forms import Chip, Constants
from gambrel.ops.base import OpView, Size, ceil_div

#: Tokens of a chunk.
CHUNK: Final = 64
#: Kernels: running sums of decays, products of keys, their inverse, weighted keys and values,
#: states, outputs; the start of one of them is counted with the op.
KERNELS: Final = 6
#: Cycles from chunk to chunk.
STEP_CYCLES: Final = 2900
#: Cycles that a chunk of a head, and a single token of one, keep a multiprocessor.
CHUNK_CYCLES: Final = 23_000
TOKEN_CYCLES: Final = 5200
#: Cycles of a chunk of a head in FlashInfer's one kernel.
FUSED_CYCLES: Final = 5200


def prompt(
    c: Constants,
    machine: Chip,
    *,
    batch: Size,
    tokens: Size,
    heads: Size,
    key_dim: Size,
    value_dim: Size,
    traffic_bytes: Size,
) -> Size:
    """Seconds of work of prompts, with the starts of all kernels but the first.

    Args:
        c: Constants of streaming kernels.
        machine: The device.
        batch: Sequences.
        tokens: Of each.
        heads: Of values.
        key_dim: Length of a key.
        value_dim: Length of a value.
        traffic_bytes: Of the op itself.
    """
    chunks = ceil_div(tokens, CHUNK)
    between = batch * heads * chunks * between_bytes(key_dim, value_dim)
    moved = (traffic_bytes + between) / machine.streaming(c["memory"])
    stepped = chunks * STEP_CYCLES / machine.clock_hz
    busy = _busy(machine, batch * heads * chunks * CHUNK_CYCLES)
    work = forms.overlap(forms.overlap(stepped, busy), moved)
    return (KERNELS - 1) * forms.launch(c, machine) + work


def fused(
    c: Constants, machine: Chip, *, batch: Size, tokens: Size, heads: Size, traffic_bytes: Size
) -> Size:
    """Seconds of work of prompts in one kernel, which keeps on chip what others hand over.

    A multiprocessor takes a head of a sequence and walks over its chunks.

    Args:
        c: Constants of streaming kernels.
        machine: The device.
        batch: Sequences.
        tokens: Of each.
        heads: Of values.
        traffic_bytes: Of the op.
    """
    moved = traffic_bytes / machine.streaming(c["memory"])
    rounds = ceil_div(tokens, CHUNK) * forms.ceil(batch * heads / machine.units)
    return forms.overlap(rounds * FUSED_CYCLES / machine.clock_hz, moved)


def token(c: Constants, machine: Chip, *, batch: Size, heads: Size, traffic_bytes: Size) -> Size:
    """Seconds of work of one token of each sequence, which reads and writes the state.

    Args:
        c: Constants of streaming kernels.
        machine: The device.
        batch: Tokens, of all sequences.
        heads: Of values.
        traffic_bytes: Of the op.
    """
    moved = traffic_bytes / machine.streaming(c["memory"])
    return forms.overlap(_busy(machine, batch * heads * TOKEN_CYCLES), moved)


def between_bytes(key_dim: Size, value_dim: Size) -> Size:
    """Bytes of one chunk and head that pass from kernel to kernel.

    Values of 16 bits: keys are read by four kernels, of which the op counts one; weighted keys,
    weighted values and corrected ones are written and read. Products of keys, CHUNK x CHUNK, are
    written in fp32 and read, their inverse in 16 bits written and read; the state before the chunk
    is written and read.
    """
    rows = 2 * CHUNK * ((3 + 2) * key_dim + (2 + 2) * value_dim)
    return rows + 12 * CHUNK * CHUNK + 4 * key_dim * value_dim


#: Kernels of a scan of Mamba-2: running sums, products within chunks, states, their way from chunk
#: to chunk, outputs.
DUAL_KERNELS: Final = 5


def dual_bytes(view: OpView) -> Size:
    """Bytes that a scan of Mamba-2 (mamba_ssm, whose kernels engines call) moves between kernels.

    Inputs are read once more than the op counts. The state of a chunk is written and read in fp32,
    what it is after its way through the chunks written and read in 16 bits; products within a
    chunk are written and read in fp32, running sums of a head and token written twice and read
    four times.
    """
    chunk, heads, state = view.size("chunk"), view.size("heads"), view.size("state")
    again = 2 * chunk * (heads * view.size("head_dim") + 2 * view.size("groups", 1) * state)
    states = 12 * heads * view.size("head_dim") * state
    products = 8 * view.size("groups", 1) * chunk * chunk
    chunks = view.size("batch") * ceil_div(view.size("seq"), chunk)
    return chunks * (again + states + products + 24 * heads * chunk)


def _busy(machine: Chip, cycles: Size) -> Size:
    return cycles / (machine.units * machine.clock_hz)
