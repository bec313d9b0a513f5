"""How a workload is executed: kernels, on-chip memory, host, formats. Data only."""

from __future__ import annotations

from enum import StrEnum
from functools import lru_cache
from typing import Any, Final

import msgspec

from gambrel.device.model import Device, Source
from gambrel.dtypes import GGUF_FORMATS, bits_of_weights, stored_format
from gambrel.views import Viewed

#: Share of a device's memory that an engine for serving takes by default: vLLM's
#: ``--gpu-memory-utilization`` (https://docs.vllm.ai, engine arguments, 0.6.3 of 2024-10).
MEMORY_SHARE: Final = 0.9


class Kernels(StrEnum):
    """Which ops become one kernel, from the most traffic to the least.

    ``function`` is between the first and the last; beside ``pointwise`` it fuses fewer chains, and
    more behind a convolution.
    """

    OP = "op"  # one kernel per op
    FUNCTION = "function"  # functions of one tensor, sums before norms, what library calls take in
    POINTWISE = "pointwise"  # element-wise chains and reductions fuse; matmuls, convolutions apart
    EPILOGUE = "epilogue"  # and what follows a matmul or convolution runs inside it
    TILED = "tiled"  # and intermediates pass through on-chip memory tile by tile
    WHOLE = "whole"  # nothing but weights, inputs and outputs leaves the chip


