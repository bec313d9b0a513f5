"""Simulations as a user asks for them: devices given or searched, traces, bad input."""

from __future__ import annotations

import json
import math

import pytest

import gambrel
from gambrel.cli import run
from gambrel.errors import InputError, UnknownNameError
from gambrel.report.builders.simulation import document
from gambrel.report.options import Options

ASKED = {"model": "llama-3.1-8b", "hardware": "h100", "requests": 300}


def test_the_fewest_devices_meet_the_target_and_one_less_does_not():
    load = ASKED | {"rate": "30/s", "input": 2048, "output": 200}
    found = gambrel.serve_sim(**load, ttft="1s", tpot="20ms", max_devices=8, tensor=1)
    assert found.met
    assert 1 < found.devices <= 8
    fewer = gambrel.serve_sim(**load, ttft="1s", tpot="20ms", tensor=1, replicas=found.devices - 1)
    assert not fewer.met
    assert fewer.outcome.attained < found.outcome.attained <= 1


def test_a_trace_through_the_command_line(tmp_path, capsys):
    trace = tmp_path / "trace.csv"
    rows = (f"{i / 10},{500 + i},{50 + i % 30}" for i in range(60))
    trace.write_text("time,input,output\n" + "\n".join(rows))
    asked = ["serve-sim", "llama-3.1-8b", "-d", "h100", "--trace", str(trace), "--replicas", "1"]
    assert run([*asked, "--ttft", "1s", "--json", "--price", "2"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert said["type"] == "gambrel/serve-sim"
    assert said["outcome"]["requests"] == 60
    assert said["units"]["p99_s"] == "s"
    tokens = sum(50 + i % 30 for i in range(60))
    rate = said["outcome"]["tokens_per_s"]
    assert rate * said["outcome"]["duration_s"] == pytest.approx(tokens)
    assert said["cost_per_million"] == pytest.approx(2 / 3600 / rate * 1e6)
    assert run([*asked, "--ttft", "1ms"]) == 1
    assert "misses TTFT 1 ms at p99" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"rate": "5/s"}, "needs --trace FILE, or --input and --output"),
        ({"input": 100, "output": 10}, "needs --rate"),
        ({"input": 100, "output": 10, "rate": "5/s", "concurrency": 3}, "either a rate or a"),
        ({"trace": "x.csv", "rate": "5/s"}, "the trace has the requests"),
        ({"input": "200k", "output": 10, "rate": "5/s"}, "beyond max_position_embeddings"),
        ({"input": 10, "output": 10, "rate": "5/s", "percentile": 95}, "give 50, 90 or 99"),
        ({"input": 10, "output": 10, "rate": "5/s", "tensor": 3}, "3"),
    ],
)
def test_questions_that_cannot_be_answered(more, said):
    with pytest.raises(InputError, match=said):
        gambrel.serve_sim("llama-3.1-8b", "h100", **more)


def test_a_model_that_does_not_fit_is_refused():
    with pytest.raises(InputError, match=r"no layout holds the model: llama-3.1-70b does not fit"):
        gambrel.serve_sim("llama-3.1-70b", "h100", rate="1/s", input=100, output=10, max_devices=1)


def test_a_busy_start_does_not_set_the_number_of_devices(tmp_path):
    # 3,200 requests within 32 s, then 4,000 in 2,000 s: half of all wait for nothing on one device.
    busy = [f"{i / 100},512,64" for i in range(3200)]
    quiet = [f"{32 + i / 2},512,64" for i in range(1, 4001)]
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["time,input,output", *busy, *quiet]))
    asked = {"tensor": 1, "max_devices": 8, "ttft": "1s", "tpot": "40ms", "percentile": 50}
    run = gambrel.serve_sim("llama-3.1-8b", "h100", runtime="vllm", trace=str(trace), **asked)
    assert (run.met, run.devices) == (True, 1)
    assert run.tried_with == 3000
    assert run.tried[0].sharding.data > 1


def test_a_device_that_there_is_not_is_named():
    asked = {"rate": "5/s", "input": 100, "output": 10}
    with pytest.raises(UnknownNameError, match="unknown device 'h100,h200'"):
        gambrel.serve_sim("llama-3.1-8b", "h100,h200", **asked)


JOB = {"input": 200, "output": 300, "runtime": "tensorrt-llm", "replicas": 1, "max_devices": 1}


