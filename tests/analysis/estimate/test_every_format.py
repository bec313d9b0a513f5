"""Every format that a device names has an answer, whatever its constants come from."""

import pytest

import gambrel
from gambrel.device import catalog
from gambrel.errors import InputError


@pytest.mark.parametrize("device", [d.id for d in catalog.list_devices()])
def test_a_network_of_convolutions_has_an_answer_in_every_format(device):
    formats = {c.dtype for c in catalog.load(device).ceilings} | {"fp32", "fp16", "int8"}
    answers = 0
    for precision in sorted(formats):
        try:
            found = gambrel.analyze("resnet18", hardware=device, precision=precision)
        except InputError:  # the runtime there does not take it
            continue
        answers += 1
        assert found.expected_time_s is None or found.expected_time_s.value > 0
    assert answers
