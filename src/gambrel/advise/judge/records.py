"""What the judge says: the limits of a piece of work, the ruling on a measured time, the gap."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from gambrel.analysis.measures import Bound, Estimate
from gambrel.views import Viewed


class Ruling(StrEnum):
    """What a measured time says about whoever produced it."""

    IMPOSSIBLE = "impossible"  # below what the device can do: the measurement or the work is wrong
    INVALID = "invalid"  # the candidate does not do the work, or could not be run
    AT_LIMIT = "at the limit"  # stop: what is left is not worth the effort
    LIBRARY = "library class"  # as fast as the best known library kernel is expected to be
    HEADROOM = "headroom"  # a faster kernel is known, or possible
    UNKNOWN = "unknown"  # no ceiling is known, or nothing was measured

    @property
    def exit_code(self) -> int:
        """Of the command line: 1 where the figure cannot stand, 3 where nothing can be said."""
        return {Ruling.IMPOSSIBLE: 1, Ruling.INVALID: 1, Ruling.UNKNOWN: 3}.get(self, 0)


class IoBound(msgspec.Struct, frozen=True, kw_only=True):
    """A published lower bound on the traffic of one op for a given on-chip capacity.

    Attributes:
        op: Name of the op.
        traffic_bytes: Bytes that cross the main memory at the least.
        on_chip_bytes: Capacity that was assumed.
        formula: With the words counted.
        source: The paper.
    """

    op: str
    traffic_bytes: int
    on_chip_bytes: int
    formula: str
    source: str


class KernelLimits(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """What a piece of work asks for at the least, and what a device allows.

    Attributes:
        reference: What was asked about.
        hardware: Id of the device.
        precision: Number format.
        ceilings: Where the ceilings come from: datasheet, measured, or both.
        matrix_flops: Multiply-accumulate work; None where it is unknown.
        vector_flops: Element-wise arithmetic.
        work_source: Where the work comes from.
        traffic_bytes: Compulsory: inputs and weights once, outputs once; None where unknown.
        traffic_source: Where the bytes come from.
        sol_time_s: No run is faster: what fits may have stayed on chip since the run before.
        floor_time_s: No run is faster even where less arithmetic than was counted would do.
        cold_time_s: The same as ``sol_time_s`` with nothing on chip from an earlier run, and with
            the I/O lower bound where it is above the compulsory traffic: the base of a score.
        bound: The resource that sets the cold time.
        measured_ceiling_time_s: The cold time under ceilings that were measured on such a device;
            None where none were.
        io_bounds: Lower bounds on traffic; those above compulsory traffic count.
        library: Runtime whose kernels are expected to be fastest.
        library_time_s: What these take; None where nothing is known.
        library_expected: With its range.
        launch_s: Part of it that is launch overhead.
        proves: Whether a time below ``sol_time_s`` is impossible.
        caveats: Ways to less arithmetic than was counted.
        unknown: Resources without a known ceiling, which are left out.
        notes: What the reader should know.
    """

    reference: str
    hardware: str
    precision: str
    ceilings: str
    matrix_flops: int | None
    vector_flops: int | None
    traffic_bytes: int | None
    sol_time_s: float | None
    floor_time_s: float | None
    cold_time_s: float | None
    bound: Bound | None
    work_source: str = "from the shapes of its ops"
    traffic_source: str = "inputs, weights and outputs once"
    measured_ceiling_time_s: float | None = None
    io_bounds: tuple[IoBound, ...] = ()
    library: str = ""
    library_time_s: float | None = None
    library_expected: Estimate | None = None
    launch_s: float = 0.0
    proves: bool = True
    caveats: tuple[str, ...] = ()
    unknown: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


class CandidateFinding(msgspec.Struct, frozen=True, kw_only=True):
    """Something that was recognised in a candidate, or a test that it passed.

    Attributes:
        name: Short, e.g. ``cached results``.
        about: What was seen.
        invalid: Whether the candidate cannot stand because of it.
    """

    name: str
    about: str
    invalid: bool = True


class CandidateRun(msgspec.Struct, frozen=True, kw_only=True):
    """How a candidate was run.

    Attributes:
        candidate: Where it is.
        device: What it ran on.
        time_s: Median of a call; None where it did not get so far.
        low_s: Tenth percentile.
        high_s: Ninetieth percentile.
        samples: Timed calls.
        warmup_count: Calls before, until the time was stable.
        cache: What was done about caches between calls.
        error_share: Largest error of any output, as a share of the output's largest value.
        tolerance_share: Largest error that is allowed.
        inputs: Kinds of inputs that it was checked on.
        findings: What was recognised.
    """

    candidate: str
    device: str
    time_s: float | None = None
    low_s: float | None = None
    high_s: float | None = None
    samples: int = 0
    warmup_count: int = 0
    cache: str = ""
    error_share: float | None = None
    tolerance_share: float | None = None
    inputs: tuple[str, ...] = ()
    findings: tuple[CandidateFinding, ...] = ()


class Judgement(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The ruling on a measured time.

    Attributes:
        reference: What was asked about.
        hardware: Id of the device.
        ruling: In a word.
        reason: In a sentence.
        measured_time_s: The time that was judged.
        origin: Where it comes from.
        score: Cold speed of light over measured time; 1 is the limit.
        headroom_factor: Measured time over the cold speed of light.
        headroom_s: What a kernel at the limit would save.
        headroom_share: The same as a share of the whole model; None where no model was named.
        gap_closed: Share of the gap between a baseline and the speed of light that the time closes.
        baseline_time_s: That baseline: the one given, else the expected library kernel.
        baseline: What the baseline is.
        limits: What the device allows.
        causes: For a time that is impossible: what would explain it.
        trial: How the candidate was run, where one was.
        notes: What the reader should know.
    """

    reference: str
    hardware: str
    ruling: Ruling
    reason: str
    measured_time_s: float | None
    origin: str
    limits: KernelLimits
    score: float | None = None
    headroom_factor: float | None = None
    headroom_s: float | None = None
    headroom_share: float | None = None
    gap_closed: float | None = None
    baseline_time_s: float | None = None
    baseline: str = ""
    causes: tuple[str, ...] = ()
    trial: CandidateRun | None = None
    notes: tuple[str, ...] = ()


