"""A real survey of this machine: its structure and its sums, never how fast it is."""

import ctypes
import dataclasses
import math

import msgspec
import numpy as np
import pytest

from gambrel.analysis.measures import Bound
from gambrel.api.analyze import analyze
from gambrel.device.files import load_file
from gambrel.device.model import CeilingKind
from gambrel.errors import DeviceError
from gambrel.measure import cpu, ir, native
from gambrel.measure.arena import arena
from gambrel.measure.convert import to_device, to_toml
from gambrel.measure.loops import Variant
from gambrel.measure.machine import Cache, HostMachine, this_machine
from gambrel.measure.native import compiler
from gambrel.measure.probes import CHUNK, Probe, suite
from gambrel.measure.records import Measurement, Survey, summarize
from gambrel.measure.stats import SampledRate


def test_every_level_is_measured_in_every_mix_with_one_and_all_threads(survey):
    here = this_machine()
    counts = {1, len(here.cpus)}
    levels = {m.resource for m in survey.measurements if m.unit == "B/s"}
    assert "DRAM" in levels
    for level in levels:
        rows = [m for m in survey.measurements if m.resource == level]
        mixes = {m.mix for m in rows}
        assert {"read", "write", "copy", "triad", "update"} <= mixes
        for mix in mixes:
            assert {m.threads for m in rows if m.mix == mix} <= counts


def test_figures_are_numbers_with_their_doubts(survey):
    for m in survey.measurements:
        assert 0 < m.median <= m.value < math.inf
        assert 0 <= m.spread < 1
        assert m.samples == 2 * 3
        assert m.rounds == 2
        assert (m.working_set_bytes is None) == (m.unit == "FLOP/s")
        assert (m.clock_hz is None) == (m.per_cycle is None)
        assert compiler().is_x86 or m.clock_hz is None


def test_formats_are_those_of_the_machine(survey):
    formats = {m.dtype for m in survey.measurements if m.unit == "FLOP/s"}
    assert {"fp64", "fp32"} <= formats
    assert ("bf16" in formats) == bool(compiler().features & {"avx512bf16", "amx-bf16"})


@pytest.mark.parametrize(("resource", "dtype"), [("vector", "fp32"), ("matrix", "bf16")])
def test_the_clock_is_watched_while_the_units_are_busy(resource, dtype):
    """Work and chain take turns on one thread; how fast either is depends on who else runs."""
    tools = compiler()
    found = cpu._allowed(suite(tools, this_machine())).probes
    probe = next((p for p in found if (p.resource, p.dtype) == (resource, dtype)), None)
    if not tools.is_x86 or probe is None:
        pytest.skip("no clock, or no such unit")
    with arena(2 << 20) as words:
        cpu._operands(probe, words.address)
        ctypes.c_int64.from_address(words.address + cpu._CHAIN_AT).value = 3
        work = (cpu._job(probe, (words.address,), 20), 6)
        clock = (cpu._clock(tools, probe, (words.address,)), 6)
        times, chain = native.run_in_turn(tools, (work, clock), [0])
    assert times.size == chain.size == 6
    assert (times > 0).all()
    assert (chain > 0).all()


def test_the_clock_of_a_chain_by_hand():
    """Multiplications that wait for each other, 3 cycles each; a fast slice was not interrupted.

    So many cycles in 2 s are the clock; slices in which others ran take longer and do not count.
    """
    cycles = ir.CHAIN * 3 * cpu._CLOCK_PASSES
    assert cpu._clock_hz(np.array([2.0, 2.0, 2.0, 5.0, 9.0])) == cycles / 2.0


def test_a_short_survey_says_that_it_saw_a_moment_only():
    assert cpu._of_a_moment(20.0) == ()
    assert cpu._of_a_moment(6.4)[0].startswith("these are figures of 6 s: where the clock changes")


