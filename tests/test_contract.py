"""The promised calls, exactly as written."""

import pytest

import gambrel
from gambrel import Bound, UnifiedAnalyzer


def test_unified_analyzer(capsys):
    analyzer = UnifiedAnalyzer()
    result = analyzer.analyze_model(
        model_name="resnet50",
        hardware_name="A100-SXM4-80GB",
        batch_size=1,
    )
    print(f"Bottleneck: {result.roofline_report.bottleneck_type}")
    print(f"Compute Utilization: {result.roofline_report.compute_utilization:.1%}")
    print(f"Memory Utilization: {result.roofline_report.memory_utilization:.1%}")
    bottleneck, compute, memory = capsys.readouterr().out.splitlines()
    assert bottleneck == "Bottleneck: memory"
    assert 0 < float(compute.split()[-1].rstrip("%")) < 100
    assert 50 < float(memory.split()[-1].rstrip("%")) <= 100


def test_analysis(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    analysis = gambrel.analyze("resnet50", "a100-sxm4-80gb", batch_size=1, precision="fp16")
    assert analysis.bound is Bound.MEMORY
    assert analysis.flops == pytest.approx(8.178e9, rel=1e-3)
    assert analysis.traffic_bytes > 2 * 25.56e6  # all weights at 2 bytes, and activations
    assert analysis.coverage == 1
    assert analysis.arithmetic_intensity == analysis.flops / analysis.traffic_bytes
    assert analysis.ridge_point == pytest.approx(312e12 / 2.039e12)
    assert analysis.roofline_time_s > analysis.traffic_bytes / 2.039e12
    assert len(analysis.to_dataframe()) == len(analysis.ops)
    assert type(analysis.plot()).__name__ == "Figure"
    assert analysis.recommend()[0].gain > 1
    analysis.save("a.json")
    assert gambrel.load("a.json") == analysis


@pytest.mark.parametrize(
    ("model", "device"), [("resnet50", "h100"), ("ResNet-50", "NVIDIA H100 80GB HBM3")]
)
def test_names_as_people_and_drivers_write_them(model, device):
    analysis = gambrel.analyze(model, device)
    assert (analysis.model.name, analysis.hardware.id) == ("resnet50", "h100-sxm5-80gb")


@pytest.mark.parametrize(
    ("device", "precision", "dense", "sparse"),
    [
        ("h100", "fp16", 295, 591),
        ("a100", "fp16", 153, 306),
        ("jetson-agx-orin-64gb", "int8", 671, 1343),
    ],
)
def test_both_readings_of_one_datasheet(device, precision, dense, sparse):
    plain = gambrel.analyze("resnet50", device, precision=precision)
    assert plain.ridge_point == pytest.approx(dense, abs=0.5)
    marked = gambrel.analyze("resnet50", device, precision=precision, sparsity=True)
    assert marked.ridge_point == pytest.approx(sparse, abs=0.5)
    assert any("sparsity" in text for text in marked.assumptions)


@pytest.mark.parametrize(
    ("model", "sizes", "flops", "digits"),
    [
        ("resnet50", {}, 8.178e9, 4),
        ("vit-b-16", {}, 35.13e9, 4),
        ("bert-base", {"seq": 512}, 96.64e9, 4),
        ("llama-3-8b", {"seq": 2048}, 29.69e12, 4),
        ("llama-3-70b", {"seq": 2048}, 285.9e12, 4),
        ("mixtral-8x7b", {"seq": 2048}, 52.78e12, 4),
    ],
)
def test_exact_figures(model, sizes, flops, digits):
    found = gambrel.analyze(model, "h200", batch_size=1, sizes=sizes).flops
    assert float(f"{found:.{digits}g}") == pytest.approx(flops)
