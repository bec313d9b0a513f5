"""Deployments as command lines: written, and read back from lines, scripts and manifests."""

from __future__ import annotations

import json

import pytest

import gambrel
from gambrel.analysis.deployment import read_deployment
from gambrel.cli import run
from gambrel.errors import FileFormatError, InputError
from gambrel.llm.precision import Precisions
from gambrel.llm.serving.commands import commands
from gambrel.llm.serving.question import ServingEngine, Speculation
from gambrel.llm.sharding import Sharding

COMPOSE = """
services:
  cache: {image: redis, command: redis-server}
  model:
    image: vllm/vllm-openai:v0.11.0
    command: ["--model", "meta-llama/Llama-3.1-8B", "-tp", "2", "--port", "80"]
    deploy: {replicas: 3}
"""
MANIFEST = """
kind: Service
metadata: {name: llm}
---
kind: Deployment
spec:
  replicas: 2
  template:
    spec:
      containers:
      - name: llm
        image: lmsysorg/sglang:latest
        command: [bash, -c]
        args:
        - |
          export HF_HOME=/models
          exec python3 -m sglang.launch_server --model-path meta-llama/Llama-3.1-8B \\
            --tp 4 --quantization fp8 --kv-cache-dtype fp8_e5m2 --host 0.0.0.0
"""
OWN = "model: meta-llama/Llama-3.1-8B\ntensor-parallel-size: 2\nenable-prefix-caching: true\n"


@pytest.mark.parametrize(
    "sharding",
    [
        Sharding(),
        Sharding(tensor=4, pipeline=2),
        Sharding(tensor=8, attention_data=8, expert=8),
    ],
    ids=str,
)
def test_command_lines_are_read_back(sharding):
    engine = ServingEngine(utilization=0.85, step_tokens=4096)
    for line in commands("some/model", sharding, engine, longest=9000, most=64):
        deployment = read_deployment(line)
        said = deployment.given
        assert said["model"] == "some/model"
        assert (said["utilization"], said["step_tokens"], said["longest"]) == (0.85, 4096, 9000)
        assert deployment.unread == ()
        assert (said["tensor"], said["pipeline"]) == (sharding.tensor, sharding.pipeline)
        assert said["expert"] == sharding.expert
        assert deployment.beside({})["max_devices"] == sharding.devices
        groups = sharding.attention_data if said["runtime"] != "tensorrt-llm" else 1
        assert said["attention_data"] == groups
        # TensorRT-LLM's line says nothing of attention: its limit is that of each group.
        each = sharding.attention_data if said["runtime"] == "tensorrt-llm" else 1
        assert said["max_requests"] == 64 // each


def test_replicas_with_experts_are_started_one_by_one():
    # Data-parallel ranks of vLLM share their experts, dense ones have nothing in common.
    split = Sharding(tensor=4, expert=4, data=2)
    vllm, _, trt = commands("m/n", split, ServingEngine(), experts=True)
    assert "--data-parallel-size" not in vllm
    assert vllm.endswith("# 2 of them")
    assert read_deployment(vllm).given["expert"] == 4
    assert "attention_dp" not in trt
    wide = Sharding(tensor=8, attention_data=8, expert=8, data=2)
    vllm, _, trt = commands("m/n", wide, ServingEngine(), experts=True)
    assert "--data-parallel-size 8" in vllm
    assert trt.endswith("# 2 of them; enable_attention_dp: true in its file of options")
    dense = commands("m/n", Sharding(tensor=4, data=2), ServingEngine())[0]
    assert "--data-parallel-size 2" in dense


def test_formats_and_drafts_are_written_and_read():
    engine = ServingEngine(speculation=Speculation(tokens=3, acceptance=0.7))
    lines = commands("m/n", Sharding(), engine, formats=Precisions.parse("fp8"))
    vllm, sglang, trt = map(read_deployment, lines)
    assert vllm.given["precision"] == sglang.given["precision"] == "fp8,kv=fp8"
    assert vllm.given["speculate"] == sglang.given["speculate"] == 3
    assert "draft" not in vllm.given
    assert trt.given["precision"] == "kv=fp8"
    assert "with a checkpoint in fp8" in lines[2]


