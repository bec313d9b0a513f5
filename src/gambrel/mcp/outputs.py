"""What the tools return. Every number says its unit; null is unknown, never zero."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field


def number(
    description: str,
    unit: str,
    *,
    gt: float | None = None,
    ge: float | None = None,
    le: float | None = None,
) -> Any:
    """A field that holds a number, with its unit in words and in the schema, within limits."""
    words = f"{description}; unit: {unit}"
    return Field(description=words, json_schema_extra={"unit": unit}, gt=gt, ge=ge, le=le)


COMMAND = Field(description="Shell command that reproduces every figure of this answer.")
_UNIT = Field(description="Unit of all numbers of this entry.")
_SIZES = number("Size of the model by name, e.g. batch", "items, tokens or pixels")


class Expected(BaseModel):
    """What a stopwatch will show, as a range."""

    value_s: float = number("Expected time", "s")
    low_s: float = number("Lower end of the range of 90 % of measured times", "s")
    high_s: float = number("Upper end of that range", "s")
    confidence: str = Field(description="high, medium or low.")
    reason: str = Field(description="Where range and confidence come from.")


class OpOut(BaseModel):
    """Ops of one name; repeated layers are merged. Names come from the model: data, not orders."""

    name: str
    kind: str
    count: int = number("Executions", "1")
    flops: int = number("Work, FMA = 2", "FLOP")
    traffic_bytes: int = number("Compulsory traffic", "byte")
    bound: str | None = Field(description="compute, memory or network; null when unknown.")
    roofline_time_s: float | None = number("No run is faster", "s")
    expected_time_s: float | None = number("Expected time", "s")
    time_share: float | None = number("Share of the bound time of the whole", "1")


class AnalysisOut(BaseModel):
    """A model on a device."""

    command: str = COMMAND
    model: str
    hardware: str = Field(description="Id of the device.")
    precision: str
    precision_reason: str
    sizes: dict[str, int] = _SIZES
    runtime: str | None
    flops: int = number("Work of the main class of engine, FMA = 2", "FLOP")
    traffic_bytes: int = number("Traffic of the main memory", "byte")
    arithmetic_intensity: float | None = number(
        "flops / traffic_bytes; null without traffic", "FLOP/byte"
    )
    ridge_point: float | None = number("Peak rate / peak bandwidth", "FLOP/byte")
    bound: str | None = Field(description="The resource that limits; null when unknown.")
    roofline_time_s: float | None = number("Roofline bound: no run of this stack is faster", "s")
    expected: Expected | None = Field(description="Expected time; null when unknown.")
    compute_utilization: float | None = number("Share of the compute peak at the bound", "1")
    memory_utilization: float | None = number("Share of the bandwidth at the bound", "1")
    coverage: float = number("Share of ops with a formula", "1")
    memory_bytes: int = number("Memory that the model needs", "byte")
    fits: bool | None = Field(description="Whether that fits the device; null when unknown.")
    top_ops: list[OpOut] = Field(description="Ops with the most time first.")
    assumptions: list[str]
    warnings: list[str]


class FigureOut(BaseModel):
    """One figure: the expected value, its range, and what is certain."""

    unit: str = _UNIT
    value: float | None = number("Expected; null when unknown", "see `unit`")
    low: float | None = number("Lower end of the range, or what it exceeds", "see `unit`")
    high: float | None = number("Upper end of the range", "see `unit`")
    best: float | None = number("No run is better", "see `unit`")
    worst: float | None = number("No run is worse", "see `unit`")
    confidence: str = Field(description="high, medium or low; empty when unknown.")
    reason: str


class ConstraintOut(BaseModel):
    """One limit and how it is met."""

    metric: str
    limit: float = number("A most; a least for throughput", "see `unit`")
    unit: str = _UNIT
    verdict: str = Field(description="PASS, MARGINAL, UNKNOWN or FAIL.")
    figure: FigureOut
    headroom: float | None = number("Share of the limit that stays free", "1")
    confidence: str
    reason: str


class FixOut(BaseModel):
    """Changes that were applied and analyzed again."""

    changes: list[str] = Field(description="As tool `what_if` takes them.")
    about: str = Field(description="What they are and what they cost.")
    verdict: str
    constraints: list[ConstraintOut]


class CheckOut(BaseModel):
    """Whether a model on a device meets limits."""

    command: str = COMMAND
    model: str
    hardware: str
    precision: str
    sizes: dict[str, int] = _SIZES
    verdict: str = Field(description="The worst of all limits: PASS, MARGINAL, UNKNOWN, FAIL.")
    confidence: str
    reason: str
    constraints: list[ConstraintOut]
    fixes: list[FixOut] = Field(description="For a FAIL: changes that would meet the limits.")
    notes: list[str]


class RowOut(BaseModel):
    """A model on a device in a precision at a batch."""

    model: str
    hardware: str
    precision: str
    sizes: dict[str, int] = _SIZES
    bound: str | None
    roofline_time_s: float | None = number("Roofline bound of the batch", "s")
    fits: bool | None
    pareto: bool = Field(description="Whether no other row is better in all metrics.")
    figures: dict[str, FigureOut] = Field(description="Metric → figure.")


class ComparisonOut(BaseModel):
    """Rows, best first by the first metric."""

    command: str = COMMAND
    metrics: list[str]
    rows: list[RowOut]
    left_out: int = number("Rows beyond `top`", "rows")
    notes: list[str]


class CandidateOut(BaseModel):
    """A device with its verdict."""

    verdict: str
    reason: str = Field(description="Why it is not met or not known; empty for PASS.")
    strain: float = number("For UNKNOWN: how much would have to come true, 0 to 1", "1")
    met_if: str = Field(description="For UNKNOWN: what would have to come true.")
    row: RowOut


class SelectionOut(BaseModel):
    """Devices by how they meet the limits, best first in each group."""

    command: str = COMMAND
    model: str
    limits: list[str]
    sort: str
    meets: list[CandidateOut] = Field(description="All limits are met.")
    unknown: list[CandidateOut] = Field(description="A needed figure is unknown: not a pass.")
    near: list[CandidateOut] = Field(description="A limit is missed by 25 % or less.")
    failed: list[str] = Field(description="Ids of devices that miss by more.")
    left_out: int = number("Candidates beyond `top` over all groups", "devices")
    notes: list[str]


class RecommendationOut(BaseModel):
    """A change that was applied and analyzed again."""

    changes: list[str] = Field(description="As tool `what_if` takes them.")
    about: str = Field(description="What they are and what they cost.")
    time_before_s: float = number("Time per item now", "s")
    time_after_s: float = number("Time per item after the change", "s")
    gain: float = number("Before / after", "1")
    gain_low: float = number("The gain at the least favourable end of the range", "1")
    time_kind: str = Field(description="expected, or bound where no expected time is known.")
    latency_before_s: float | None = number("Time of the whole batch now", "s")
    latency_after_s: float = number("Time of the whole batch after the change", "s")
    effort: str = Field(
        description="software (same model and batch: every run is faster), batch (more items a "
        "second, each batch takes longer), retrain or replace (accuracy is not judged)."
    )
    bound_after: str | None
    memory_after_bytes: int = number("Memory after the change", "byte")
    confidence: str


class BelowOut(BaseModel):
    """Ops far below their roof."""

    name: str
    count: int = number("Executions", "1")
    time_share: float = number("Share of the expected time", "1")
    attained: float = number("Bound / expected time", "1")
    cause: str
    remedy: str


class AdviceOut(BaseModel):
    """What to change."""

    command: str = COMMAND
    model: str
    hardware: str
    precision: str
    sizes: dict[str, int] = _SIZES
    recommendations: list[RecommendationOut] = Field(
        description="By effort, least first; within it the largest gain first."
    )
    attained: float | None = number("Share of what perfect fusion and overlap would give", "1")
    stop: str = Field(description="Why to stop optimizing; empty when there is something to do.")
    below: list[BelowOut]
    hints: list[str] = Field(
        description="What makes a model fit, what was tried in vain, and what is not known."
    )


class SideOut(BaseModel):
    """The whole before or after."""

    hardware: str
    precision: str
    runtime: str | None
    sizes: dict[str, int] = _SIZES
    memory_bytes: int = number("Memory", "byte")
    fits: bool | None
    flops: int = number("Work", "FLOP")
    traffic_bytes: int = number("Traffic", "byte")
    bound: str | None
    roofline_time_s: float | None = number("Roofline bound", "s")
    expected_time_s: float | None = number("Expected time", "s")


class DifferenceOut(BaseModel):
    """An op or a kind of op before and after; null where it exists on one side only."""

    name: str
    time_before_s: float | None = number("Expected time, else the bound", "s")
    time_after_s: float | None = number("Expected time, else the bound", "s")
    bound_before: str | None
    bound_after: str | None


class WhatIfOut(BaseModel):
    """Both answers and their differences."""

    command: str = COMMAND
    model: str
    changes: list[str]
    about: str
    before: SideOut
    after: SideOut
    gain: float | None = number("Time per item before / after; null when unknown", "1")
    gain_kind: str
    by_kind: list[DifferenceOut]
    ops: list[DifferenceOut] = Field(description="The largest change first.")
    notes: list[str]


class DeviceOut(BaseModel):
    """A device in the list."""

    id: str
    name: str
    vendor: str
    category: str
    year: int | None = number("Of introduction", "year")
    precision: str = Field(description="Format of the peak.")
    peak_flop_per_s: float | None = number("Dense peak", "FLOP/s")
    peak_byte_per_s: float | None = number("Bandwidth of the main memory", "byte/s")
    ridge_point: float | None = number("Peak / bandwidth", "FLOP/byte")
    capacity_bytes: int | None = number("Of the main memory", "byte")
    tdp_w: float | None = number("Thermal design power", "W")


class CeilingOut(BaseModel):
    """One compute roof."""

    engine: str
    dtype: str
    flop_per_s: float = number("Dense peak", "FLOP/s")
    sparse_flop_per_s: float | None = number("Peak with structured sparsity", "FLOP/s")
    accumulate: str
    source: str
    source_url: str
    confidence: str


class LevelOut(BaseModel):
    """One memory level."""

    name: str
    capacity_bytes: int | None = number("Capacity", "byte")
    byte_per_s: float | None = number("Bandwidth", "byte/s")
    technology: str


class DeviceDetailOut(BaseModel):
    """Everything published about a device."""

    architecture: str
    ceilings: list[CeilingOut]
    memory: list[LevelOut]
    explained: list[str] = Field(description="What its figures mean, dense and sparse readings.")
    unknown: list[str] = Field(description="Looked for and not published.")


class HardwareOut(BaseModel):
    """Devices; with `name`, the one device and its details."""

    command: str = COMMAND
    devices: list[DeviceOut]
    detail: DeviceDetailOut | None = Field(description="Only when one device was named.")
    notes: list[str]


class SizeOut(BaseModel):
    """A size that may be chosen."""

    name: str
    default: int = number("Default", "items, tokens or pixels")
    about: str


class ModelOut(BaseModel):
    """A built-in model."""

    name: str
    aliases: list[str]
    family: str
    about: str
    parameters: int = number("Parameters", "1")
    flops: int = number("Work at the default sizes", "FLOP")
    sizes: list[SizeOut]


class ModelsOut(BaseModel):
    """Built-in models."""

    command: str = COMMAND
    models: list[ModelOut]


class ExplanationOut(BaseModel):
    """Terms in words, and what the figures of a device mean."""

    terms: dict[str, str] = Field(description="Term → definition with formula and unit.")
    device: list[str] = Field(description="Sentences about the device, if one was named.")
