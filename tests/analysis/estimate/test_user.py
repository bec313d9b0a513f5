"""A user's own calibration: what is refused and why, what is kept, and that it is used."""

import math
import re

import pytest

import gambrel
from gambrel.analysis.estimate import Estimator, packaged, store, user
from gambrel.analysis.roofs import roofs_of
from gambrel.analysis.scopes import bound_op
from gambrel.cli import run
from gambrel.device import catalog
from gambrel.errors import FileFormatError, InputError
from gambrel.ops import cost
from tests.analysis.estimate import views

HEADER = "device,op,dtype,m,n,k,bytes,us"
DEVICE = catalog.load("h100-sxm5-80gb")
LAYERS = ((4096, 4096), (14336, 4096), (512, 8192))
SHAPES = [(m, n, k) for m in (1, 16, 128, 1024, 8192) for n, k in LAYERS]


def slow(m, n, k):
    """A machine of 6 µs launches and 400 TFLOP/s or 2 TB/s, whichever is slower, in µs."""
    return 6 + max(2 * m * n * k / 400e12, 2 * (m * k + n * k + m * n) / 2e12) * 1e6


def rows(shapes=SHAPES, time=slow, device="h100-sxm5-80gb", repeat=1):
    return [f"{device},matmul,fp16,{m},{n},{k},,{time(m, n, k):.4g}" for m, n, k in shapes] * repeat


def write(folder, lines, header=HEADER):
    path = folder / "measured.csv"
    path.write_text("\n".join([header, *lines]) + "\n")
    return path


def fit(path, device=DEVICE):
    return user.fit(path, user.read(path, device), device, packaged())


def expect(view, calibration):
    roofs = roofs_of(DEVICE)
    priced = cost(view)
    bound = bound_op(priced, roofs).roofline_time_s
    return Estimator(roofs, calibration).estimate(view, priced, bound)


def test_measurements_change_the_expected_time(tmp_path):
    sets = fit(write(tmp_path, rows()))
    store.save("lab", sets, tmp_path / "kept")
    calibration = store.load(tmp_path / "kept")
    view = views.matmul(2048, 8192, 8192)  # not among the measured shapes
    before, after = expect(view, None), expect(view, calibration)
    truth = slow(2048, 8192, 8192) * 1e-6
    assert abs(math.log(before.value / truth)) > 0.3
    assert after.value == pytest.approx(truth, rel=0.2)
    assert after.low <= truth <= after.high
    assert after.confidence == "medium"  # 15 points
    assert after.reason == "15 measurements of your own"


def test_many_points_are_certain(tmp_path):
    (found,) = fit(write(tmp_path, rows(repeat=2)))
    assert (found.points, found.confidence) == (30, "high")


def test_own_constants_are_lent_to_kin(tmp_path):
    store.save("lab", fit(write(tmp_path, rows(repeat=2))), tmp_path / "kept")
    h200 = roofs_of(catalog.load("h200-sxm-141gb"))
    view = views.matmul(2048, 8192, 8192)
    found = Estimator(h200, store.load(tmp_path / "kept")).estimate(view, cost(view), 1e-6)
    assert found.confidence == "medium"
    assert found.reason.startswith("own constants of h100-sxm5-80gb")


def test_copies_calibrate_streams(tmp_path):
    moved = (1e6, 1e7, 1e8, 1e9, 4e9)  # 10 µs and 1 TB/s
    lines = [f"h100-sxm5-80gb,copy,fp16,,,,{b},{10 + b / 1e6:.5g}" for b in moved]
    (found,) = fit(write(tmp_path, lines))
    assert (found.form, found.formats) == ("stream", ("any",))
    sets = (found, *packaged().sets)
    calibration = type(packaged())(source={}, kin=packaged().kin, sets=sets)
    view = views.elementwise(10**9)  # 4 GB
    assert expect(view, calibration).value == pytest.approx(4.01e-3, rel=0.1)


def refusal(path, device=DEVICE):
    with pytest.raises(FileFormatError) as caught:
        fit(path, device)
    return str(caught.value)


def test_missing_columns(tmp_path):
    text = refusal(write(tmp_path, [], "device,op,dtype,m,n,us"))
    assert "row 1: missing column(s) k, bytes; needed are" in text
    text = refusal(write(tmp_path, [], "device,op,dtype,m,n,k,bytes"))
    assert "row 1: one column of times is needed, named us, ms or s; found none." in text
    text = refusal(write(tmp_path, [], "device,op,dtype,m,n,k,bytes,us,ms"))
    assert "found us, ms." in text


def test_seconds_where_microseconds_are_meant(tmp_path):
    lines = rows(time=lambda m, n, k: slow(m, n, k) * 1e-6)
    text = refusal(write(tmp_path, lines))
    assert "row 2: " in text
    assert "times less than the bound" in text
    assert text.endswith("which no run beats; is the column in another unit?")


def test_microseconds_in_a_column_of_seconds(tmp_path):
    text = refusal(write(tmp_path, rows(), "device,op,dtype,m,n,k,bytes,s"))
    assert "row 2: " in text
    assert "times what is expected" in text