def test_command_lines_as_people_write_them():
    deployment = read_deployment(
        "docker run vllm/vllm-openai vllm serve meta-llama/Llama-3.1-70B -tp 4 -dp 2 \\\n"
        " --gpu-memory-utilization=0.92 --max-num-seqs 128 --max-model-len 32K --enforce-eager "
        "--port 80 --quantization fp8 && echo done"
    )
    said = deployment.given
    assert (said["runtime"], said["model"]) == ("vllm", "meta-llama/Llama-3.1-70B")
    assert (said["tensor"], said["utilization"], said["max_requests"]) == (4, 0.92, 128)
    assert (said["replicas"], said["longest"]) == (2, 32_768)
    assert deployment.beside({})["max_devices"] == 8
    assert deployment.beside({"tensor": 2})["max_devices"] == 4
    # Weights alone are quantized: the cache keeps the 16 bits of the activations.
    assert said["precision"] == "fp8,kv=bf16"
    assert deployment.unread == ("--port 80",)
    assert said["eager"] is True


@pytest.mark.parametrize(
    ("name", "text", "wanted"),
    [
        ("compose.yaml", COMPOSE, {"tensor": 2, "replicas": 3, "runtime": "vllm"}),
        ("k8s.yml", MANIFEST, {"tensor": 4, "replicas": 2, "precision": "fp8,kv=fp8"}),
        ("vllm.yaml", OWN, {"tensor": 2, "replicas": 1}),
        ("run.sh", "#!/bin/sh\nset -e\nvllm serve meta-llama/Llama-3.1-8B -tp 2\n", {"tensor": 2}),
    ],
)
def test_files(tmp_path, name, text, wanted):
    path = tmp_path / name
    path.write_text(text)
    said = read_deployment(str(path)).given
    assert said["model"] == "meta-llama/Llama-3.1-8B"
    assert wanted.items() <= said.items()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("python train.py", "starts no vLLM, SGLang or TensorRT-LLM"),
        ("vllm serve m --tensor-parallel-size four", "--tensor-parallel-size 'four' is not a num"),
        ("vllm serve 'm", "not a command line"),
        ("vllm serve m --max-num-seqs", "--max-num-seqs has no value"),
        ("vllm serve m --kv-cache-dtype int3", "a cache in 'int3' is not known"),
        ("vllm serve m; vllm serve n", "starts 2 engines, give one"),
        ("vllm serve m --speculative-config 3", "is not as"),
        ("missing.yaml", "missing.yaml"),
        (3, "3 is neither a command line nor a file"),
    ],
)
def test_what_cannot_be_read(text, said):
    with pytest.raises((InputError, FileFormatError), match=said):
        read_deployment(text)


def test_files_that_cannot_be_read(tmp_path):
    bad = tmp_path / "bad.yaml"
    bad.write_text("a: [1, 2")
    with pytest.raises(FileFormatError, match="not YAML"):
        read_deployment(bad)
    levels = [
        "a: &a0 [x]",
        *(f"b{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 9)}]" for i in range(1, 9)),
    ]
    bad.write_text("\n".join(levels))  # 9^8 entries by aliases
    with pytest.raises(InputError, match="more than 50,000 entries"):
        read_deployment(bad)


def test_a_plan_of_a_deployment_that_exists(capsys):
    line = "vllm serve meta-llama/Llama-3.1-8B -tp 2 --max-num-seqs 16 --max-model-len 4096"
    asked = ["serve-plan", "--config", line, "-d", "h100", "--input", "1k", "--output", "256"]
    assert run([*asked, "--json"]) == 0
    best = json.loads(capsys.readouterr().out)["best"]
    assert [(one["layout"], one["batch"]) for one in best] == [("TP2", 16)]
    assert best[0]["batch_limit"] == "max_requests"
    assert best[0]["commands"][0].startswith("vllm serve meta-llama/Llama-3.1-8B --tensor-par")
    plan = gambrel.serve_plan(hardware="h100", config=line, input=1024, output=256, tensor=4)
    assert plan.best[0].point.sharding.tensor == 4  # what is given besides comes first
    assert run([*asked[:-1], "4k"]) == 2
    assert "beyond the 4,096 of the longest request" in capsys.readouterr().err