def test_a_slow_machine_has_fewer_rounds(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(cpu, "_PATIENCE", 0.0)
    found = cpu.survey(cpu.TimingBudget(steps=1, warmup=0, rounds=9))
    assert {m.rounds for m in found.measurements} == {2}
    assert {m.samples for m in found.measurements} == {2}


def test_main_memory_is_walked_on_from_probe_to_probe(monkeypatch):
    """A probe that began where the last one began would find that one's data in a large cache."""
    pytest.importorskip("llvmlite")
    seen = []
    run = native.run_in_turn

    def watched(tools, jobs, cpus):
        seen.extend((job.first, count) for job, count in jobs if job.chunks > 1)
        return run(tools, jobs, cpus)

    monkeypatch.setattr(cpu.native, "run_in_turn", watched)
    cpu.survey(cpu.TimingBudget(steps=2, warmup=1, rounds=2))
    # Variants of loops take two slices each while they are compared, probes three.
    assert {count for _, count in seen} == {2, 3}
    used = 0
    for first, count in seen:
        assert first == used
        used += count


def test_every_loop_over_memory_says_how_it_was_written(survey):
    for m in survey.measurements:
        assert bool(m.variant) == (m.unit == "B/s")
        assert not m.tried or m.variant in m.tried
        assert not m.tried or next(iter(m.tried.values())) == 1.0
        if m.resource == "DRAM" and len({r.threads for r in survey.measurements}) == 1:
            assert len(m.tried) > 1


def test_without_time_for_a_search_loops_stay_as_they_are(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setattr(cpu, "_SEARCH_S", -1.0)
    found = cpu.survey(cpu.TimingBudget(steps=1, warmup=0, rounds=1))
    assert not any(m.tried for m in found.measurements)
    read = next(m for m in found.measurements if (m.resource, m.mix) == ("DRAM", "read"))
    assert read.variant == "16 vectors a turn, prefetch 512 B ahead"


def test_main_memory_is_searched_first_and_with_one_thread_first():
    probes = [
        dataclasses.replace(vector_probe(), resource=level, threads=threads, variant=Variant())
        for threads in (1, 2)
        for level in ("L1", "DRAM")
    ]
    order = cpu._outermost_first([vector_probe(), *probes])
    # Positions: vector 0, L1 1, DRAM 2 with one thread; L1 3, DRAM 4 with two.
    assert order == [2, 4, 1, 3]


def test_a_survey_survives_json(survey):
    assert msgspec.json.decode(msgspec.json.encode(survey), type=Survey) == survey


def test_the_device_has_measured_ceilings_and_can_be_saved(survey, tmp_path):
    device = to_device(survey)
    assert all(c.kind is CeilingKind.MEASURED for c in device.ceilings)
    assert all(c.source.confidence == "measured" for c in device.ceilings)
    path = tmp_path / "lab.toml"
    path.write_text(to_toml(device), encoding="utf-8")
    assert load_file(path) == device


def test_peaks_are_a_device_for_an_analysis(survey):
    peaks = summarize(survey, "fp32", "torch.float32")
    found = analyze("resnet50", peaks, precision="fp32")
    assert found.bound in {Bound.COMPUTE, Bound.MEMORY}
    assert found.hardware == peaks.to_device() == peaks.device_record
    assert found.ridge_point == pytest.approx(peaks.ridge_point)


def invented(*rows):
    return Survey(
        device="cpu",
        id="this-cpu",
        name="CPU",
        vendor="",
        category="cpu",
        date="2026-01-01",
        measurements=tuple(rows),
    )


def row(resource, mix, value, threads=2, dtype="", unit="B/s"):
    return Measurement(
        resource=resource, mix=mix, value=value, threads=threads, dtype=dtype, unit=unit
    )


def test_the_roof_is_the_best_mix_that_work_is_counted_in_with_all_threads():
    found = invented(
        row("vector", "fma", 60.0, threads=1, dtype="fp32", unit="FLOP/s"),
        row("vector", "fma", 100.0, dtype="fp32", unit="FLOP/s"),
        row("vector", "fma+add", 150.0, dtype="fp32", unit="FLOP/s"),
        row("library", "torch mm", 40.0, dtype="fp32", unit="FLOP/s"),
        row("DRAM", "read", 18.0, threads=1),
        row("DRAM", "read", 16.0),
        row("DRAM", "triad nt", 20.0),
    )
    peaks = summarize(found, "fp32", "torch.float32")
    assert (peaks.peak_flops, peaks.peak_bandwidth, peaks.ridge_point) == (100.0, 20.0, 5.0)
    device = to_device(found)
    assert [(c.engine, c.dtype, c.flop_per_s) for c in device.ceilings] == [
        ("vector", "fp32", 100.0)
    ]
    assert device.level("DRAM").byte_per_s == 20.0
    assert device.fact("library_fp32_torch_mm_2t").value == 40.0


def test_a_dot_product_is_the_matrix_roof_unless_there_is_a_matrix_engine():
    dot = row("vector", "dot", 200.0, dtype="bf16", unit="FLOP/s")
    tile = row("matrix", "tile", 900.0, dtype="bf16", unit="FLOP/s")
    assert [(c.engine, c.flop_per_s) for c in to_device(invented(dot)).ceilings] == [
        ("matrix", 200.0)
    ]
    assert [(c.engine, c.flop_per_s) for c in to_device(invented(dot, tile)).ceilings] == [
        ("matrix", 900.0)
    ]


def test_a_format_that_was_not_measured_is_an_error_not_a_guess():
    found = invented(
        row("vector", "fma", 1.0, dtype="fp32", unit="FLOP/s"), row("DRAM", "read", 1.0)
    )
    with pytest.raises(DeviceError, match="no fp16 compute roof; it has fp32"):
        summarize(found, "fp16", "torch.float16")
    with pytest.raises(DeviceError, match="no memory bandwidth"):
        summarize(invented(found.measurements[0]), "fp32", "torch.float32")


def test_wide_spread_is_said():
    wide = Measurement(
        resource="DRAM", mix="read", value=1.0, unit="B/s", threads=1, spread=0.3, rounds=3
    )
    assert any(
        "1 of 1 figures differ by more than 10%" in n for n in to_device(invented(wide)).notes
    )


def test_working_sets_follow_the_machines_own_caches():
    machine = HostMachine(
        name="x",
        vendor="",
        cpus=(0, 1),
        caches=(
            Cache(level=1, size_bytes=48 << 10, sharers=1),
            Cache(level=2, size_bytes=1 << 20, sharers=1),
            Cache(level=3, size_bytes=32 << 20, sharers=2),
        ),
        memory_bytes=8 << 30,
        available_bytes=8 << 30,
    )
    plan = suite(compiler(), machine)
    sizes = {(p.resource, p.threads): p.working_set for p in plan.probes if p.mix == "read"}
    assert sizes["L1", 1] == 31948  # 0.65 * 49152
    assert sizes["L2", 2] == 471859  # 0.45 * 1 MiB, each core has its own
    assert sizes["L3", 1] == 8 << 20  # 8 times the L2, less than 0.3 * 32 MiB
    assert sizes["L3", 2] == 5033164  # 0.3 * 32 MiB for two
    assert plan.dram_bytes == 64 << 20  # the limit that the tests set
    assert sizes["DRAM", 1] == (64 << 20) // CHUNK * CHUNK


def test_a_shared_cache_too_small_for_all_threads_is_unknown():
    machine = HostMachine(
        name="x",
        vendor="",
        cpus=tuple(range(16)),
        caches=(
            Cache(level=1, size_bytes=48 << 10, sharers=1),
            Cache(level=2, size_bytes=2 << 20, sharers=1),
            Cache(level=3, size_bytes=32 << 20, sharers=16),
        ),
        memory_bytes=None,
        available_bytes=None,
    )
    plan = suite(compiler(), machine)
    assert not [p for p in plan.probes if p.resource == "L3" and p.threads == 16]
    assert any(text.startswith("L3 with 16 threads") for text in plan.unknown)


def taken(rate, *clocks):
    figure = SampledRate(value=rate, median=rate, samples=1)
    return [cpu._Take(figure=figure, clock_hz=clock) for clock in clocks]


def vector_probe(dtype="fp32"):
    return Probe(resource="vector", mix="fma", kernel=ir.fma("fp32", 64), threads=2, dtype=dtype)


def test_a_clock_at_which_no_unit_could_do_the_work_is_not_told():
    # Two threads at 64 FLOP a cycle and 3.4 GHz; the second reading would be 7,635 a cycle.
    found = cpu._combine(vector_probe(), taken(2 * 64 * 3.4e9, 28.5e6))
    assert found.clock_hz is None
    assert found.per_cycle is None
    assert found.value == 2 * 64 * 3.4e9


def test_one_wrong_reading_does_not_count_among_right_ones():
    found = cpu._combine(vector_probe(), taken(2 * 64 * 3.4e9, 3.4e9, 28.5e6, 28.5e6))
    assert found.clock_hz == 3.4e9
    assert found.per_cycle == 64


@pytest.mark.parametrize(
    ("dtype", "mix", "per_cycle"),
    [
        ("fp32", "fma", 63.97),
        ("fp32", "fma+add", 95.8),
        ("fp64", "fma", 31.97),
        ("bf16", "dot", 127.95),
        ("int8", "dot", 255.7),
        ("", "triad", 155),
    ],
)
@pytest.mark.parametrize("off", [0.9, 1.0, 1.1])
def test_the_clock_of_the_widest_core_measured_is_told(dtype, mix, per_cycle, off):
    """A Zen 5 at 4.2 GHz, per cycle as measured with a C reference; readings a tenth off count."""
    kernel = ir.LoopKernel(name="k", text="", flops=1 if dtype else 0, moved=3)
    probe = dataclasses.replace(vector_probe(dtype), mix=mix, kernel=kernel, threads=1)
    combined = cpu._combine(probe, taken(per_cycle * 4.2e9, 4.2e9 * off))
    assert combined.clock_hz == 4.2e9 * off
    assert combined.per_cycle == pytest.approx(per_cycle / off)


@pytest.mark.parametrize(
    ("dtype", "mix", "most"),
    [
        ("fp64", "fma", 64),  # 4 instructions x 8 lanes x 2
        ("fp32", "fma", 128),
        ("int8", "dot", 512),
        ("int8", "tile", 2048),
        ("bf16", "tile", 1024),
    ],
)
def test_the_most_that_a_core_does_in_a_cycle(dtype, mix, most):
    probe = dataclasses.replace(vector_probe(dtype), mix=mix)
    assert cpu._most_per_cycle(probe) == most