def test_one_impossible_time_refuses_the_file(tmp_path):
    lines = rows()
    # 8192 · 14336 · 4096 · 2 FLOP at 989.4e12 FLOP/s are 972 µs; 400 µs are 2.4 times less.
    lines[13] = "h100-sxm5-80gb,matmul,fp16,8192,14336,4096,,400"
    assert "row 15: 0.0004 s is 2 times less than the bound of 0.000972 s" in refusal(
        write(tmp_path, lines)
    )
    lines[13] = lines[13].replace(",400", ",500")  # less than the bound, within measuring error
    assert fit(write(tmp_path, lines))


def test_too_few_points(tmp_path):
    text = refusal(write(tmp_path, rows(SHAPES[:4])))
    assert "row 2: 4 point(s) of matmul in fp16 are too few; 5 are needed" in text
    assert refusal(write(tmp_path, [])).endswith("holds no measurements.")


def test_another_device(tmp_path):
    text = refusal(write(tmp_path, rows(device="NVIDIA L4")))
    assert "row 2: measured on 'NVIDIA L4', not on h100-sxm5-80gb; choose with --device." in text
    mixed = [*rows(), *rows(SHAPES[:1], device="a100-sxm4-80gb")]
    assert "row 17: measured on 'a100-sxm4-80gb'" in refusal(write(tmp_path, mixed))
    assert fit(write(tmp_path, rows(device="NVIDIA H100 80GB HBM3")))


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("h100-sxm5-80gb,conv,fp16,1,1,1,,9", "op 'conv' is unknown; use matmul or copy."),
        ("h100-sxm5-80gb,matmul,fp17,1,1,1,,9", "unknown precision 'fp17'"),
        ("h100-sxm5-80gb,matmul,fp16,0,1,1,,9", "m is '0', not a positive number."),
        ("h100-sxm5-80gb,matmul,fp16,1,1,1,,", "us is '', not a positive number."),
        ("h100-sxm5-80gb,matmul,fp16,1,1,1,,nan", "us is 'nan', not a positive number."),
        ("h100-sxm5-80gb,copy,fp16,,,,-4,9", "bytes is '-4', not a positive number."),
        ("h100-sxm5-80gb,matmul,fp16,1", "n is '', not a positive number."),
    ],
)
def test_broken_rows(tmp_path, line, reason):
    text = refusal(write(tmp_path, [*rows(), line]))
    assert "row 17: " in text
    assert reason in text


def test_broken_files(tmp_path):
    assert "cannot read" in refusal(tmp_path / "absent.csv")
    path = tmp_path / "binary.csv"
    path.write_bytes(b"\xff\xfe\x00\x9f" * 10)
    assert "is not a CSV file of measurements: it is not text" in refusal(path)
    (tmp_path / "empty.csv").write_text("")
    assert "row 1: missing column(s) device" in refusal(tmp_path / "empty.csv")


def test_store_refuses_odd_names_and_broken_files(tmp_path):
    with pytest.raises(InputError, match=r"'\.\./x' is no name for a calibration"):
        store.save("../x", (), tmp_path)
    assert store.load(tmp_path / "absent") is None
    assert store.load(tmp_path) is None
    (tmp_path / "bad.json").write_text("[{}]")
    with pytest.raises(
        FileFormatError, match=r"cannot use the calibration .*bad\.json: Object missing"
    ):
        store.load(tmp_path)


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_command_stores_and_analyses_use_it(home, capsys):
    path = write(home, rows(device="h100"))
    assert run(["calibrate", str(path), "--name", "lab"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"h100-sxm5-80gb +matmul +fp16 +15 .* medium$", out, re.MULTILINE)
    assert (home / "data/gambrel/calibration/lab.json").is_file()
    analysis = gambrel.analyze("bert-base", "h100", precision="fp16")
    products = [op for op in analysis.ops if op.kind == "matmul"]
    assert {op.measures.expected_time_s.reason for op in products} == {
        "15 measurements of your own"
    }


def test_refused_file_stores_nothing(home, capsys):
    path = write(home, [*rows(), "h100-sxm5-80gb,matmul,fp16,8192,14336,4096,,1"])
    assert run(["calibrate", str(path), "--device", "h100"]) == 2
    error = capsys.readouterr().err
    assert error.startswith("gambrel: ")
    assert "row 17: 1e-06 s is 972 times less than the bound" in error
    assert not (home / "data").exists()


def test_of_many_points_a_sample_is_fitted_and_every_row_is_checked(tmp_path, monkeypatch):
    monkeypatch.setattr(user, "MOST_POINTS", 50)
    head = "device,op,dtype,m,n,k,bytes,us\n"
    rows = [f"h100,copy,,,,,{i * 1000 + 1000},{i + 1}\n" for i in range(400)]
    path = tmp_path / "many.csv"
    path.write_text(head + "".join(rows).replace("copy,,", "copy,fp32,"))
    points = user.read(path, catalog.load("h100-sxm5-80gb"))
    assert len(points) == 50
    assert len({p.row for p in points}) == 50
    # Every row is as likely: the middle of the sample is near the middle of the file.
    assert 120 < sum(p.row for p in points) / 50 < 280
    path.write_text(path.read_text() + "h100,copy,fp32,,,,1000,-1\n")
    with pytest.raises(FileFormatError, match="row 402: us is '-1'"):
        user.read(path, catalog.load("h100-sxm5-80gb"))
