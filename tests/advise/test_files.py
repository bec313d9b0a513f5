"""Changes of models of files: in another format they are built as `analyze` builds them."""

import gambrel
from tests.capture.weights.models import llama_metadata, llama_tensors, write_model
from tests.capture.weights.test_checkpoint import folder, fp8, gptq, plain

PHASE = {"phase": "decode"}


def figures(analysis):
    total = analysis.total
    weights = analysis.footprint.weights_bytes
    return analysis.model.precision, total.flops, total.traffic_bytes, analysis.launches, weights


def test_a_checkpoint_in_another_format_is_built_again(tmp_path):
    for name, tensors in (("plain", plain()), ("fp8", fp8()), ("gptq", gptq())):
        path = str(folder(tmp_path / name, tensors))
        own = gambrel.analyze(path, "h100", **PHASE)
        for precision in ("fp8", "int8", "fp16", "w4a16"):
            asked = gambrel.analyze(path, "h100", precision=precision, **PHASE)
            assert figures(own.with_change(f"precision={precision}")) == figures(asked)
        # Nothing else changes what the file stores.
        assert figures(own.with_change("batch=1")) == figures(own)


def test_a_gguf_file_in_another_format_is_the_model_of_its_metadata(tmp_path):
    path = write_model(tmp_path / "m.gguf", llama_metadata(), llama_tensors())
    own = gambrel.analyze(str(path), "h100", **PHASE)
    changed = own.with_change("precision=fp8")
    assert changed.model.precision == "fp8"
    assert changed.model.name == own.model.name
    # Weights of q4_k and the like become wider; 4 bits of them stay about as large.
    assert changed.footprint.weights_bytes > 1.5 * own.footprint.weights_bytes
    four = own.with_change("precision=w4a16")
    assert 0.9 < four.footprint.weights_bytes / own.footprint.weights_bytes < 1.2
    assert own.with_change("kv=fp8").footprint.weights_bytes == own.footprint.weights_bytes


def test_edits_are_made_again_on_what_is_built(tmp_path):
    path = str(folder(tmp_path / "m", plain()))
    own = gambrel.analyze(path, "h100", **PHASE)
    both = own.with_change("kv=fp8", "precision=fp16")
    built = own.with_change("precision=fp16")
    assert figures(both)[:2] == figures(built)[:2]
    assert both.footprint.kv_cache_bytes == built.footprint.kv_cache_bytes / 2
    assert both.traffic_bytes < built.traffic_bytes
