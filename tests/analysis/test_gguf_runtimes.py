"""Formats of GGUF files go to engines for language models, whatever question is asked."""

import pytest

import gambrel
from gambrel.errors import InputError


@pytest.mark.parametrize("precision", ["q4_0", "q8_0", "q4_k", "q4_k_m"])
def test_a_card_takes_them_under_llama_cpp(precision):
    found = gambrel.analyze("llama-3.1-8b", "rtx-4090", phase="decode", precision=precision)
    assert found.runtime == "llama-cpp"


def test_a_time_in_a_mixture_is_judged_beside_llama_cpp():
    asked = {"phase": "decode", "precision": "q4_k_m", "time": "8ms"}
    assert "llama-cpp" in gambrel.judge("llama-3.1-8b", hardware="rtx-4090", **asked).baseline


@pytest.mark.parametrize("device", ["rtx-4090", "raspberry-pi-5"])
def test_networks_are_refused(device):
    with pytest.raises(InputError, match="q4_0"):
        gambrel.analyze("resnet50", device, precision="q4_0")