class GapStep(msgspec.Struct, frozen=True, kw_only=True):
    """One step of the way from the speed of light to the measured time.

    Attributes:
        name: What is added.
        time_s: Time with it.
        added_s: What it adds.
        about: Why, and what to do about it.
    """

    name: str
    time_s: float
    added_s: float
    about: str


class Gap(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """Why a measured time is above the speed of light, step by step.

    Attributes:
        reference: What was asked about.
        hardware: Id of the device.
        ruling: Of the measured time.
        reason: In a sentence.
        measured_time_s: The time.
        score: Cold speed of light over it.
        steps: From the speed of light up.
        next: What to do first.
    """

    reference: str
    hardware: str
    ruling: Ruling
    reason: str
    measured_time_s: float | None
    score: float | None
    steps: tuple[GapStep, ...]
    next: str


class ProblemRow(msgspec.Struct, frozen=True, kw_only=True):
    """One problem of a folder on one device.

    Attributes:
        problem: The file below the folder, without its suffix.
        hardware: Id of the device.
        precision: Number format.
        sol_time_s: No run is faster; None where unknown.
        cold_time_s: With cold caches.
        bound: The resource that sets it.
        matrix_flops: Multiply-accumulate work.
        vector_flops: Element-wise arithmetic.
        traffic_bytes: Compulsory.
        coverage: Share of ops with a formula.
        error: Why there is no figure; empty where there is one.
    """

    problem: str
    hardware: str
    precision: str = ""
    sol_time_s: float | None = None
    cold_time_s: float | None = None
    bound: Bound | None = None
    matrix_flops: int = 0
    vector_flops: int = 0
    traffic_bytes: int = 0
    coverage: float | None = None
    error: str = ""


class Problems(Viewed, msgspec.Struct, frozen=True, kw_only=True, weakref=True):
    """The limits of every problem of a folder on one or more devices.

    Attributes:
        folder: Where they are.
        rows: One a problem and device.
    """

    folder: str
    rows: tuple[ProblemRow, ...]
