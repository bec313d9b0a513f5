"""Runs: serial, resumed, refused; and what a `kill -9` of each part of a run leaves."""

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from gambrel.engine import parts
from gambrel.engine.executors import client_of
from gambrel.engine.folder import PartFolder
from gambrel.engine.pareto import Objective
from gambrel.engine.run import RunRequest, folder_identity, run
from gambrel.engine.save import save
from gambrel.engine.tables import plain
from gambrel.engine.work import MOST_PARTITIONS, partitions_of
from gambrel.errors import FileFormatError, InputError
from tests.engine.small import FIELDS, Small

ROOT = Path(__file__).parents[2]
#: Longest that anything here may take before it counts as stuck.
PATIENCE_S = 120


def folder_of(work, path, form=parts.ARRAYS, request=None):
    identity = folder_identity(work, request or RunRequest())
    found = PartFolder(path=path, form=form, fields=FIELDS, identity=identity)
    found.begin({})
    return found


def contents(folder, partitions):
    return [{n: plain(v) for n, v in folder.read(part).items()} for part in partitions]


def same_as_serial(work, folder):
    serial = run(work).table
    read = contents(folder, partitions_of(work, ""))
    for name, values in serial.items():
        assert [v for part in read for v in part[name]] == plain(values), name


def test_partitions_are_the_same_in_every_run_and_differ_by_question():
    work = Small()
    assert partitions_of(work, "") == partitions_of(Small(), "")
    keys = {p.key for p in partitions_of(work, "")}
    assert len(keys) == 10
    assert not keys & {p.key for p in partitions_of(Small(name="other"), "")}
    assert not keys & {p.key for p in partitions_of(work, "fits")}


def test_ten_million_points_are_at_most_three_thousand_partitions():
    assert len(partitions_of(Small(points=10**7, partition_points=512), "")) <= MOST_PARTITIONS


def test_processes_give_the_same_bits_as_one():
    pytest.importorskip("distributed")
    serial = run(Small(points=200)).table
    spread = run(Small(points=200), RunRequest(jobs=2)).table
    assert {n: plain(v) for n, v in spread.items()} == {n: plain(v) for n, v in serial.items()}


def test_runs_at_the_same_time_on_one_scheduler_are_apart():
    pytest.importorskip("distributed")
    # Dask treats what has more than 100 kB in ways of its own.
    works = [Small(points=n, name=str(n), ballast=bytes(200_000)) for n in (400, 300)]
    with client_of(2) as client, ThreadPoolExecutor(2) as pool:
        tables = list(pool.map(lambda w: run(w, RunRequest(scheduler=client)).table, works))
    for work, table in zip(works, tables, strict=True):
        assert np.array_equal(table["index"], np.arange(work.points))


@pytest.mark.parametrize("form", [parts.ARRAYS, parts.PARQUET])
def test_a_run_goes_on_from_what_is_there(tmp_path, form):
    work = Small(log=str(tmp_path / "log"))
    folder = folder_of(work, tmp_path / "run", form)
    partitions = partitions_of(work, "")
    run(work, folder=folder)
    same_as_serial(Small(), folder)
    before = {p.name: p.read_bytes() for p in folder.path.glob("part-*")}
    folder.file(partitions[3]).unlink()
    half = folder.file(partitions[5])
    half.write_bytes(half.read_bytes()[:-40])  # as a copy that was interrupted leaves it
    Path(work.log).unlink()
    found = run(work, folder=folder)
    assert found.resumed == 80
    assert sorted(line.split()[0] for line in Path(work.log).read_text().splitlines()) == [
        "30",
        "50",
    ]
    assert {p.name: p.read_bytes() for p in folder.path.glob("part-*")} == before


def test_units_are_in_the_schema(tmp_path):
    import pyarrow.parquet as pq

    save(Small(), RunRequest(), tmp_path / "points.parquet")
    table = pq.read_table(tmp_path / "points.parquet")
    assert table.num_rows == 100
    assert table.schema.field("latency_s").metadata[b"unit"] == b"s"
    assert table.column("latency_s").null_count == 10
    first = pq.ParquetFile(next((tmp_path / "points.parquet").glob("part-*")))
    assert first.metadata.row_group(0).column(1).compression == "ZSTD"


