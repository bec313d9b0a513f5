"""What `import gambrel` offers, and what it must not load."""

import subprocess
import sys

import pytest

import gambrel

HEAVY = ("torch", "numpy", "pandas", "plotly", "matplotlib", "rich", "typer", "msgspec")


def loaded_after(statement):
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_every_public_name_loads_and_is_listed():
    assert set(gambrel.__all__) == {"__version__", *gambrel._HOMES}
    for name in gambrel.__all__:
        assert getattr(gambrel, name) is not None
    assert set(gambrel.__all__) <= set(dir(gambrel))


def test_unknown_names_are_refused():
    with pytest.raises(AttributeError, match="module 'gambrel' has no attribute 'analyse'"):
        _ = gambrel.analyse


def test_importing_loads_nothing_heavy():
    assert loaded_after("import gambrel").isdisjoint(HEAVY)


def test_that_check_can_fail():
    assert "numpy" in loaded_after("import gambrel, numpy")


def test_analyzing_a_built_in_model_loads_no_framework_and_no_plotting():
    loaded = loaded_after("import gambrel; gambrel.analyze('resnet50', 'a100')")
    heavy = {"torch", "plotly", "matplotlib", "pandas", "transformers", "numpy"}
    assert loaded.isdisjoint(heavy | {"gambrel.capture.jax.capture", "gambrel.capture.onnx.reader"})