def test_a_simulation_of_a_deployment_that_exists():
    line = "vllm serve meta-llama/Llama-3.1-8B -tp 2 -dp 2 --port 80"
    found = gambrel.serve_sim(
        hardware="h100", config=line, rate="5/s", input=512, output=64, requests=50
    )
    assert (found.sharding.tensor, found.sharding.data, found.runtime) == (2, 2, "vllm")
    assert "of the configuration these say nothing here: --port 80." in found.assumptions


def test_a_question_without_a_model():
    with pytest.raises(InputError, match="serve-plan needs model"):
        gambrel.serve_plan(hardware="h100", input=10, output=10)


def test_checked_drafts_of_a_latent_cache_run_absorbed():
    """Two tokens are checked at about twice the cost of one, not by expanding the whole cache."""
    asked = {"hardware": "h200", "input": 2048, "output": 64, "tensor": 8, "expert": 8}
    asked |= {"attention_data": 8, "concurrency": 256, "model": "deepseek-v3"}
    plain = gambrel.serve_plan(**asked).best[0].decode
    drafted = gambrel.serve_plan(**asked, speculate=1, acceptance=0.8).best[0].decode
    assert plain.flops < drafted.flops < 2.05 * plain.flops


def test_nothing_is_an_answer_to_what_the_front_end_takes() -> None:
    asked = {"hardware": "h100", "runtime": "vllm", "input": 128, "output": 128, "concurrency": 1}
    text, number = (
        gambrel.serve_plan("qwen3-8b", frontend=zero, **asked).best[0] for zero in ("0ms", 0)
    )
    usual = gambrel.serve_plan("qwen3-8b", **asked).best[0]
    assert text.ttft == number.ttft
    assert text.ttft.value == pytest.approx(usual.ttft.value - 0.008 - 128 * 4e-6)


def test_engines_may_hide_the_host_behind_a_step() -> None:
    """Qwen3-8B in fp8 on an H100 under vLLM 0.30: 4.66 ms a token, 14.4 ms to the first one.

    Source: tgarg01/silybench-data, perf_points.csv.
    """
    found = gambrel.serve_plan(
        "qwen3-8b", hardware="h100", runtime="vllm", precision="fp8", input=128, output=1024,
        concurrency=1,
    ).best[0]  # fmt: skip
    assert found.tpot.low < 4.66e-3 < found.tpot.high
    assert found.ttft.low < 14.4e-3 < found.ttft.high
    assert found.tpot.confidence != "high"


def test_kernels_of_which_little_is_known_may_all_be_off() -> None:
    """No expert kernel of an MI300X was measured: 31.8 ms a token (sgl-project/sglang PR 31044)."""
    found = gambrel.serve_plan(
        "minimax-m2", hardware="mi300x", runtime="sglang", precision="fp8", input=1000,
        output=1000, concurrency=16, tensor=2, max_devices=2,
    ).best[0]  # fmt: skip
    assert found.tpot.confidence == "low"
    assert found.tpot.low < 31.8e-3 < found.tpot.high


def test_without_graphs_the_host_launches_every_kernel() -> None:
    """Qwen3-14B in 4 bits on an A100 under vLLM with --enforce-eager: 20.6 ms a token.

    Source: vllm-project/vllm issue 20469.
    """
    asked = {
        "hardware": "a100-sxm4-80gb", "precision": "w4a16", "input": 16000, "output": 200,
        "concurrency": 1,
    }  # fmt: skip
    plain = gambrel.serve_plan("qwen3-14b", **asked, runtime="vllm").best[0]
    eager = gambrel.serve_plan("qwen3-14b", **asked, runtime="vllm", eager=True).best[0]
    read = gambrel.serve_plan(
        "qwen3-14b", **asked, config="vllm serve Qwen/Qwen3-14B --enforce-eager"
    )
    assert plain.tpot.high < 20.6e-3
    assert eager.tpot.low < 20.6e-3 < eager.tpot.high
    assert eager.tpot.value > 40 * 0.63e-3
    assert read.best[0].tpot == eager.tpot
    assert any("--enforce-eager" in command for command in read.best[0].commands)
    with pytest.raises(InputError, match="eager: what llama-cpp takes without graphs"):
        gambrel.serve_plan(
            "llama-3.1-8b", "m3-max", input=100, output=10, concurrency=1, eager=True
        )
