"""The commands that a check prints ask about what was asked."""

import re
import shlex

import pytest

ASKED = (
    (
        "llama-3.1-8b --hardware rtx-4090 --phase decode --context 8192 --latency 1ms",
        "--context 8192 --phase decode",
    ),
    ("gpt2 --hardware t4 --phase prefill --causal full --latency 10us", "--causal full"),
    ("resnet50 --peak 10TFLOPS --bandwidth 100GB/s --latency 0.2ms", "--image 224"),
    ("resnet50 --hardware t4 --precision fp32 --latency 0.2ms", "--precision fp32"),
)


@pytest.mark.parametrize(("asked", "kept"), ASKED)
def test_printed_commands_are_accepted_and_keep_what_was_asked(gambrel, asked, kept):
    told = re.sub(r"\s+", " ", gambrel("check", *asked.split()).out)
    lines = re.findall(r"gambrel ((?:what-if|select) .*?) (?:•|Notes|Tried)", told)
    assert len(lines) == 2
    for line in lines:
        assert kept in line
        assert "custom" not in line
        answer = gambrel(*shlex.split(line))
        assert answer.code == 0, (line, answer.err)