def test_text_files_are_complete_or_absent(tmp_path):
    target = tmp_path / "points.csv"
    save(Small(points=25), RunRequest(where="index != 3"), target)
    lines = target.read_text().splitlines()
    assert lines[0] == "kind,index,latency_s,power_w,fits"
    assert lines[1] == "even,0,0.001,10.0,true"
    assert len(lines) == 25
    save(Small(points=25), RunRequest(), tmp_path / "points.jsonl")
    assert (tmp_path / "points.jsonl").read_text().splitlines()[3] == (
        '{"kind": "odd", "index": 3, "latency_s": null, "power_w": 13.0, "fits": true}'
    )
    assert sorted(p.name for p in tmp_path.iterdir()) == ["points.csv", "points.jsonl"]


def test_a_front_of_partitions_is_that_of_all():
    goals = (Objective(column="latency_s"), Objective(column="power_w", largest=True))
    whole = run(Small(partition_points=100), RunRequest(pareto=goals)).best
    parted = run(Small(partition_points=7), RunRequest(pareto=goals)).best
    assert plain(whole["index"]) == plain(parted["index"])
    only = run(Small(), RunRequest(pareto=goals, fronts_only=True))
    assert plain(only.best["index"]) == plain(whole["index"])
    assert only.rows < 100


def test_folders_that_are_refused(tmp_path):
    work = Small()
    folder = folder_of(work, tmp_path / "run")
    with folder.locked(), pytest.raises(InputError, match="another run is writing"):
        run(work, folder=folder)
    with pytest.raises(InputError, match="holds another sweep"):
        folder_of(Small(points=50), tmp_path / "run")
    manifest = tmp_path / "run" / "_gambrel.json"
    manifest.write_text(manifest.read_text().replace('"version": 1', '"version": 99'))
    with pytest.raises(FileFormatError, match="version of gambrel"):
        folder_of(work, tmp_path / "run")
    manifest.write_text("{")
    with pytest.raises(FileFormatError, match="is broken"):
        folder_of(work, tmp_path / "run")
    (tmp_path / "own").mkdir()
    (tmp_path / "own" / "thesis.txt").write_text("years of work")
    with pytest.raises(InputError, match="a folder of other files"):
        folder_of(work, tmp_path / "own")
    with pytest.raises(InputError, match="no folder"):
        save(work, RunRequest(), tmp_path / "absent" / "points.csv")


def test_a_full_disk_keeps_what_is_finished(tmp_path):
    resource = pytest.importorskip("resource")
    code = (
        "import resource, signal, sys; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path\n"
        "from tests.engine.small import Small\n"
        "from gambrel.engine.run import RunRequest\n"
        "from gambrel.engine.save import save\n"
        "from gambrel.errors import InputError\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (1500, 1500))\n"
        "try: save(Small(), RunRequest(), Path(sys.argv[2]))\n"
        "except InputError as error: print(error); sys.exit(2)\n"
    )
    assert resource is not None
    found = subprocess.run(
        [sys.executable, "-c", code, str(ROOT), str(tmp_path / "points.csv")],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE_S,
    )
    assert found.returncode == 2, found.stderr
    assert "run the same command again" in found.stdout
    assert not list(tmp_path.glob("**/.gambrel-*"))


RUN = """
import sys; sys.path.insert(0, sys.argv[1])
from pathlib import Path
from tests.engine.small import FIELDS, Small
from tests.engine.test_run import folder_of
from gambrel.engine.run import RunRequest, run
from gambrel.errors import InputError
if __name__ == "__main__":
    jobs, scheduler = int(sys.argv[4]), sys.argv[5] or None
    work = Small(pause_s=float(sys.argv[3]), log=sys.argv[2] + "/log")
    folder = folder_of(work, Path(sys.argv[2]) / "run")
    try: print(run(work, RunRequest(jobs=jobs, scheduler=scheduler), folder).resumed)
    except InputError as error: print(error); sys.exit(2)
"""


