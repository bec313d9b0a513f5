"""Each formula once by hand, and the laws that all of them obey."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gambrel.analysis.estimate import attention_forms, forms
from gambrel.analysis.estimate.forms import Chip

#: Four units at 1 GHz before a memory of 8 byte/s: so slow that no unit runs out of bytes in
#: flight (8 / 4 / 120e9 is nothing beside 1).
MACHINE = Chip(units=4, clock_hz=1e9, byte_per_s=8.0)

MATMUL = {
    "launch": 5000,
    "compute": 0.5,
    "memory": 1.0,
    "headroom": 2.0,
    "k_fill": 0.0,
    "wave": 1.0,
    "k_split": 1e9,
    "operand": 0.0,
    "quantize": 0.0,
    "row": 0.0,
    "unaligned": 0.0,
    "settle": 2e-3,
    "by_rows": 0.0,
}


def matmul(constants=MATMUL, machine=MACHINE, **sizes):
    fields = {"m": 128, "n": 192, "k": 100, "traffic_bytes": 0.0} | sizes
    return forms.matmul(constants, machine, 1e9, **fields)


def test_launch_is_cycles_over_clock():
    assert forms.launch(MATMUL, MACHINE) == pytest.approx(5e-6)


def test_matmul_takes_the_better_tile():
    # One tile of 128×192 leaves three of four units idle: 2·128·192·100 = 4,915,200 FLOP on one
    # unit, which has 1e9·0.5/4 FLOP/s: 39.3 ms. Six tiles of 64×64 make two waves of 819,200 FLOP
    # each: 2 · 819,200 · 4 / 5e8 = 13.1 ms.
    assert matmul() == pytest.approx(2 * 819_200 * 4 / 5e8)


def test_matmul_splits_k_when_tiles_are_few():
    # The large tile in four pieces of 25 steps: 1,228,800 FLOP a unit, 9.8 ms.
    assert matmul({**MATMUL, "k_split": 10}) == pytest.approx(1_228_800 * 4 / 5e8)


def test_matmul_balances_the_last_wave():
    # 6 tiles on 4 units fill 1.5 waves; with half of the naive quantisation, 1.75.
    assert matmul({**MATMUL, "wave": 0.5}) == pytest.approx(1.75 * 819_200 * 4 / 5e8)


def test_matmul_pays_for_pipelines_operands_and_odd_rows():
    fill = matmul({**MATMUL, "k_fill": 50})
    assert fill == pytest.approx(1.5 * matmul())
    # 1/64 + 1/64 = 1/32: 16 of it is one half more.
    assert matmul({**MATMUL, "operand": 16}) == pytest.approx(1.5 * matmul())
    odd = matmul({**MATMUL, "unaligned": 0.25}, m=127)
    assert odd == pytest.approx(1.25 * matmul(m=127))


def test_matmul_overlaps_memory_imperfectly():
    # 3 parts of computing and 4 of streaming take 5.
    seconds = matmul()
    streamed = matmul(traffic_bytes=seconds * 4 / 3 * 8.0)
    assert streamed == pytest.approx(seconds * 5 / 3)


def test_matmul_quantises_activations_in_passes():
    # Two passes over 16 bytes at 8 byte/s.
    done = matmul({**MATMUL, "quantize": 2.0}, quantized_bytes=16.0)
    assert done == pytest.approx(matmul() + 4.0)


def test_matmul_looks_for_the_scale_of_each_row():
    # 128 rows on 4 units are 32 for each, of 1e9 cycles at 1 GHz: 32 s, and only where activations
    # are quantised.
    each = {**MATMUL, "row": 1e9}
    assert matmul(each, quantized_bytes=16.0) == pytest.approx(matmul() + 32)
    assert matmul(each) == matmul()


def test_matmul_of_libraries_that_look_at_the_rows_alone():
    # 128 rows: six tiles of 64×64 would be best (above), but it takes 64×128: two rows of tiles,
    # ceil(192 / 128) = 2 columns, one wave of 2·64·128·100 = 1,638,400 FLOP on each unit.
    alone = {**MATMUL, "by_rows": 1.0}
    assert matmul(alone) == pytest.approx(1_638_400 * 4 / 5e8)
    # 64 rows: three tiles of 64×64. 256 rows: four of 128×128.
    assert matmul(alone, m=64) == pytest.approx(819_200 * 4 / 5e8)
    assert matmul(alone, m=256) == pytest.approx(3_276_800 * 4 / 5e8)


def test_matmul_of_libraries_on_ada_has_lower_tiles_for_few_rows():
    # 16 rows: three tiles of 16×64 on four units; 64 rows: two times three of 32×64, two waves;
    # 192 rows: three times two of 64×128, two waves.
    alone = {**MATMUL, "by_rows": 2.0}
    assert matmul(alone, m=16) == pytest.approx(2 * 16 * 64 * 100 * 4 / 5e8)
    assert matmul(alone, m=64) == pytest.approx(2 * 2 * 32 * 64 * 100 * 4 / 5e8)
    assert matmul(alone, m=192) == pytest.approx(2 * 2 * 64 * 128 * 100 * 4 / 5e8)
    # Four bits on Blackwell: one row of tiles of 128×128, two columns.
    assert matmul({**MATMUL, "by_rows": 3.0}, m=16) == pytest.approx(3_276_800 * 4 / 5e8)
    for rows in (1, 16, 64, 128, 256, 1000):
        one, many = forms.tile_by_rows(rows, 2), forms.tile_by_rows(np.array([rows]), 2)
        assert one == tuple(float(x[0]) for x in many)


def test_matmul_of_libraries_with_a_tile_for_few_rows():
    # 16 rows: three tiles of 16×64 instead of 64×64, on four units; more rows take the others.
    thin = {**MATMUL, "thin": 1.0}
    assert matmul(thin, m=16) == pytest.approx(2 * 16 * 64 * 100 * 4 / 5e8)
    assert matmul(m=16) == pytest.approx(4 * matmul(thin, m=16))
    assert matmul(thin, m=256) == matmul(m=256)


def test_matmul_reads_rows_again_that_the_cache_has_lost():
    # 512 rows of 10^6: four tiles of 128 rows fill the units, so each of two columns of tiles is a
    # band. The second reads 512 MB again, at two bytes a value and 8 GB/s: 128 ms (and 2 ms that
    # this machine's bytes in flight add).
    fast = {**MATMUL, "by_rows": 2.0, "compute": 1e9}
    machine = Chip(units=4, clock_hz=1e9, byte_per_s=8e9, cache_bytes=1e6)
    found = matmul({**fast, "reread": 2.0}, machine, m=512, n=256, k=1_000_000)
    assert found == pytest.approx(0.128 * machine.most)
    assert matmul(fast, machine, m=512, n=256, k=1_000_000) < 0.01
    large = Chip(units=4, clock_hz=1e9, byte_per_s=8e9, cache_bytes=1e10)
    assert matmul({**fast, "reread": 2.0}, large, m=512, n=256, k=1_000_000) < 0.01


def test_long_kernels_run_at_the_sustained_clock():
    hot = Chip(units=4, clock_hz=1e9, byte_per_s=8.0, power=3.0)
    # 3 over a headroom of 2 is one half too much; at 2 ms half of it is felt.
    assert forms.sustained(MATMUL, hot, 2e-3) == pytest.approx(2.5e-3)
    assert forms.sustained(MATMUL, MACHINE, 2e-3) == 2e-3
    cool = Chip(units=4, clock_hz=1e9, byte_per_s=8.0, power=1.0)
    assert forms.sustained(MATMUL, cool, 2e-3) == 2e-3


def test_bytes_in_flight_limit_wide_memories():
    # 120 GB/s a unit: exactly half of the bandwidth is reached.
    wide = Chip(units=10, clock_hz=1e9, byte_per_s=1.2e12)
    assert wide.streaming(1.0) == pytest.approx(0.6e12)


ATTENTION = {
    "compute": 0.5,
    "memory": 1.0,
    "headroom": 2.0,
    "softmax": 4.0,
    "padding": 0.0,
    "tile": 0.0,
    "warm": 1.0,
    "append": 0.0,
    "wide": 0.0,
    "narrow": 0.0,
    "edge": 0.0,
    "keys_split": 1e9,
    "join": 2.0,
    "packed": 1.0,
    "settle": 2e-3,
}


def attention(constants=ATTENTION, machine=MACHINE, **changes):
    fields = {
        "pairs": 800.0,
        "queries": 10,
        "longest": 10,
        "heads": 4,
        "kv_heads": 4,
        "batch": 2,
        "head_dim": 9,
        "traffic_bytes": 0.0,
        "kv_bytes": 0.0,
    } | changes
    return attention_forms.attention(constants, machine, 400.0, **fields)


def test_attention_by_hand():
    # A pair: 4·9 FLOP and a softmax of 4: 40, on a unit of 400·0.5/4 = 50 FLOP/s: 0.8 s.
    # 800 pairs on 4 units: 160 s. The longest tile has 10 queries × 10 keys: 80 s.
    assert attention() == pytest.approx((160**2 + 80**2) ** 0.5)
    # 5 padded keys for 10 queries of 8 heads: 400 more pairs, 80 s more; the tile 120 s.
    padded = attention({**ATTENTION, "padding": 5.0})
    assert padded == pytest.approx((240**2 + 120**2) ** 0.5)


def test_attention_with_a_window_pads_both_edges():
    # As above with 3 visible keys: 5 · (1 + 2) = 15 padded keys for 10 queries of 8 heads are 1,200
    # pairs, 240 s more; the tile has 10 · (3 + 15) pairs: 144 s.
    edges = {**ATTENTION, "padding": 5.0, "edge": 2.0}
    assert attention(edges, longest=3) == pytest.approx((400**2 + 144**2) ** 0.5)
    # No query misses a key: no second edge.
    assert attention(edges) == attention({**edges, "edge": 0.0})


def test_attention_of_wide_heads():
    # A head of 256 is one 128 beyond the usual: half more of its 4·256 FLOP, at 50 FLOP/s.
    plain = attention({**ATTENTION, "softmax": 0.0}, head_dim=256)
    wide = attention({**ATTENTION, "softmax": 0.0, "wide": 0.5}, head_dim=256)
    assert wide == pytest.approx(1.5 * plain)
    assert attention({**ATTENTION, "wide": 0.5}) == attention()


def test_attention_of_wide_heads_in_small_memories():
    # Two tiles of 64 rows for 128 queries, where one of 128 took them: the longest has half.
    wide = {"head_dim": 256, "queries": 128, "longest": 128, "batch": 1, "heads": 1, "kv_heads": 1}
    plain = {**ATTENTION, "softmax": 0.0, "join": 50.0}
    half = attention({**plain, "wide_rows": 64.0}, pairs=1.0, **wide)
    assert half == pytest.approx(attention(plain, pairs=1.0, **wide) / 2)
    # Heads of 192 as of 256.
    padded = {**ATTENTION, "padded_head": 256.0}
    assert attention(padded, head_dim=192) == attention(head_dim=256)
    assert attention(padded) == attention()


def test_attention_of_narrow_heads():
    # A head of 64 is half of the usual: 0.5 more of its 4·64 FLOP; one of 32 a quarter, 1.5 more.
    plain = {**ATTENTION, "softmax": 0.0}
    for head_dim, longer in ((64, 1.5), (32, 2.5), (256, 1.0)):
        found = attention({**plain, "narrow": 0.5}, head_dim=head_dim)
        assert found == pytest.approx(longer * attention(plain, head_dim=head_dim))


def test_attention_shows_the_longer_of_what_overlaps():
    # 160 s balanced beside 80 s of the longest tile, joined by the 4-norm.
    assert attention({**ATTENTION, "join": 4.0}) == pytest.approx((160**4 + 80**4) ** 0.25)


def test_attention_appends_keys_and_values_in_a_pass_of_its_own():
    # Twice 16 bytes at 8 byte/s.
    found = attention({**ATTENTION, "append": 2.0}, kv_bytes=16.0)
    assert found == pytest.approx(attention() + 4)


def test_attention_packs_query_heads_into_tiles():
    # 4 query heads on 2 key/value heads, 2 sequences, 10 queries. Packed: 4 tiles of 20 rows;
    # else 8 of 10. A start of 1 s each, over 4 units: 1 s or 2 s beside 160 s. The longest tile:
    # 200 pairs of 0.8 s and its start, or 100.
    packed = {**ATTENTION, "tile": 1e9}
    assert attention(packed, kv_heads=2) == pytest.approx((161**2 + 161**2) ** 0.5)
    apart = attention({**packed, "packed": 0.0}, kv_heads=2)
    assert apart == pytest.approx((162**2 + 81**2) ** 0.5)


def test_attention_splits_the_keys_of_few_tiles():
    # One head of one sequence: 100 pairs of 0.8 s are 20 s over 4 units; the only tile takes all
    # 80 s, unless three idle units take a share of its keys: 20 s.
    one = {"pairs": 100.0, "batch": 1, "heads": 1, "kv_heads": 1}
    assert attention(**one) == pytest.approx((20**2 + 80**2) ** 0.5)
    split = {**ATTENTION, "keys_split": 2.0}
    assert attention(split, **one) == pytest.approx((20**2 + 20**2) ** 0.5)
    # Two pieces of five keys at least: 40 s.
    split = {**ATTENTION, "keys_split": 5.0}
    assert attention(split, **one) == pytest.approx((20**2 + 40**2) ** 0.5)


def test_attention_reads_warm_bytes_faster():
    cached = Chip(units=4, clock_hz=1e9, byte_per_s=8.0, cache_bytes=4e6)
    computed = attention()
    # As many bytes as the cache holds: 1 + 1/(1 + 1) = 1.5 times the bandwidth.
    streamed = 4e6 / (8.0 * 1.5)
    found = attention(machine=cached, traffic_bytes=4e6)
    assert found == pytest.approx((computed**2 + streamed**2) ** 0.5)
    cold = attention(traffic_bytes=4e6)
    assert cold == pytest.approx((computed**2 + (4e6 / 8) ** 2) ** 0.5)


DECODE = {
    "memory": 1.0,
    "tile": 0.0,
    "grouped": 1.0,
    "query": 0.0,
    "key": 0.0,
    "wide": 0.0,
    "block": 0.0,
    "edge": 0.0,
    "late": 0.0,
    "keys_split": 1e9,
    "combine": 0.0,
    "join": 60.0,
    "warm": 0.0,
    "lone_launch": 0.0,
    "lone_memory": 1.0,
    "split_lone": 1.0,
    "split_shared": 1.0,
    "pack_window": 1.0,
}


def decode(constants=DECODE, machine=MACHINE, **changes):
    """By default 4 · 2 tiles of 100 keys, 4 query heads each."""
    fields = {
        "batch": 4,
        "heads": 8,
        "kv_heads": 2,
        "head_dim": 128,
        "keys": 100,
        "kv_bytes": 2.0,
    } | changes
    return attention_forms.decode_attention(constants, machine, **fields)


def test_decode_attention_streams_the_cache():
    # 4·2 tiles of 100 keys · 2 bytes = 1,600 bytes at 8 byte/s.
    assert decode() == pytest.approx(200)
    # A start of 10 s a tile, two tiles on each of 4 units.
    assert decode({**DECODE, "tile": 10e9}) == pytest.approx(200 + 2 * 10)


def test_decode_attention_takes_cycles_for_keys():
    # A key takes 3 s (of a head of 128; twice for 256): 300 s for a tile, 600 s on each unit, while
    # streaming takes 200 s. The first tile alone (300 s) is shorter.
    keys = {**DECODE, "key": 3e9}
    assert decode(keys) == pytest.approx((600**2 + 200**2) ** 0.5)
    assert decode(keys, head_dim=256) == pytest.approx((1200**2 + 200**2) ** 0.5)
    # The 128 beyond the usual cost half more.
    wide = decode({**keys, "wide": 0.5}, head_dim=256)
    assert wide == pytest.approx((1800**2 + 200**2) ** 0.5)
    # Blocks of 128 keys for a head of 128: sqrt(100² + 128²) keys, 2 tiles on a unit.
    blocks = decode({**keys, "block": 1.0})
    padded = 3 * (100**2 + 128**2) ** 0.5
    assert blocks == pytest.approx(((2 * padded) ** 2 + 200**2) ** 0.5)


@pytest.mark.parametrize(("head_dim", "block"), [(32, 256), (64, 256), (128, 128), (256, 64)])
def test_decode_attention_pads_to_blocks_of_as_many_values(head_dim, block):
    # One tile, whose only key takes 1 s · head_dim / 128, padded to a block of keys.
    found = decode(
        {**DECODE, "key": 1e9, "block": 1.0},
        batch=1,
        kv_heads=1,
        heads=1,
        keys=1,
        kv_bytes=0.0,
        head_dim=head_dim,
    )
    assert found == pytest.approx((1 + block**2) ** 0.5 * head_dim / 128)


def test_decode_attention_is_no_faster_than_one_unit():
    # 84 GB/s a unit: one tile of 84 GB takes a second, whatever the bandwidth of the memory.
    fast = Chip(units=4, clock_hz=1e9, byte_per_s=1e15)
    tile = {"batch": 1, "kv_heads": 1, "heads": 4, "keys": 42e9}
    assert decode({**DECODE, "keys_split": 1e12}, machine=fast, **tile) == pytest.approx(1)
    # In four pieces, a quarter.
    split = {**DECODE, "keys_split": 1e9}
    assert decode(split, machine=fast, **tile) == pytest.approx(0.25)


def test_decode_attention_splits_keys_and_combines():
    # One tile of 100 keys of 1 s on one unit: 100 s beside 25 s of streaming. In four pieces 25 s
    # of keys beside 25 s, then 3 s to combine.
    tile = {"batch": 1, "kv_heads": 1, "heads": 4}
    keys = {**DECODE, "key": 1e9}
    assert decode(keys, **tile) == pytest.approx(100)
    split = {**keys, "keys_split": 10, "combine": 3e9}
    assert decode(split, **tile) == pytest.approx((25**2 + 25**2) ** 0.5 + 3)
    # Kernels that split no keys of shared heads, or of lone ones.
    assert decode({**split, "split_shared": 0.0}, **tile) == pytest.approx(100)
    assert decode({**split, "split_lone": 0.0}, **tile) == decode(split, **tile)
    lone = {**tile, "heads": 1}
    assert decode({**split, "split_lone": 0.0}, **lone) == pytest.approx(100)
    assert decode({**split, "split_shared": 0.0}, **lone) == decode(split, **lone)


def test_decode_attention_with_a_window():
    # Tiles of 100 keys of 1 s, padded to blocks of 128; two on a unit, beside 200 s of streaming.
    windows = {**DECODE, "key": 1e9, "block": 1.0, "edge": 0.5}
    tile = (100**2 + 128**2) ** 0.5
    plain = decode(windows, windowed=True)
    assert plain == pytest.approx(((2 * tile) ** 2 + 200**2) ** 0.5)
    # Where the window cuts keys off, half a block more.
    cut = decode(windows, windowed=True, cut=True)
    assert cut == pytest.approx(((2 * tile + 128) ** 2 + 200**2) ** 0.5)
    # A tile that waits 600 s before it starts is the longest of all.
    late = {**windows, "late": 600e9}
    assert decode(late, windowed=True, cut=True) == pytest.approx(600 + tile + 64)
    assert decode(late, windowed=True) == plain
    # Where each of 32 query heads is a tile, a unit starts 8 instead of 2.
    apart = {**DECODE, "tile": 10e9, "pack_window": 0.0}
    assert decode(apart, windowed=True) == pytest.approx(200 + 8 * 10)
    assert decode(apart) == pytest.approx(200 + 2 * 10)


def test_decode_attention_starts_longer_where_heads_share_a_tile():
    # Two starts of 10 s, half more for sharing, and 4 · 128 / 2048 = a quarter for the queries.
    assert decode({**DECODE, "tile": 10e9, "grouped": 1.5}) == pytest.approx(200 + 2 * 15)
    assert decode({**DECODE, "tile": 10e9, "query": 1.0}) == pytest.approx(200 + 2 * 12.5)
    lone = decode({**DECODE, "tile": 10e9, "grouped": 1.5, "query": 1.0}, heads=2)
    assert lone == pytest.approx(200 + 2 * 10)


def test_decode_attention_of_libraries_with_a_kernel_for_lone_heads():
    # Half of the bandwidth, 5 s more to start; nothing changes where heads share keys.
    own = {**DECODE, "lone_memory": 0.5, "lone_launch": 5e9}
    assert decode(own, heads=2) == pytest.approx(400 + 5)
    assert decode(own) == pytest.approx(200)


def test_decode_attention_keeps_what_fits_the_cache():
    # 1,600 bytes in a cache of as many: 1 + 1/(1 + 1); in one of half: 1 + 1/(1 + 2⁶).
    for cache, faster in ((1600.0, 1.5), (800.0, 1 + 1 / 65), (0.0, 1.0)):
        held = Chip(units=4, clock_hz=1e9, byte_per_s=8.0, cache_bytes=cache)
        assert decode({**DECODE, "warm": 1.0}, machine=held) == pytest.approx(200 / faster)


def test_stream_by_hand():
    # 24 bytes at 8 byte/s and 8 FLOP at half of 4 FLOP/s: 3 and 4 take 5.
    c = {"memory": 1.0, "vector": 0.5}
    assert forms.stream(c, MACHINE, 4.0, traffic_bytes=24.0, flops=8.0) == pytest.approx(5)
    assert forms.stream(c, MACHINE, 0.0, traffic_bytes=24.0, flops=8.0) == pytest.approx(3)


def test_collective_by_hand():
    # Start 1 s and 1 s for each of two further devices; 8 bytes at half of 8 byte/s: 2 s; between
    # them twice the geometric mean of 3 and 2.
    c = {"base_s": 1.0, "step_s": 1.0, "share": 0.5, "middle": 2.0}
    seconds = forms.collective(c, 8.0, link_bytes=8.0, devices=4)
    assert seconds == pytest.approx(3 + 2 + 2 * 6**0.5)


sizes = st.integers(min_value=1, max_value=4096)
H100 = {**MATMUL, "k_fill": 115.0, "wave": 0.4, "k_split": 1000.0, "operand": 2.0}
BIG = Chip(units=132, clock_hz=1.83e9, byte_per_s=3.35e12, cache_bytes=5e7, power=1.0)


@given(m=sizes, n=sizes, k=sizes, more=st.integers(min_value=1, max_value=4096))
def test_more_work_never_takes_less(m, n, k, more):
    def seconds(m, n, k):
        return forms.matmul(H100, BIG, 989e12, m=m, n=n, k=k, traffic_bytes=1e6)

    least = seconds(m, n, k) * (1 - 1e-12)
    assert seconds(m + more, n, k) >= least
    assert seconds(m, n + more, k) >= least
    assert seconds(m, n, k + more) >= least


@given(a=st.floats(min_value=0, max_value=1e12), b=st.floats(min_value=0, max_value=1e12))
def test_more_bytes_never_take_less(a, b):
    low, high = sorted((a, b))
    by_form = (
        lambda x: forms.matmul(H100, BIG, 989e12, m=64, n=64, k=64, traffic_bytes=x),
        lambda x: attention(machine=BIG, traffic_bytes=x),
        lambda x: forms.stream(
            {"memory": 1.0, "vector": 1.0}, BIG, 1e12, traffic_bytes=x, flops=1e6
        ),
        lambda x: forms.collective(
            {"base_s": 1e-5, "step_s": 0.0, "share": 1.0, "middle": 1.0},
            4e11,
            link_bytes=x,
            devices=8,
        ),
    )
    for seconds in by_form:
        assert seconds(low) <= seconds(high) * (1 + 1e-12)


#: Fitted constants of vLLM on H100, rounded.
FITTED = DECODE | {
    "memory": 1.17,
    "tile": 3000.0,
    "grouped": 1.2,
    "query": 0.6,
    "key": 8.0,
    "wide": 0.5,
    "block": 2.0,
    "keys_split": 140.0,
    "combine": 3300.0,
    "join": 4.0,
    "warm": 0.5,
}


@given(
    batch=st.integers(min_value=1, max_value=2048),
    keys=st.integers(min_value=1, max_value=131_072),
    heads=st.sampled_from(((32, 8), (64, 8), (8, 1), (16, 16))),
)
def test_decoding_has_no_steps(batch, keys, heads):
    """One sequence or one key more takes no less, and no more than three times its share.

    No less but for half a percent: with more sequences fewer have parts to be added.
    """

    def seconds(batch, keys):
        return decode(
            FITTED,
            machine=BIG,
            batch=batch,
            heads=heads[0],
            kv_heads=heads[1],
            keys=keys,
            kv_bytes=512.0,
        )

    now = seconds(batch, keys)
    assert now * (1 - 5e-3) <= seconds(batch, keys + 1) <= now * (1 + 3 / keys)
    assert now * (1 - 5e-3) <= seconds(batch + 1, keys) <= now * (1 + 3 / batch)


def test_arrays_give_what_scalars_give():
    m = np.array([1, 17, 300, 8192], dtype=float)
    many = forms.matmul(H100, BIG, 989e12, m=m, n=4096, k=m * 2, traffic_bytes=m * 1e5)
    for i, one in enumerate(m.tolist()):
        single = forms.matmul(
            H100, BIG, 989e12, m=int(one), n=4096, k=int(2 * one), traffic_bytes=one * 1e5
        )
        assert many[i] == pytest.approx(single, rel=1e-12)
    keys = np.array([1.0, 100.0, 5000.0])
    streamed = decode({**DECODE, "keys_split": 10, "combine": 3e9}, keys=keys, batch=1)
    for i, one in enumerate(keys.tolist()):
        single = decode({**DECODE, "keys_split": 10, "combine": 3e9}, keys=int(one), batch=1)
        assert streamed[i] == pytest.approx(single, rel=1e-12)
