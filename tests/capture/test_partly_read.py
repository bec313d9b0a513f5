"""Inputs that a model reads through slices only."""

import torch

import gambrel


class Columns(torch.nn.Module):
    def forward(self, x):
        return x[:, 0] + x[:, 3]


class Unread(torch.nn.Module):
    def forward(self, x, mask):
        return x + 1


def test_an_input_read_by_columns_is_held_whole():
    """8 of 64 columns' worth would be 2 x 16 x 4 bytes; the caller holds 16 x 64 values."""
    found = gambrel.analyze(Columns(), "epyc-9654", torch.zeros(16, 64), precision="fp32")
    # The whole input of 16 x 64 values and the sum of 16, 4 bytes each.
    assert found.footprint.total_bytes == 4 * (16 * 64 + 16)
    # What must be read are the two columns.
    assert found.total.sol_traffic_bytes == 4 * (2 * 16 + 16)


def test_an_input_that_nothing_reads_is_left_out():
    given = (torch.zeros(16), torch.zeros(1000))
    found = gambrel.analyze(Unread(), "epyc-9654", given, precision="fp32")
    assert found.footprint.total_bytes == 4 * 32
