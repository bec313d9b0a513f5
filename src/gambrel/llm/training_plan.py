"""How a language model is trained: layout, batch, schedule, what is divided and what is kept."""

from __future__ import annotations

from typing import Final

import msgspec

from gambrel.errors import InputError
from gambrel.llm import layouts, recompute
from gambrel.llm.sharding import Sharding, divisors
from gambrel.llm.spec import ModelSpec

#: What may be kept in the host's memory.
OFFLOAD: Final = ("none", "optimizer", "activations", "all")
#: Orders in which a pipeline runs its microbatches.
SCHEDULES: Final = ("1f1b", "zero-bubble")
#: How kernels run: as in tuned benchmark runs; one after another, each as fast as alone; the same
#: with attention that writes its scores.
TUNING: Final = ("tuned", "kernels", "unfused")
#: How the loss is computed: over logits in 16 bits in one kernel, or with logits in fp32.
LOSS: Final = ("auto", "fused", "fp32")


#: Share of the memory that a plan chosen here fills. What it counts is off by 4 % on published
#: runs, and none of these reports more than 89 % of the memory (torchtitan's).
UTILIZATION: Final = 0.95
#: Most parts of a sequence that a refusal proposes.
_PARTS: Final = 64
_CHOICES: Final = {"offload": OFFLOAD, "loss": LOSS, "tuning": TUNING, "schedule": SCHEDULES}


