"""Files of workloads: nothing lost, the same bytes, and a clear refusal of broken ones."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings

from gambrel.errors import FileFormatError, WorkloadError
from gambrel.workload import Op, Role, Symbol, Tensor, Workload, serialize
from gambrel.workload.serialize import dumps, load_workload, loads, save_workload

from .strategies import workloads


def example() -> Workload:
    return Workload(
        name="tiny",
        dtype="fp32",
        tensors=(
            Tensor(shape=("batch", 4), dtype="fp32", storage=0, role=Role.INPUT, name="x"),
            Tensor(shape=(4, 8), dtype="fp32", storage=1, role=Role.WEIGHT, name="fc.weight"),
            Tensor(shape=("batch", 8), dtype="fp32", storage=2),
        ),
        ops=(
            Op(
                kind="matmul",
                inputs=(0, 1),
                outputs=(2,),
                sizes={"m": "batch", "n": 8, "k": 4},
                attrs={"bias": False, "scale": 1.0, "limit": float("inf")},
                name="aten.mm",
                module="fc",
            ),
        ),
        outputs=(2,),
        symbols=(Symbol(name="batch", default=1),),
        origin="by hand",
    )


@settings(deadline=None)
@given(workloads())
def test_a_round_trip_loses_nothing(workload: Workload) -> None:
    back = loads(dumps(workload))
    assert back == workload
    # 1 == 1.0 == True: equality alone would not see a changed type.
    assert [repr(sorted(o.attrs.items())) for o in back.ops] == [
        repr(sorted(o.attrs.items())) for o in workload.ops
    ]


@settings(deadline=None)
@given(workloads())
def test_the_same_workload_gives_the_same_bytes(workload: Workload) -> None:
    assert dumps(workload) == dumps(loads(dumps(workload)))


def test_a_file_carries_no_time_stamp() -> None:
    assert dumps(example())[4:8] == b"\0\0\0\0"  # RFC 1952: MTIME


def test_repeated_layers_cost_next_to_nothing() -> None:
    layer = example()
    many = 1000
    tensors = tuple(
        Tensor(shape=t.shape, dtype=t.dtype, storage=3 * i + t.storage, role=t.role)
        for i in range(many)
        for t in layer.tensors
    )
    ops = tuple(
        Op(kind="matmul", inputs=(3 * i, 3 * i + 1), outputs=(3 * i + 2,), sizes={"m": 1})
        for i in range(many)
    )
    deep = Workload(name="deep", dtype="fp32", tensors=tensors, ops=ops)
    assert len(dumps(deep)) < 1000  # less than a byte an op


def test_save_and_load_workload(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json.gz"
    save_workload(example(), path)
    assert load_workload(path) == example()
    assert list(tmp_path.iterdir()) == [path]  # nothing left beside


def test_plain_json_is_read_as_well(tmp_path: Path) -> None:
    path = tmp_path / "tiny.json"
    path.write_bytes(gzip.decompress(dumps(example())))
    assert load_workload(path) == example()


def test_an_op_that_refers_to_no_tensor_is_not_written() -> None:
    broken = Workload(name="w", dtype="fp32", tensors=(), ops=(Op(kind="view", inputs=(0,)),))
    with pytest.raises(WorkloadError, match="an op refers to tensor 0 of 0"):
        dumps(broken)


@pytest.mark.parametrize("keep", [2, 10, 100, -9, -1])
def test_a_truncated_file_is_refused(keep: int) -> None:
    with pytest.raises(FileFormatError, match=r"^model\.json\.gz is truncated\.$"):
        loads(dumps(example())[:keep], "model.json.gz")


def test_a_damaged_file_is_refused() -> None:
    data = bytearray(dumps(example()))
    data[40] ^= 0xFF
    with pytest.raises(FileFormatError, match=r"is broken|no gambrel workload"):
        loads(bytes(data))


def test_a_decompression_bomb_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "MAX_TEXT_BYTES", 1 << 20)
    bomb = gzip.compress(b"0" * (1 << 20) + b"0")
    with pytest.raises(FileFormatError, match="expands to more than 1,048,576 bytes"):
        loads(bomb, "bomb.gz")


def test_a_huge_file_is_not_even_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serialize, "MAX_FILE_BYTES", 10)
    path = tmp_path / "big.json"
    path.write_bytes(b"{" * 11)
    with pytest.raises(FileFormatError, match=r"is not a workload file: larger than 10 bytes"):
        load_workload(path)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "is no gambrel workload file"),
        (b"[]", "is no gambrel workload file"),
        (b"PK\x03\x04", "is no gambrel workload file"),
        (b"{}", "its format is not 'gambrel-workload'"),
        (b'{"format": "onnx"}', "its format is not 'gambrel-workload'"),
        (b'{"format": "gambrel-workload", "schema_version": 99}', "has schema version 99"),
        (b'{"format": "gambrel-workload", "schema_version": 1}', "missing required field"),
    ],
)
def test_a_file_of_another_kind_is_refused(data: bytes, says: str) -> None:
    with pytest.raises(FileFormatError, match=says):
        loads(data, "x.json")


@pytest.mark.parametrize(
    ("field", "value", "says"),
    [
        ("op_inputs", [[7, 1]], "refers to a tensor that it does not have"),
        ("op_inputs", [[-1, 1]], "refers to a tensor that it does not have"),
        ("outputs", [3], "refers to a tensor that it does not have"),
        ("op_template", [1], "refers to a op template"),
        ("tensor_name", [0, 1, 99], "refers to a text that it does not have"),
        ("op_module", [], "its columns differ in length"),
        ("op_module", ["fc"], "Expected `int`"),
        ("op_templates", [["matmul", "", {}, {"a": {"float": "1"}}, "forward", 1]], "no number"),
    ],
)
def test_an_inconsistent_file_is_refused(field: str, value: object, says: str) -> None:
    content = json.loads(gzip.decompress(dumps(example())))
    content[field] = value
    with pytest.raises(FileFormatError, match=says):
        loads(json.dumps(content).encode())


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(FileFormatError, match=r"cannot read .*none\.json: No such file"):
        load_workload(tmp_path / "none.json")
