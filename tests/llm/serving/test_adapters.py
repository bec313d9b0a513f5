"""LoRA adapters and prefixes cached in host memory: by hand, command lines, refusals."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.analysis.deployment import read_deployment
from gambrel.cli import run
from gambrel.errors import InputError

ASKED = {"input": "2k", "output": 500, "tensor": 1, "concurrency": 64, "runtime": "vllm"}


def planned(**more):
    return gambrel.serve_plan("llama-3.1-8b", "h100", **(ASKED | more)).best[0]


@pytest.fixture(scope="module")
def plain():
    return planned()


@pytest.fixture(scope="module")
def adapted():
    return planned(lora_rank=16, lora_adapters=4)


#: Llama-3.1-8B, a layer: q, k, v of 4,096 in, 6,144 out; o; gate and up of 4,096 in, 28,672 out;
#: down. An A for each of q, k, v, gate, up: 41,943,040 parameters at rank 16.
PARAMETERS = 32 * 16 * (
    3 * 4096 + 6144 + 4096 + 4096 + 2 * 4096 + 28672 + 14336 + 4096
)  # fmt: skip


def test_adapters_by_hand(plain, adapted):
    assert PARAMETERS == 41_943_040
    more = adapted.point.memory.weights_bytes - plain.point.memory.weights_bytes
    assert more == 4 * 2 * PARAMETERS
    assert adapted.decode.flops - plain.decode.flops == 2 * 64 * PARAMETERS
    # 64 rows use all four adapters.
    ops = [op for op in adapted.decode.ops if op.module.endswith(".lora")]
    assert len(ops) == 8
    read = sum(op.measures.read_bytes for op in ops)
    assert read > 0.999 * 4 * 2 * PARAMETERS
    assert adapted.point.tpot_s > plain.point.tpot_s
    assert adapted.shares["LoRA adapters"] > 0
    assert adapted.point.batch == plain.point.batch


def test_adapters_follow_the_tensor_group():
    one, two = (planned(lora_rank=16, tensor=tensor) for tensor in (1, 2))
    bare = planned(tensor=2)
    more = two.point.memory.weights_bytes - bare.point.memory.weights_bytes
    # A of q, k, v, gate, up and B of o, down are whole on each of two devices, the rest is divided.
    whole = 32 * 16 * (3 * 4096 + 2 * 4096 + 4096 + 4096)
    assert more == 2 * (whole + (PARAMETERS - whole) / 2)
    assert one.point.sharding.tensor == 1


def test_command_lines_of_adapters_are_read_back(adapted):
    for line in adapted.commands[:2]:
        said = read_deployment(line)
        assert said.given["lora_rank"] == 16
        assert said.given["lora_adapters"] == 4
        assert "--enable-lora" in line
        assert said.unread == ()
    assert "adapters of rank 16" in adapted.commands[2]


def test_a_cached_prefix_in_host_memory():
    near = planned(input="8k", cached="6k", concurrency=4)
    far = planned(input="8k", cached="6k", concurrency=4, kv_offload="100GB")
    # 6,144 tokens of 131,072 bytes over 64 GB/s of PCIe 5.
    assert far.point.ttft_s - near.point.ttft_s == pytest.approx(6144 * 131072 / 64e9, rel=0.02)
    assert far.point.tpot_s == pytest.approx(near.point.tpot_s)
    vllm, sglang, trt = far.commands
    assert "--kv-offloading-size 100" in vllm
    assert "--enable-hierarchical-cache --" in sglang
    assert "host_cache_size: 100000000000" in trt
    assert read_deployment(vllm).given["kv_offload"] == 100e9
    assert read_deployment(sglang).given["kv_offload"] == 100e9


def test_a_simulation_waits_for_the_host_link():
    asked = {"input": "8k", "output": 20, "hit_rate": 0.75, "concurrency": 1, "requests": 4}
    asked |= {"tensor": 1, "replicas": 1, "runtime": "vllm"}
    near, far = (
        gambrel.serve_sim("llama-3.1-8b", "h100", kv_offload=size, **asked).outcome.ttft.p50_s
        for size in (None, "100GB")
    )
    assert far - near == pytest.approx(6144 * 131072 / 64e9, rel=0.02)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--lora-adapters", "4"], "lora_adapters: give their rank"),
        (["--lora-rank", "4096"], "lora_rank=4096: give 1 to 1,024"),
        (["--kv-offload", "100GB"], "kv_offload: say which part of the prompts is cached"),
        (["--kv-offload", "100MB", "--cached", "1k"], "take 128 MiB, more than the 95.37 MiB"),
    ],
)
def test_refusals_are_one_sentence(options, said, capsys):
    line = ["serve-plan", "llama-3.1-8b", "-d", "h100", "--input", "2k", "--output", "100"]
    assert run([*line, "--tensor", "1", *options]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") <= 2
    assert said in " ".join(error.split())


def test_adapters_without_a_rank_are_refused():
    with pytest.raises(InputError, match="give their rank"):
        gambrel.StepTimer("llama-3.1-8b", "h100", "vllm", lora_adapters=2)