class Host(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Time that the host spends while it feeds the device.

    Attributes:
        per_launch_s: Host time for each launch of a kernel.
        low_s: Lower end of its range.
        high_s: Upper end.
        source: Where the figures come from.
        per_run_s: Host time for each run that no queue hides.
        runs_on: Patterns of the devices it was measured with, as in `Runtime.runs_on`.
    """

    per_launch_s: float
    low_s: float
    high_s: float
    source: Source
    per_run_s: float = 0.0
    runs_on: tuple[str, ...] = ()


class Residency(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """On-chip memory that keeps intermediates of a kernel or between kernels.

    Attributes:
        group_bytes: Activations of a kernel that pass on chip; None: the device's on-chip capacity.
        prefetch: Weights of later kernels are loaded while earlier ones compute.
        free_scores: Attention scores never leave the chip.
        weights_share: Of the on-chip memory of a device that lives off its host link: what keeps
            weights between runs. The rest holds activations and the program.
        source: Where the figures come from.
    """

    group_bytes: int | None = None
    prefetch: bool = False
    free_scores: bool = False
    weights_share: float = 1.0
    source: Source


class UnitTiling(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How a compiler for an NPU fills its units; without a source as Qualcomm's does.

    Attributes:
        in_channels: Input channels that the matrix unit takes at once: fewer are padded.
        out_channels: The same of its results.
        pixels: Neighbours in a row of a map that it takes at once: rows are padded to a multiple.
        window: Multiply-adds of a window of several taps, relative to those of a single one: what
            was loaded is used by the neighbouring positions as well.
        function: Vector work of a transcendental function, in elements of 16 bits.
        depthwise: The same of a multiply-add of a depthwise convolution.
        reduced: The same of an element of a map that is reduced, as where a block of squeeze and
            excitation takes the mean of each channel.
        pooled: The same of an element of a window of a pooling, where that is not done on the way.
        ordered: The same of an element of the queries, keys, values and result of an attention:
            each is brought to the order of its product (and heads are split off and joined), which
            exported graphs do apart.
        interleaved: The same of an element that is taken out of a row by a slice with a step.
        windowed: The same of an element of a tensor of six dimensions that is brought to another
            order in 16 bits, as where windows are cut out of a plane or put back.
        dense_groups: A convolution of groups passes as the dense one, with zeros for the weights
            between its groups; depthwise ones do not.
        held_bytes: Weights that stay on the chip from run to run, of devices with memory of their
            own.
        free_input_bytes: Bytes of the model's inputs whose handing over does not show beside the
            start of an inference. Where it is told, quantized graphs are given quantized inputs and
            others fp32, and what is beyond counts; None: all elements count, in any format.
        source: Where the figures come from.
    """

    in_channels: int = 32
    out_channels: int = 32
    pixels: int = 1
    window: float = 0.7
    function: float = 1.0
    depthwise: float = 0.1
    reduced: float = 3.0
    pooled: float = 0.0
    ordered: float = 2.0
    interleaved: float = 0.0
    windowed: float = 0.0
    dense_groups: bool = False
    held_bytes: int = 0
    free_input_bytes: int | None = None
    source: Source | None = None


class HostOps(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a compiler takes; the other ops run on the processor of the host.

    Attributes:
        supported: Kinds of ops, or kinds with what they compute (``elementwise:relu``); see
            `gambrel.analysis.host.words_of`.
        rest: The graph is cut once: everything after the first op that is not supported runs on
            the host as well.
        source: Where the list comes from.
    """

    supported: tuple[str, ...]
    rest: bool = False
    source: Source


class FrontEnd(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a request takes outside of the steps of an engine: HTTP, tokenizer, queues.

    Attributes:
        alone_s: Of one with no other in flight.
        token_s: For each token of its prompt.
        beside_s: What is added where nearly all requests are others'.
    """

    alone_s: float = 0.0
    token_s: float = 0.0
    beside_s: float = 0.0

    def seconds(self, tokens: Any, others: Any) -> Any:
        """Of one request, numbers or arrays.

        Args:
            tokens: Of its prompt.
            others: Requests in flight beside it.
        """
        return self.alone_s + self.token_s * tokens + self.beside_s * (1 - 1 / (1 + others))


class States(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How an engine divides the cache of models that keep recurrent states.

    Attributes:
        share: Of the memory for states and cache, that of states.
        slots: States that are kept for each request in flight: its own, and those of prefixes.
    """

    share: float
    slots: int


class OwnLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits of a step that an engine sets by itself on some devices.

    Attributes:
        tokens: Most tokens of a step behind a server.
        offline_tokens: The same in the caller's own process; None: as many.
        requests: Most requests in flight; None: as many as memory holds.
        least_bytes: Memory of a device from which on they hold.
        besides: Patterns of devices on which they do not.
    """

    tokens: int
    offline_tokens: int | None = None
    requests: int | None = None
    least_bytes: int = 0
    besides: tuple[str, ...] = ()


class Service(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a serving engine adds to the kernels of its steps.

    Attributes:
        eager_layer_s: Least time of a step for each layer where the step holds prompt tokens: such
            a step is not replayed as a graph, so that the host launches every kernel.
        alone_layer_s: The same of a step with no request beside its prompts, where the host does
            nothing else; None: as much.
        graph_tokens: Such a step with no more tokens is replayed in pieces, all but attention.
        step_s: Host time of a step that the device waits for.
        request_s: The same for each request in the step: sampling, stop checks, answers handed on.
        frontend: Time of a request outside of the steps.
        reserves_answers: Whether a request is admitted only where the cache has room for its whole
            answer, so that none gives its place up.
        reduce_share: What the engine's own all-reduce of short messages attains of the rate of the
            vendor's library; None where it has none.
        wide_latent_cache: Patterns of devices on which a latent cache has 16 bits unless 8 are
            asked for, because the engine has no fast kernel for 8 there.
        limits: What it sets by itself; the first that hold for a device.
        states: Where the engine divides its memory between recurrent states and cache; None where
            both come from one pool.
        source: Where the figures come from.
    """

    eager_layer_s: float
    alone_layer_s: float | None = None
    graph_tokens: int = 0
    step_s: float
    request_s: float
    frontend: FrontEnd
    reserves_answers: bool = False
    reduce_share: float | None = None
    wide_latent_cache: tuple[str, ...] = ()
    limits: tuple[OwnLimits, ...] = ()
    states: States | None = None
    source: Source

    def limits_on(self, device: Device, memory_bytes: int) -> OwnLimits | None:
        """Limits that the engine sets on a device; None where they are not known.

        Args:
            device: The machine.
            memory_bytes: Of it.
        """
        return next(
            (
                one
                for one in self.limits
                if memory_bytes >= one.least_bytes
                and not (one.besides and matches(one.besides, device))
            ),
            None,
        )


class Workspace(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the memory that kernels take while they run follows known rules.

    The rules themselves are in `gambrel.analysis.workspace`.

    Attributes:
        category: Class of device.
        vendors: Makers of the devices on which the rules were measured, or of the same kind.
        formats: Number formats in which they hold.
        source: Of the measurements.
    """

    category: str
    vendors: tuple[str, ...]
    formats: tuple[str, ...]
    source: Source


class Default(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where a runtime is what people use.

    Attributes:
        devices: Patterns, as in `Runtime.runs_on`.
        formats: Number formats; empty for all.
        language: Only for the phases of language models (True), only elsewhere (False), or both.
        rank: Of several runtimes that match, the lowest wins.
    """

    devices: tuple[str, ...]
    formats: tuple[str, ...] = ()
    language: bool | None = None
    rank: int = 10


class Evidence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What expected times under this runtime were compared with.

    Attributes:
        what: Devices, models or kernels.
        rows: Number of measurements.
        error: Mean absolute error on rows that were not fitted, 1; None where only the form was.
        source: Of the measurements.
        note: What else a reader should know.
    """

    what: str
    rows: int
    source: Source
    error: float | None = None
    note: str = ""


class Runtime(
    Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True, forbid_unknown_fields=True
):
    """One way of executing a workload.

    Attributes:
        id: Short unique name, e.g. ``"tensorrt"``.
        name: As its makers write it.
        about: One sentence.
        kernels: Which ops become one kernel.
        runs_on: Patterns, one of which must occur in a device's id, architecture, vendor or
            category; empty for every device.
        formats: Number formats that it computes in, preferred first; empty for all of the device's.
        halves: Patterns of devices on which it computes networks in fp32 in fp16 unless fp32 is
            asked for, where the device has a rate in fp16.
        gguf: Formats of GGUF files that it reads; ``all`` of them, or none where empty.
        packed: Formats that it takes without kernels that were made or measured for them: weights
            are unpacked first, or by an extension. ``gguf`` stands for all of GGUF files.
        streamed: Those of them that its compiler unpacks as it reads the weights where these meet
            a single row, as in decoding at batch 1.
        served: Language models are stored as serving engines store them (q, k, v as one matrix).
        language: True: runs phases of language models and nothing else; False: runs everything but
            them; None: both.
        networks_only: Its constants were fitted to other networks than language models, of whose
            published times they are wrong: these have no expected time under it.
        one_format: A number format is that of all parts of a language model, its cache and its
            output layer included.
        grouped: Where 4 or 8 bits are asked for, a language model's embeddings and output layer
            are stored in them too, in groups with a scale and an offset.
        graph: Launches are recorded and replayed; the host does not pay for each.
        fused: Id of the runtime of the same software that fuses more; empty where none does.
        recorded: Id of the one that replays the same kernels as a graph; empty where none does.
        max_batch: Most items at once that its compiler takes; None for any.
        trains: Whether it runs training steps; the others run trained models.
        persistent_recurrence: Recurrent layers keep their weights on chip over the steps.
        narrow_sums: It sums GEMMs in fp16 in fp16 where the device is faster so.
        tf32_convolutions: fp32 convolutions run in TF32 where the device has it; fp32 matrix
            multiplications do not.
        int8_blocks: Patterns of devices where it rounds activations to int8 and multiplies them
            with the integers of GGUF blocks, if there is an int8 roof; elsewhere blocks are
            unpacked to 16 bits first.
        rounds_for_mxfp4: Where a matrix engine has four bits, it rounds the activations that meet
            weights in mxfp4 to 8 bits.
        pairs_mxfp4: Patterns of devices where it rounds those of dense products to mxfp4.
        split_attention: Patterns of devices where attention is several kernels, between which its
            scores pass through memory.
        fused_delta_rule: Patterns of devices where prompts of the gated delta rule are one kernel.
        constants: Names under which fitted constants of its kernels are stored, best first; empty
            where nothing was measured.
        part_of: Runtime whose name means this one on the devices of this one.
        host: Host time by class of device; empty where unknown.
        residency: On-chip memory between kernels; None keeps nothing.
        tiling: How it fills the units of an NPU.
        host_ops: What its compiler leaves to the host; None: nothing, as far as is documented.
        workspace: Memory of running kernels, where it follows rules; None where it is not known.
        service: Of a serving engine; None where nothing was measured.
        default_for: Where it is what people use.
        evidence: What expected times were compared with.
        aliases: Other names; the id of another runtime means this one where only this one runs.
    """

    id: str
    name: str
    about: str
    kernels: Kernels
    runs_on: tuple[str, ...] = ()
    formats: tuple[str, ...] = ()
    halves: tuple[str, ...] = ()
    gguf: tuple[str, ...] = ()
    packed: tuple[str, ...] = ()
    streamed: tuple[str, ...] = ()
    served: bool = False
    language: bool | None = None
    networks_only: bool = False
    one_format: bool = False
    grouped: bool = False
    graph: bool = False
    fused: str = ""
    recorded: str = ""
    max_batch: int | None = None
    trains: bool = False
    persistent_recurrence: bool = False
    narrow_sums: bool = False
    tf32_convolutions: bool = False
    int8_blocks: tuple[str, ...] = ()
    rounds_for_mxfp4: bool = False
    pairs_mxfp4: tuple[str, ...] = ()
    split_attention: tuple[str, ...] = ()
    fused_delta_rule: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    part_of: str = ""
    host: tuple[Host, ...] = ()
    residency: Residency | None = None
    tiling: UnitTiling = UnitTiling()
    host_ops: HostOps | None = None
    workspace: Workspace | None = None
    service: Service | None = None
    default_for: tuple[Default, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    aliases: tuple[str, ...] = ()

    @property
    def layers(self) -> str:
        """Whose layers of a language model run.

        ``code``: those of the model's code; ``engine``: an engine's own; ``single``: the same, all
        in one number format; ``grouped``: an engine's own, the embeddings and the output layer
        in the bits of the weights; ``merged``: of an engine that stores q, k and v as one matrix.
        """
        if self.one_format:
            return "single"
        if self.grouped:
            return "grouped"
        if self.served:
            return "merged"
        return "engine" if self.language else "code"

    def host_on(self, device: Device) -> Host | None:
        """The host time with a device; None where it is not known or the launches are replayed."""
        if self.graph:
            return None
        return next((h for h in self.host if matches(h.runs_on, device)), None)

    def halved(self, device: Device) -> bool:
        """Whether networks in fp32 run in fp16 on a device unless fp32 is asked for."""
        able = self.halves and device.ceiling("vector", "fp16") is not None
        return bool(able) and matches(self.halves, device)

    def unpacks(self, precision: str, device: Device) -> bool:
        """Whether it takes a format without kernels for it, so that weights are unpacked first.

        Nor has a GPU kernels for a narrow format without a rate in it, but those of engines that
        unpack weights as they multiply. Processors are no case of it: PyTorch comes with kernels
        of 8 bits for them.
        """
        stored, bits = stored_format(precision), bits_of_weights(precision)
        packed = stored in self.packed or ("gguf" in self.packed and stored in GGUF_FORMATS)
        narrow = bits is not None and bits < 16 and "gpu" in device.category
        rated = any(ceiling.dtype in (stored, "any") for ceiling in device.ceilings)
        foreign = narrow and not rated and self.language is not True
        return (packed or foreign) and device.category != "cpu"

    def workspace_on(self, device: Device) -> Workspace | None:
        """Where the memory of running kernels follows rules on a device; None elsewhere."""
        rules = self.workspace
        known = rules and device.category == rules.category and device.vendor in rules.vendors
        return rules if known else None


def matches(patterns: tuple[str, ...], device: Device) -> bool:
    """Whether one of the patterns occurs in what the device is called; no pattern matches all."""
    if not patterns:
        return True
    return _occurs(patterns, device.id, device.architecture, device.vendor, device.category)


@lru_cache(maxsize=1 << 15)  # every pattern of every runtime on every device
def _occurs(patterns: tuple[str, ...], *called: str) -> bool:
    text = "|".join(called).lower()
    return any(pattern.lower() in text for pattern in patterns)
