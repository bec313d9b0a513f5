"""Decoding over a latent cache: by hand, by law, and where it is used."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.analysis.estimate.attention_forms import latent_decode
from gambrel.analysis.estimate.features import rule_of
from gambrel.analysis.estimate.forms import Chip
from gambrel.analysis.settings import Settings
from gambrel.analysis.workbench import Machine, Workbench, answered
from gambrel.device.catalog import load
from gambrel.ops import Conventions

PLAIN = {"compute": 1.0, "memory": 1.0, "rows": 64.0, "key": 0.0, "tile": 0.0, "join": 3.0}
#: So many units that none limits the bytes in flight.
MACHINE = Chip(units=1e9, clock_hz=1e9, byte_per_s=1e12)


def _seconds(c: dict[str, float] = PLAIN, machine: Chip = MACHINE, **sizes: float) -> float:
    usual = {"batch": 4, "heads": 128, "keys": 1000, "widths": 1088, "token_bytes": 1152}
    return float(latent_decode(c, machine, 1e30, **{**usual, **sizes}))


def test_a_cached_token_is_read_once_for_all_heads() -> None:
    # 4 sequences of 1,000 tokens of 576 values of two bytes at 1 TB/s.
    assert _seconds() == pytest.approx(4 * 1000 * 1152 / 1e12)
    assert _seconds(heads=16) == pytest.approx(_seconds(heads=128))


def test_heads_fill_rows_of_a_tile() -> None:
    def computed(heads: float) -> float:
        return float(
            latent_decode(
                PLAIN, MACHINE, 1e12, batch=1, heads=heads, keys=1000, widths=1088, token_bytes=0
            )
        )

    assert computed(128) == pytest.approx(2 * 1000 * 1088 * 128 / 1e12)
    assert computed(8) == computed(64) == pytest.approx(2 * 1000 * 1088 * 64 / 1e12)


def test_few_sequences_split_their_keys() -> None:
    slow, machine = {**PLAIN, "key": 1.0}, Chip(units=4, clock_hz=1.0, byte_per_s=1e30)
    # One sequence of one tile on four units: a quarter of its keys each, one cycle per key.
    assert _seconds(slow, machine, batch=1, heads=64, keys=4000) == pytest.approx(1000)
    assert _seconds(slow, machine, batch=4, heads=64, keys=4000) == pytest.approx(4000)


def test_libraries_that_split_keys_always_or_never() -> None:
    slow, machine = {**PLAIN, "key": 1.0}, Chip(units=4, clock_hz=1.0, byte_per_s=1e30)
    one = {"batch": 1, "heads": 64, "keys": 4000}
    assert _seconds({**slow, "splits": 1.0}, machine, **one) == pytest.approx(4000)
    assert _seconds({**slow, "splits": 8.0}, machine, **one) == pytest.approx(500)
    # Four tiles of 16 heads in eight pieces each start eight times one after another.
    starts = {**PLAIN, "splits": 8.0, "tile_heads": 16.0, "tile": 100.0}
    assert _seconds(starts, machine, **one) == pytest.approx(800)


def test_time_never_falls_with_more_of_anything() -> None:
    constants = {**PLAIN, "key": 10.0, "tile": 1e4}
    machine = Chip(units=132, clock_hz=1.8e9, byte_per_s=3.35e12)
    for name, values in (
        ("batch", (1, 2, 8, 64, 256)),
        ("keys", (64, 1024, 8192, 65536)),
        ("token_bytes", (576, 1152)),
    ):
        times = [_seconds(constants, machine, **{name: v}) for v in values]
        assert times == sorted(times), name


def test_deepseek_decodes_by_it_and_llama_does_not() -> None:
    def forms(name: str) -> set[str]:
        workload = gambrel.load_model(name, phase="decode", runtime="sglang")
        settings = Settings(runtime="sglang", sizes={"batch": 8, "context": 2048})
        sizes = workload.resolve_symbols(settings.sizes)
        bench = Workbench(workload, sizes, Conventions())
        found = answered(bench, Machine(load("h200-sxm-141gb"), settings), settings)
        views = (i.view for i in found.table.items if i.view.kind == "attention")
        return {rule_of(view).form for view in views}

    assert forms("deepseek-v3") == {"latent_decode"}
    assert forms("llama-3.1-8b") == {"decode_attention"}