def started(tmp_path, pause_s, jobs=1, scheduler=""):
    script = tmp_path / "run_small.py"
    script.write_text(RUN)
    words = [sys.executable, str(script), str(ROOT), str(tmp_path), str(pause_s), str(jobs)]
    return subprocess.Popen(
        [*words, scheduler], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def log_of(tmp_path):
    path = tmp_path / "log"
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def wait_for(tmp_path, lines, process):
    began = time.monotonic()
    while len(log_of(tmp_path)) < lines:
        assert process.poll() is None, process.stdout.read()
        assert time.monotonic() - began < PATIENCE_S
        time.sleep(0.02)


def finished(process):
    said, _ = process.communicate(timeout=PATIENCE_S)
    return process.returncode, said


def check_whole(tmp_path, most):
    """All partitions are there once, and few were computed twice."""
    work = Small(pause_s=0.2, log=str(tmp_path / "log"))
    folder = folder_of(work, tmp_path / "run")
    assert len(list(folder.path.glob("part-*"))) == 10
    same_as_serial(Small(), folder)
    starts = [line[0] for line in log_of(tmp_path)]
    assert set(starts) == {str(10 * i) for i in range(10)}
    assert len(starts) <= 10 + most


def test_a_client_that_is_killed_goes_on(tmp_path):
    process = started(tmp_path, 0.2)
    wait_for(tmp_path, 4, process)
    process.kill()
    process.communicate()
    code, said = finished(started(tmp_path, 0.2))
    assert (code, int(said) >= 20) == (0, True), said
    check_whole(tmp_path, most=2)


@pytest.mark.slow
def test_a_worker_that_is_killed_loses_nothing(tmp_path):
    pytest.importorskip("distributed")
    process = started(tmp_path, 0.4, jobs=2)
    wait_for(tmp_path, 3, process)
    worker = int(log_of(tmp_path)[0][1])
    assert worker not in (process.pid, os.getpid())
    os.kill(worker, signal.SIGKILL)
    code, said = finished(process)
    assert code == 0, said
    check_whole(tmp_path, most=4)


@pytest.mark.slow
def test_a_scheduler_that_is_killed_loses_no_finished_partition(tmp_path):
    pytest.importorskip("distributed")
    file = tmp_path / "scheduler.json"
    base = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1"]
    scheduler = subprocess.Popen(
        [*base, "--port", "0", "--no-dashboard", "--scheduler-file", str(file)],
        stderr=subprocess.DEVNULL,
    )
    worker = subprocess.Popen(
        [
            *(sys.executable, "-m", "distributed.cli.dask_worker", "--scheduler-file", str(file)),
            *("--nthreads", "1", "--no-nanny", "--no-dashboard", "--death-timeout", "60"),
        ],
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{ROOT}"},
        cwd=tmp_path,
    )
    try:
        began = time.monotonic()
        while not file.exists() or not file.read_text():
            assert time.monotonic() - began < PATIENCE_S
            time.sleep(0.1)
        import json

        process = started(tmp_path, 0.4, scheduler=json.loads(file.read_text())["address"])
        wait_for(tmp_path, 3, process)
        scheduler.kill()
        code, said = finished(process)
        assert code == 2, said
        assert "went away" in said
        assert "run the same command again to go on from there" in said
        assert "run the same command again" in said
    finally:
        for one in (scheduler, worker):
            one.kill()
            one.wait()
    code, said = finished(started(tmp_path, 0.4))
    assert (code, int(said) >= 10) == (0, True), said
    check_whole(tmp_path, most=4)


def test_joblib_computes_the_same(monkeypatch):
    pytest.importorskip("joblib")
    found = run(Small(), RunRequest(jobs=2, scheduler="joblib:threading"))
    assert np.array_equal(found.table["index"], np.arange(100))
    with pytest.raises(InputError, match="joblib"):
        run(Small(), RunRequest(scheduler="joblib:abacus"))


def test_dask_through_joblib_computes_the_same():
    pytest.importorskip("joblib")
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=2, processes=False, dashboard_address=None
        ) as cluster,
        distributed.Client(cluster),
    ):
        found = run(Small(), RunRequest(jobs=2, scheduler="joblib:dask"))
    assert np.array_equal(found.table["index"], np.arange(100))


def test_a_backend_of_joblib_that_gives_results_together(tmp_path):
    """As Ray's does."""
    joblib = pytest.importorskip("joblib")
    from joblib._parallel_backends import ThreadingBackend

    class Together(ThreadingBackend):
        supports_return_generator = False

    joblib.register_parallel_backend("together", Together)
    work = Small(log=str(tmp_path / "log"))
    found = run(work, RunRequest(jobs=2, scheduler="joblib:together"))
    assert np.array_equal(found.table["index"], np.arange(100))
    with joblib.parallel_config(backend="together"):
        again = run(Small(), RunRequest(jobs=2, scheduler="joblib"))
    assert np.array_equal(again.table["index"], np.arange(100))
    assert len(log_of(tmp_path)) == 10


def test_a_scheduler_that_is_not_there():
    pytest.importorskip("distributed")
    with pytest.raises(InputError, match="no dask scheduler answers at tcp"):
        run(Small(), RunRequest(scheduler="tcp://127.0.0.1:9"))
