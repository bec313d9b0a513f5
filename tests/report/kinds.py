"""One result of every kind, as small as it can be."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gambrel
from gambrel.analysis.samples import MeasuredTraffic, MeasuredWork, Sample, Samples, place
from gambrel.analysis.samples.movement import compare
from gambrel.device.lookup import find
from gambrel.report import answers
from tests.report import samples


@cache
def resnet() -> gambrel.Analysis:
    return gambrel.analyze("resnet18", "a100-sxm4-80gb", batch_size=8, precision="fp16")


@cache
def llama() -> gambrel.Analysis:
    return gambrel.analyze("llama-3.1-8b", "h200", phase="decode", context=1024)


def advice() -> Any:
    from gambrel.report.builders.advice import advice_of

    return advice_of(resnet())


def changes() -> answers.Changes:
    return answers.Changes(recommendations=advice().recommendations)


def changed() -> answers.Changed:
    from gambrel.advise.whatif import what_if

    before = resnet()
    after = before.with_change("batch=16")
    found = what_if(before, after, ["batch=16"])
    return answers.Changed(found=found, before=before, after=after)


def sweep() -> Any:
    from gambrel.analysis.sweep import sweep as sweep_all
    from gambrel.capture import zoo

    device = find("a100-sxm4-80gb").device
    return sweep_all(zoo.load("resnet18"), [device], ["fp16"], {"batch": [1, 8]})


def design() -> Any:
    return gambrel.design("edge-npu", "resnet18", axes=["rows=16,32", "dram=lpddr5,lpddr5x"])


def fleet() -> Any:
    from gambrel.measure.fleet.compare import compared
    from gambrel.measure.fleet.records import Checkup, FleetFigure

    rates = (100e9, 101e9, 99e9, 100e9, 60e9)
    made = [
        Checkup(
            worker=f"node{i}",
            host=f"node{i}",
            device="cpu",
            sku="Processor",
            figures=(FleetFigure(name="gemm fp32", value=rate, unit="FLOP/s"),),
        )
        for i, rate in enumerate(rates)
    ]
    return compared(made, date="2026-11-22")


def devices() -> answers.Devices:
    from gambrel.device.listing import Filter, list_rows

    return answers.Devices(devices=tuple(list_rows(Filter(text="orin"))))


def models() -> answers.Models:
    from gambrel.capture.zoo import list_models

    return answers.Models(models=tuple(list_models())[:9], language=("llama-3.1-8b",))


def runtimes() -> answers.Runtimes:
    from gambrel.runtimes import runtimes as known

    return answers.Runtimes(runtimes=tuple(known().values()))


def runtime() -> Any:
    from gambrel.runtimes import runtime as named

    return named("pytorch")


def peaks() -> answers.Peaks:
    from gambrel.measure.records import Measurement, Survey, summarize

    def row(resource: str, value: float, unit: str, dtype: str = "") -> Measurement:
        return Measurement(
            resource=resource, mix="read", value=value, threads=2, dtype=dtype, unit=unit, rounds=3
        )

    survey = Survey(
        device="cpu",
        id="this-cpu",
        name="CPU",
        vendor="",
        category="cpu",
        date="2026-01-01",
        measurements=(row("vector", 1e11, "FLOP/s", "fp32"), row("DRAM", 2e10, "B/s")),
        load=0.5,
        versions={"torch": "2"},
        unknown=("L1",),
    )
    found = summarize(survey, "fp32", "torch.float32")
    return answers.Peaks(peaks=found, other=find("epyc-9755").device)


def calibrated() -> answers.Calibrated:
    row = answers.CalibratedClass(
        name="h100 matmul fp16", points=12, low_ratio=0.9, high_ratio=1.2, confidence="high"
    )
    return answers.Calibrated(stored="own.json", classes=(row,), warnings=("busy machine",))


def profiled() -> answers.Profiled:
    from gambrel.measure.profile.modules import modules
    from gambrel.measure.profile.points import RooflinePoint, Totals
    from gambrel.measure.profile.record import Profile

    analysis = samples.build(samples.ROWS[:2])
    points = tuple(
        RooflinePoint(
            name=op.name,
            type=op.kind,
            module=op.module,
            flops=op.measures.flops,
            traffic_bytes=op.measures.traffic_bytes,
            arithmetic_intensity=op.measures.arithmetic_intensity,
            time_s=1e-5,
            spread=0.1,
            achieved_flop_per_s=op.measures.flops / 1e-5,
            achieved_byte_per_s=op.measures.traffic_bytes / 1e-5,
            bound=op.measures.bound.value if op.measures.bound else "unknown",
            roofline_time_s=op.measures.roofline_time_s,
            expected_time_s=8e-6,
            utilization=0.3,
            reason="small problem",
        )
        for op in analysis.ops
    )
    totals = Totals(
        plain_s=3e-5,
        plain_spread=0.4,
        instrumented_s=4e-5,
        ops_s=2e-5,
        unmatched_s=1e-6,
        covered=0.9,
        steps=20,
        profiled_steps=5,
    )
    profile = Profile(
        model=analysis.model,
        hardware=analysis.hardware,
        totals=totals,
        ops=points,
        modules=modules(points),
        unmatched=(("aten::copy_", 1e-6),),
    )
    return answers.Profiled(profile=profile, analysis=analysis, compared=True, notes=("a note",))


def overlay() -> Any:
    from gambrel.measure.runs.overlay import of_profile

    record = profiled()
    assert record.analysis is not None
    return of_profile(record.analysis, record.profile, "run.json")


def recorded() -> answers.Recorded:
    work = MeasuredWork(work_class="matrix", dtype="fp16", flops=10**9)
    traffic = (MeasuredTraffic(level="DRAM", traffic_bytes=10**7),)
    launch = Sample(name="void gemm<8>(int)", time_s=1e-3, work=(work,), traffic=traffic)
    found = Samples(format="test", sources=("dir/a.csv",), launches=(launch,))
    standing = place(found, find("a100-sxm4-80gb").device)
    return answers.Recorded(standing=standing, movement=compare(standing, standing))


def runs() -> Any:
    from gambrel.measure.runs.load import of_analysis
    from gambrel.measure.runs.pair import pair

    return pair(of_analysis(samples.tiny(), "before"), of_analysis(samples.tiny(), "after"))


def memory() -> answers.Memory:
    return answers.Memory(analysis=resnet())


def pictures() -> answers.Pictures:
    path = Path(__file__).parent / "llama.json"
    found = gambrel.analyze(str(path), "h200", phase="decode", context=1024)
    return answers.Pictures(analysis=found)


def problems() -> Any:
    from gambrel.advise.judge.records import ProblemRow, Problems

    rows = (
        ProblemRow(problem="1_Square", hardware="h100", sol_time_s=1e-3, traffic_bytes=10**6),
        ProblemRow(problem="2_Broken", hardware="h100", error="the problem fails"),
    )
    return Problems(folder="level1", rows=rows)


def diagnosis() -> Any:
    from gambrel.analysis.samples.diagnosis import Diagnosis, DiagnosisItem

    item = DiagnosisItem(
        cause="host syncs",
        saves_s=1e-3,
        saves_share=0.1,
        evidence="8 values read by the host",
        change="read them every so many steps",
        command="gambrel import TRACE",
    )
    return Diagnosis(source="trace.json", whole_s=1e-2, items=(item,))


def _metrics(value: float) -> tuple[Any, ...]:
    from gambrel.advise.gate.records import GateMetric

    samples = tuple(value * (1 + i / 1000) for i in range(9))
    return (GateMetric(name="step time_s", samples=samples, unit="s", measured=True),)


def gate_recorded() -> Any:
    from gambrel.advise.gate.records import GateBaseline, GateRecorded

    return GateRecorded(path="b.json", baseline=GateBaseline(metrics=_metrics(1e-3)))


def gate() -> Any:
    from gambrel.advise.gate.compare import compare_to
    from gambrel.advise.gate.records import GateReport

    rows = compare_to(gate_recorded().baseline, _metrics(2e-3), {})
    return GateReport(baseline_file="b.json", rows=rows)


def trend() -> Any:
    from gambrel.advise.gate.records import Trend, TrendPoint

    days = ("2026-01-01T00:00:00+00:00", "2026-01-02T00:00:00+00:00")
    points = tuple(
        TrendPoint(recorded=day, note="", metric="step time_s", unit="s", sample=1e-3 * (i + 1))
        for i, day in enumerate(days)
    )
    return Trend(file="h.jsonl", points=points)


def gap() -> Any:
    from gambrel.analysis.question import ask
    from gambrel.api.judging import explain_gap

    given = {"model": PRODUCT, "hardware": "h100", "time": "250us"}
    return explain_gap.answer(ask("explain-gap", given))


PRODUCT = "matmul:m=4096,n=4096,k=4096,bf16"
#: Class of the record → how to make one.
KINDS: dict[str, Callable[[], Any]] = {
    "Analysis": resnet,
    "Analyses": lambda: answers.Analyses(analyses=(samples.tiny(), samples.unknown())),
    "Advice": advice,
    "Changes": changes,
    "Check": lambda: gambrel.check("resnet18", "jetson-orin-nano", latency="100us"),
    "Comparison": lambda: gambrel.compare(
        "resnet18", ["l4", "t4", "hailo-8"], metric=["latency", "power"]
    ),
    "Selection": lambda: gambrel.select("resnet18", latency="1ms", power="80W"),
    "WhatIf": lambda: changed().found,
    "Changed": changed,
    "Sweep": sweep,
    "DesignStudy": design,
    "FleetReport": fleet,
    "Plan": lambda: gambrel.serve_plan("llama-3.1-8b", "h200", input="1k", output="256"),
    "SplitPlan": lambda: gambrel.serve_split(
        "llama-3.1-8b", "h100", input="4k", output=200, ttft="1s", tpot="20ms", prices="2"
    ),
    "Simulation": lambda: gambrel.serve_sim(
        "llama-3.1-8b", "h100", rate="5/s", input="1k", output=64, requests=200, ttft="1s"
    ),
    "TrainingStep": lambda: gambrel.train_plan("llama-3.1-8b", "h100", seq="4k"),
    "TrainingSearch": lambda: gambrel.train_search(
        "llama-3.1-8b", "h100", seq="4k", devices=8, global_batch=16, tensor=2
    ),
    "CachePlan": lambda: gambrel.kv_cache("llama-3.1-8b", hardware="h100", context="8k"),
    "Judgement": lambda: gambrel.judge(PRODUCT, "250us", "h100"),
    "KernelLimits": lambda: gambrel.judge(PRODUCT, "250us", "h100").limits,
    "Gap": gap,
    "Problems": problems,
    "Diagnosis": diagnosis,
    "GateReport": gate,
    "GateRecorded": gate_recorded,
    "Trend": trend,
    "Devices": devices,
    "Sheet": lambda: answers.Sheet(device=find("h100").device, notes=("h100 is ambiguous.",)),
    "Models": models,
    "Runtimes": runtimes,
    "Runtime": runtime,
    "Peaks": peaks,
    "Calibrated": calibrated,
    "Profiled": profiled,
    "Overlay": overlay,
    "Recorded": recorded,
    "Pairing": runs,
    "Memory": memory,
    "Pictures": pictures,
}
