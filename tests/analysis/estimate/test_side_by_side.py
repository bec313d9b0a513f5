"""Numbers of several devices in a column: a formula may branch on them like on one."""

import numpy as np
import pytest

from gambrel.analysis.estimate.side_by_side import DeviceColumn
from gambrel.ops.base import MixedError


def column(*values):
    return np.array(values)[:, None].view(DeviceColumn)


def test_a_condition_that_all_devices_answer_alike_has_an_answer():
    assert column(1.0, 2.0)
    assert not column(0.0, 0.0)
    assert column(1.0, 2.0) + np.array([1.0, 2.0, 3.0]) > 0
    assert int(column(64.0, 64.0)) == 64


def test_a_condition_that_differs_takes_the_devices_apart():
    with pytest.raises(MixedError) as mixed:
        bool(column(1.0, 3.0) > 2.0)
    assert mixed.value.mask.tolist() == [[False], [True]]
    with pytest.raises(MixedError) as mixed:
        int(column(64.0, 128.0, 64.0))
    assert mixed.value.mask.tolist() == [[True], [False], [True]]
