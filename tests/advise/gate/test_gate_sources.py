"""A gate over each source: recorded, checked, made worse, and then it fails."""

import json

import msgspec
import pytest

import gambrel
from gambrel.api import gate
from gambrel.api.gate_config import GateConfig
from gambrel.cli import run
from gambrel.device.lookup import from_peaks
from gambrel.errors import InputError

CONFIG = {
    "model_type": "llama", "hidden_size": 2048, "num_hidden_layers": 16, "vocab_size": 32000,
    "num_attention_heads": 32, "num_key_value_heads": 8, "intermediate_size": 8192,
}  # fmt: skip


def analyzed(folder, capsys):
    """The better figures are those of a batch of one."""
    for name, batch in (("good", "1"), ("bad", "64")):
        assert run(["analyze", "resnet18", "-d", "a100", "-b", batch, "--json"]) == 0
        data = json.loads(capsys.readouterr().out)
        data["model"]["symbols"] = {}
        (folder / f"{name}.json").write_text(json.dumps(data))


def profiled(folder, capsys):
    torch = pytest.importorskip("torch")
    roofs = from_peaks(1e12, 5e10, name="box")
    analyzer = gambrel.RooflineAnalyzer(torch.nn.Linear(64, 64), torch.randn(8, 64), roofs)
    analyzer.profile(steps=2, warmup=1)
    analyzer.save(folder / "good.json")
    data = json.loads((folder / "good.json").read_text())
    data["totals"]["plain_s"] *= 3
    (folder / "bad.json").write_text(json.dumps(data))


def traced(folder, capsys):
    kernel = {"ph": "X", "cat": "kernel", "name": "gemm_bf16", "pid": 0, "tid": 7, "args": {}}
    for name, took in (("good", 200), ("bad", 300)):
        events = [kernel | {"ts": 400 * i, "dur": took + i} for i in range(6)]
        trace = {"schemaVersion": 1, "traceEvents": events}
        (folder / f"{name}.json").write_bytes(msgspec.json.encode(trace))


def judged(folder, capsys):
    for name, took in (("good", "250us"), ("bad", "300us")):
        words = ["judge", "matmul:m=4096,n=4096,k=4096,bf16", "-d", "h100", "--time", took]
        assert run([*words, "--json"]) == 0
        (folder / f"{name}.json").write_text(capsys.readouterr().out)


def planned(folder, capsys):
    (folder / "config.json").write_text(json.dumps(CONFIG))
    for name, device in (("good", "h100"), ("bad", "a100")):
        words = ["serve-plan", str(folder / "config.json"), "-d", device, "--max-devices", "1"]
        assert run([*words, "--input", "512", "--output", "128", "--json"]) == 0
        (folder / f"{name}.json").write_text(capsys.readouterr().out)


@pytest.mark.parametrize("source", [analyzed, profiled, traced, judged, planned])
def test_a_source_that_got_worse_fails(source, tmp_path, capsys):
    source(tmp_path, capsys)
    base, good, bad = (str(tmp_path / f"{n}.json") for n in ("base", "good", "bad"))
    assert run(["gate", "record", base, good]) == 0
    assert run(["gate", "check", base, good]) == 0
    capsys.readouterr()
    assert run(["gate", "check", base, bad]) == 1
    assert "regression" in capsys.readouterr().out


def test_a_model_set_that_got_worse_fails(tmp_path, capsys):
    """The same question about a slower device, under the name of the first."""
    base, config = tmp_path / "base.json", tmp_path / "gate.toml"
    config.write_text('[[expected]]\nmodel = "resnet18"\nhardware = ["h100", "a100"]\n')
    assert run(["gate", "record", str(base), "-c", str(config)]) == 0
    assert run(["gate", "check", str(base), "-c", str(config)]) == 0
    base.write_text(base.read_text().replace("h100", "A100").replace("a100", "h100"))
    capsys.readouterr()
    assert run(["gate", "check", str(base), "-c", str(config), "--json"]) == 1
    rows = json.loads(capsys.readouterr().out)["rows"]
    worse = {r["metric"] for r in rows if r["state"] == "regression"}
    assert "resnet18 h100 sol_time_s" not in worse  # that of an H100 is shorter
    assert {r["state"] for r in rows} >= {"vanished", "improved", "new"}


def test_a_profile_says_what_it_was_measured_on(tmp_path, capsys):
    profiled(tmp_path, capsys)
    base, good = tmp_path / "base.json", tmp_path / "good.json"
    gate.record(base, GateConfig(), [good])
    data = json.loads(good.read_text())
    data["hardware"]["id"] = "another-machine"
    good.write_text(json.dumps(data))
    with pytest.raises(InputError, match=r"measured on .*, this on another-machine"):
        gate.check(base, GateConfig(), [good])


def test_runs_of_different_models_of_one_name_are_refused(tmp_path, capsys):
    profiled(tmp_path, capsys)
    bad = tmp_path / "bad.json"
    assert len(gate.metrics_of(GateConfig(), [tmp_path / "good.json", bad])[0].samples) == 2
    data = json.loads(bad.read_text())
    data["totals"]["computed_flops"] += 1
    bad.write_text(json.dumps(data))
    with pytest.raises(InputError, match="do not agree"):
        gate.metrics_of(GateConfig(), [tmp_path / "good.json", bad])
