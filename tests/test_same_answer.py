"""Same model, same answer: from the zoo, a live module, an export and a checkpoint."""

import pytest

import gambrel

pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def answers(tmp_path_factory):
    torch = pytest.importorskip("torch")
    from gambrel.capture.torch import ensure_torchvision

    if not ensure_torchvision():
        pytest.skip("torchvision is not installed")
    import torchvision

    folder = tmp_path_factory.mktemp("models")
    model = torchvision.models.resnet18().eval()
    image = torch.randn(1, 3, 224, 224)
    torch.save(model.state_dict(), folder / "weights.pth")
    torch.save(model, folder / "module.pt")
    exported = torch.export.export(model, (image,))
    torch.export.save(exported, str(folder / "exported.pt2"))
    sources = {
        "zoo": ("resnet18", None),
        "live on the CPU": (model, image),
        "live on meta": (model.to("meta"), image.to("meta")),
        "export": (folder / "exported.pt2", None),
        "state dict": (folder / "weights.pth", None),
        "pickled module": (folder / "module.pt", None),
    }
    return {
        name: gambrel.analyze(source, "a100", inputs, precision="fp32")
        for name, (source, inputs) in sources.items()
    }


@pytest.mark.parametrize(
    "source", ["live on the CPU", "live on meta", "export", "state dict", "pickled module"]
)
def test_every_source_answers_as_the_zoo_does(answers, source):
    zoo, found = answers["zoo"], answers[source]
    for field in ("matrix_flops", "vector_flops", "special_ops", "read_bytes", "write_bytes"):
        assert getattr(found.total, field) == getattr(zoo.total, field), field
    assert found.total.roofline_time_s == pytest.approx(zoo.total.roofline_time_s, rel=1e-12)
    assert found.model.parameters == zoo.model.parameters == 11_689_512
    assert [op.kind for op in found.ops] == [op.kind for op in zoo.ops]
    assert found.footprint.weights_bytes == zoo.footprint.weights_bytes
    assert found.footprint.activations_bytes == zoo.footprint.activations_bytes
    assert found.coverage == 1
