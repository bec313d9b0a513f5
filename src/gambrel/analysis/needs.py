"""What a run needs besides time: memory and energy. Data only."""

from __future__ import annotations

import msgspec

from gambrel.device.model import Source


class Footprint(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes that the model needs at once: what is alive at the op where most is.

    Attributes:
        weights_bytes: Parameters and buffers.
        activations_bytes: Intermediates, inputs and outputs alive then.
        kv_cache_bytes: Key/value cache and recurrent state.
        gradients_bytes: Gradients alive then, when training.
        optimizer_bytes: Optimizer state, when training.
        workspace_bytes: What the kernel of that op takes while it runs; None where the runtime on
            the device has no known rule.
        workspace_unknown: Kinds of ops that no rule covers, where others have one.
        peak_op: Name of that op.
        capacity_bytes: Of the device, flash included; None when unknown.
        fits: Whether it fits; None when unknown.
    """

    weights_bytes: int
    activations_bytes: int
    kv_cache_bytes: int = 0
    gradients_bytes: int = 0
    optimizer_bytes: int = 0
    workspace_bytes: int | None = None
    workspace_unknown: tuple[str, ...] = ()
    peak_op: str = ""
    capacity_bytes: int | None = None
    fits: bool | None = None

    @property
    def total_bytes(self) -> int:
        """Sum of all parts that are known."""
        return (
            self.weights_bytes
            + self.activations_bytes
            + self.kv_cache_bytes
            + self.gradients_bytes
            + self.optimizer_bytes
            + (self.workspace_bytes or 0)
        )

    def within(self, capacity_bytes: int | None, flash_bytes: int | None = None) -> Footprint:
        """The same need held against a memory, and the flash in it that holds the weights."""
        fits = fits_within(self.total_bytes, capacity_bytes)
        if fits and flash_bytes is not None and capacity_bytes is not None:
            rest = self.total_bytes - self.weights_bytes
            if self.weights_bytes > flash_bytes or rest > capacity_bytes - flash_bytes:
                fits = None  # one of the two is too small, unless it takes parts of the other
        return msgspec.structs.replace(self, capacity_bytes=capacity_bytes, fits=fits)


def fits_within(need_bytes: int, capacity_bytes: int | None) -> bool | None:
    """Whether a run fits into a memory; None when its capacity is unknown."""
    return None if capacity_bytes is None else need_bytes <= capacity_bytes


class EnergyEstimate(msgspec.Struct, frozen=True, kw_only=True):
    """An estimate of the energy of one run; never a measurement. See docs/energy.md.

    Attributes:
        energy_j: J; None where a part has no published constant.
        static_j: Share that is drawn whatever the device does, over ``time_s``.
        compute_j: Arithmetic.
        memory_j: Traffic of the main memory.
        energy_upper_bound_j: The most power that the device draws, for the slow end of the range
            of the time; None when either is unknown.
        capped: Whether the sum of the parts was above the most power for ``time_s``.
        time_s: Seconds that the estimate is for.
        time_kind: ``expected`` or ``roofline``.
        inferences: Items that the run handles.
        confidence: ``medium`` where whole runs on devices of this class were measured, else
            ``low``; ``unknown`` without an estimate.
        reason: Why.
        power_low_w: Lower end of the average power, where runs of this class were measured.
        power_high_w: Upper end.
        missing: What no constant was found for.
        notes: What else is left out or assumed.
        sources: Where the constants come from.
    """

    energy_j: float | None
    static_j: float | None
    compute_j: float | None
    memory_j: float | None
    energy_upper_bound_j: float | None
    capped: bool
    time_s: float | None
    time_kind: str
    inferences: int
    confidence: str
    reason: str
    power_low_w: float | None = None
    power_high_w: float | None = None
    missing: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def unverified(self) -> tuple[str, ...]:
        """Titles of sources that were not at hand to compare the constants with."""
        return tuple(s.title for s in self.sources if s.confidence == "unverified")

    @property
    def average_power_w(self) -> float | None:
        """Estimated energy over time, W."""
        return self.energy_j / self.time_s if self.energy_j is not None and self.time_s else None

    @property
    def energy_per_inference_j(self) -> float | None:
        """Estimated J for one item."""
        return None if self.energy_j is None else self.energy_j / self.inferences

    @property
    def inferences_per_j(self) -> float | None:
        """Items for one J of the estimate."""
        return self.inferences / self.energy_j if self.energy_j else None