def test_a_batch_job_needs_no_server():
    offline = gambrel.serve_sim("llama-3.1-8b", "h100", arrivals="offline", requests=500, **JOB)
    served = gambrel.serve_sim("llama-3.1-8b", "h100", arrivals="burst", requests=500, **JOB)
    assert offline.outcome.requests == served.outcome.requests == 500
    assert offline.outcome.tokens_per_s > served.outcome.tokens_per_s
    assert offline.outcome.ttft.mean_s < served.outcome.ttft.mean_s
    assert any("pass no server" in text for text in offline.assumptions)
    assert offline.step.low < offline.step.value < offline.step.high
    assert offline.outcome.preemptions == 0
    assert not offline.paced
    assert " tokens/s (" in document(offline, Options()).answer[-1]


def test_an_engine_without_promises_preempts_where_another_waits():
    tight = {**JOB, "output": 2000, "arrivals": "burst", "requests": 600, "utilization": 0.4}
    waits = gambrel.serve_sim("llama-3.1-8b", "h100", **tight).outcome
    gives_up = gambrel.serve_sim("llama-3.1-8b", "h100", **{**tight, "runtime": "vllm"}).outcome
    assert waits.preemptions == 0 < gives_up.preemptions


def test_a_front_end_of_ones_own():
    poisson = {**JOB, "rate": 2.0, "requests": 200}
    usual = gambrel.serve_sim("llama-3.1-8b", "h100", **poisson)
    quick = gambrel.serve_sim("llama-3.1-8b", "h100", **poisson, frontend=0.002)
    less = usual.outcome.ttft.mean_s - quick.outcome.ttft.mean_s
    # Arrivals at random find n others, Poisson: the mean of n / (1 + n) is 1 - (1 - exp(-N)) / N.
    others = 2.0 * usual.outcome.total.mean_s
    beside = 1 - (1 - math.exp(-others)) / others
    front = 0.004 + JOB["input"] * 4e-6 + 0.094 * beside
    assert less == pytest.approx(front - 0.002, rel=0.1)
    # Without a word on it the near end holds servers that take no time.
    assert usual.ttft.low < quick.ttft.value < usual.ttft.value < usual.ttft.high
    assert quick.ttft.value == pytest.approx(quick.outcome.ttft.mean_s)
    # Requests set the rate here, and so it has no range.
    assert usual.paced
    assert " tokens/s, " in document(usual, Options()).answer[-1]


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({}, "arrivals=offline: give --requests"),
        ({"requests": 10, "rate": 3.0}, "rate: offline, all requests wait from the start; leave"),
        ({"requests": 10, "concurrency": 3}, "--max-requests limits them; leave concurrency out"),
        ({"requests": 10, "frontend": 0.01}, "offline, requests pass no front end"),
    ],
)
def test_what_a_batch_job_does_not_take(more, said):
    with pytest.raises(InputError, match=said):
        gambrel.serve_sim("llama-3.1-8b", "h100", arrivals="offline", **JOB, **more)


@pytest.mark.parametrize(
    ("model", "device", "asked", "published"),
    [
        # NVIDIA/TensorRT-LLM, perf-overview.md of 1.0 and 0.14; see benchmarks/data/trtllm.
        ("llama-3.1-8b", "h100", {"input": 1000, "output": 1000, "requests": 3000}, 15_220),
        ("llama-3.3-70b", "h200", {"input": 2048, "output": 2048, "requests": 1500}, 2_003),
        (
            "llama-3.1-70b",
            "l40s",
            {"input": 5000, "output": 500, "requests": 1500, "tensor": 8},
            230.3,
        ),
        (
            "llama-3.1-8b",
            "a100-pcie-80gb",
            {"input": 2048, "output": 128, "requests": 3000, "precision": "fp16"},
            611.8,
        ),
        # ROCm/vllm, docs/dev-docker/README.md for 0.8.5; see benchmarks/data/rocm.
        (
            "llama-3.1-405b",
            "mi300x",
            {"input": 500, "output": 2000, "requests": 2000, "tensor": 8, "runtime": "vllm"},
            3_034,
        ),
    ],
)
def test_published_rates_are_within_a_quarter(model, device, asked, published):
    asked = {"precision": "fp8,kv=fp8", "runtime": "tensorrt-llm", "tensor": 1, **asked}
    found = gambrel.serve_sim(
        model,
        device,
        arrivals="offline",
        replicas=1,
        max_devices=8,
        max_requests=4096,
        utilization=0.95,
        **asked,
    )
    assert found.outcome.tokens_per_s == pytest.approx(published, rel=0.25)