class TrainingPlan(msgspec.Struct, frozen=True, kw_only=True):
    """How a model is trained.

    Attributes:
        sequences: Of one microbatch on one data-parallel device.
        seq: Tokens of a sequence.
        sharding: The layout; ``data`` replicas average their gradients.
        microbatches: Passes before an update.
        zero: 0 to 3: what the data-parallel devices divide.
        recompute: What is computed again in backward, see `gambrel.llm.recompute`: ``"none"``,
            ``"full"`` (only what crosses layers is kept), classes of ops, or ``"auto"``.
        overlap: Share of the gradient traffic hidden behind the backward pass, as asked; None takes
            what training stacks hide.
        virtual: Pieces of the model on each pipeline stage, which run in turns (interleaved 1F1B).
        offload: What is kept in the host's memory: ``"optimizer"``, ``"activations"``, ``"all"``.
        tuning: ``"tuned"``, ``"kernels"`` or ``"unfused"``: which stack runs it, see `TUNING`.
        loss: ``"fused"`` over logits in 16 bits, ``"fp32"`` with copies of the logits in fp32, or
            ``"auto"``: fused, but for divided parameters (stage 3), whose stacks mostly are not,
            and for steps that are not tuned.
        schedule: ``"1f1b"``, or ``"zero-bubble"``, in which weight gradients fill the bubble.
        utilization: Share of a device's memory that a search and ``recompute="auto"`` may fill: the
            context, buffers of collectives and fragments need the rest. A step whose recomputation
            is named is held against the whole memory.

    Raises:
        InputError: A number out of range.
    """

    sequences: int
    seq: int
    sharding: Sharding = Sharding()
    microbatches: int = 1
    zero: int = 0
    recompute: str = "none"
    overlap: float | None = None
    virtual: int = 1
    schedule: str = "1f1b"
    offload: str = "none"
    tuning: str = "tuned"
    loss: str = "auto"
    utilization: float = UTILIZATION

    def __post_init__(self) -> None:
        for name in ("sequences", "seq", "microbatches", "virtual"):
            value = getattr(self, name)
            if type(value) is not int or value < 1:
                raise InputError(f"{name}={value!r}: give a whole number of at least 1.")
        if self.zero not in (0, 1, 2, 3):
            raise InputError(f"zero={self.zero!r}: stages are 0 to 3.")
        msgspec.structs.force_setattr(self, "recompute", recompute.parse(self.recompute))
        for name, known in _CHOICES.items():
            if getattr(self, name) not in known:
                raise InputError(f"{name}={getattr(self, name)!r}: use {', '.join(known)}.")
        if self.tuning != "tuned" and self.recompute == "auto":
            raise InputError(
                f"recompute=auto is decided with the times of tuned runs, not with tuning="
                f"{self.tuning}; name classes, e.g. norms,activations."
            )
        if self.virtual > 1 and self.sharding.pipeline == 1:
            raise InputError(f"virtual={self.virtual}: pieces of a stage need pipeline above 1.")
        if not 0 < self.utilization <= 1:
            raise InputError(f"utilization={self.utilization!r}: a share above 0, at most 1.")
        if self.overlap is not None and not 0 <= self.overlap <= 1:
            raise InputError(f"overlap={self.overlap!r}: a share from 0 to 1.")

    def check(self, spec: ModelSpec) -> None:
        """Refuses what the model or the schedule cannot have.

        That are sequences beyond the model's context or that do not divide, too many pieces, and
        interleaving without whole rounds of microbatches (Narayanan et al., 2021). Stages and their
        pieces may have a layer more than others, as published runs have them.

        Raises:
            InputError: What was asked, the model's limit, and what fits.
        """
        if spec.max_context is not None and self.seq > spec.max_context:
            raise InputError(
                f"seq={self.seq:,} is beyond max_position_embeddings={spec.max_context:,} of "
                f"{spec.name}; at most {spec.max_context:,}."
            )
        layouts.check(self.sharding, spec)
        if reason := uneven(self.seq, self.sharding):
            raise InputError(reason)
        most = -(-spec.layer_count // self.sharding.pipeline)
        if self.virtual > most:
            raise InputError(
                f"virtual={self.virtual}: {spec.name} has {spec.layer_count} layers for "
                f"{self.sharding.pipeline} stages; at most {most}."
            )

        if self.virtual > 1 and self.microbatches % self.sharding.pipeline:
            raise InputError(
                f"microbatches={self.microbatches} is no multiple of pipeline="
                f"{self.sharding.pipeline}: interleaved pieces (virtual={self.virtual}) take "
                "microbatches in rounds of as many as stages."
            )

    @property
    def tokens(self) -> int:
        """Tokens of a whole step, all replicas."""
        s = self.sharding
        return self.sequences * self.seq * self.microbatches * s.data * s.attention_data

    @property
    def fused_loss(self) -> bool:
        """Whether the loss is one kernel over logits in 16 bits."""
        if self.loss == "auto":
            return self.zero < 3 and self.tuning == "tuned"
        return self.loss == "fused"

    @property
    def idle(self) -> float:
        """Time that a pipeline stage waits, in passes of one microbatch.

        (p - 1) / v with v pieces a stage (Narayanan et al., 2021). Weight gradients, a third of a
        pass, can be put off to fill two thirds of it (Qi et al., "Zero bubble pipeline
        parallelism", 2023, schedule ZB-H1).
        """
        waits = (self.sharding.pipeline - 1) / self.virtual
        return waits / 3 if self.schedule == "zero-bubble" else waits

    @property
    def bubble(self) -> float:
        """Share of a step in which a pipeline stage waits: idle / (m + idle)."""
        return self.idle / (self.microbatches + self.idle)

    @property
    def replicas(self) -> int:
        """Devices that hold the same parameters of attention and dense parts."""
        s = self.sharding
        return s.data * s.context * s.attention_data

    @property
    def expert_replicas(self) -> int:
        """Devices that hold the same experts."""
        return self.sharding.data * self.sharding.context


def uneven(seq: int, sharding: Sharding) -> str:
    """Why devices cannot share the tokens of a sequence evenly; empty where they can.

    Context parallelism divides a sequence, and tensor groups divide their part of it again between
    the matrices (sequence parallelism; Korthikanti et al., 2022).
    """
    tensor, parts = sharding.attention_tensor, sharding.context
    if seq % parts:
        fits = ", ".join(str(n) for n in divisors(seq) if n <= _PARTS)
        return (
            f"context={parts} does not divide the {seq:,} tokens of a sequence; it may be {fits}."
        )
    own = seq // parts
    if own % tensor:
        return (
            f"tensor={tensor} with sequence parallelism does not divide the {own:,} tokens of a "
            f"sequence{' part' if parts > 1 else ''}; take a multiple of {tensor}, e.g. "
            f"{parts * tensor * -(-own // tensor):,} tokens."
        )
    return ""
