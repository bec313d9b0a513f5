"""Every answer in JSON says what it is, of which version, in which units."""

import json

import pytest

HEAD = ("type", "schema_version", "gambrel_version", "units", "assumptions", "warnings")
COMMANDS = (
    "analyze resnet18 --hardware a100 --json",
    "check resnet18 --hardware a100 --latency 5ms --json",
    "compare resnet18 --hardware a100,t4 --json",
    "select resnet18 --hardware a100,t4 --latency 5ms --json",
    "what-if resnet18 --hardware a100 --change batch=8 --json",
    "judge resnet18 --hardware a100 --time 5ms --json",
    "sweep resnet18 --hardware a100 --batch 1,8 --json",
    "serve-plan llama-3-8b --hardware h100 --input 512 --output 128 --json",
    "serve-sim llama-3-8b -d h100 --input 512 --output 64 --rate 1 --requests 8 --json",
    "train-plan llama-3.2-1b --hardware h100 --seq 2048 --json",
    "kv-cache llama-3-8b --json",
    "ask explain-ridge-point --json",
    "hardware list --json",
    "hardware show a100 --json",
    "models list --json",
    "runtimes list --json",
    "runtimes show tensorrt --json",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_json_has_its_head(gambrel, command):
    words = [word.replace("-", " ") if "ridge" in word else word for word in command.split()]
    told = gambrel(*words)
    assert told.code == 0, told.err
    data = json.loads(told.out)
    assert [name for name in HEAD if name not in data] == []
    assert data["schema_version"] == 2
    assert data["type"].startswith("gambrel/")
