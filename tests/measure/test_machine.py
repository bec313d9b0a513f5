import pytest

from gambrel.measure import machine


def describe(root, caches, siblings="0"):
    for index, (level, kind, size, shared) in enumerate(caches):
        folder = root / "cpu0" / "cache" / f"index{index}"
        folder.mkdir(parents=True)
        values = {"level": level, "type": kind, "size": size, "shared_cpu_list": shared}
        for name, value in values.items():
            (folder / name).write_text(f"{value}\n")
    topology = root / "cpu0" / "topology"
    topology.mkdir(parents=True)
    (topology / "thread_siblings_list").write_text(siblings)


def test_caches_are_read_with_their_sharers_and_instructions_left_out(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_allowed", lambda: [0])
    describe(
        tmp_path,
        [
            (1, "Data", "48K", "0,4"),
            (1, "Instruction", "32K", "0,4"),
            (2, "Unified", "2048K", "0,4"),
            (3, "Unified", "32768K", "0-7"),
        ],
    )
    found = machine.this_machine(tmp_path).caches
    assert [(c.name, c.size_bytes, c.sharers) for c in found] == [
        ("L1", 49152, 2),
        ("L2", 2097152, 2),
        ("L3", 33554432, 8),
    ]


def test_one_thread_of_each_core_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(machine, "_allowed", lambda: [0, 1, 2, 3])
    for cpu, siblings in enumerate(["0,2", "1,3", "0,2", "1,3"]):
        folder = tmp_path / f"cpu{cpu}" / "topology"
        folder.mkdir(parents=True)
        (folder / "thread_siblings_list").write_text(siblings)
    assert machine.this_machine(tmp_path).cpus == (0, 1)


def test_what_the_system_does_not_say_is_unknown(tmp_path):
    assert machine.this_machine(tmp_path).caches == ()


@pytest.mark.parametrize("text", ["", "12", "twelve K", "0x30K"])
def test_a_cache_of_unreadable_size_is_left_out(tmp_path, monkeypatch, text):
    monkeypatch.setattr(machine, "_allowed", lambda: [0])
    describe(tmp_path, [(1, "Data", text, "0")])
    assert machine.this_machine(tmp_path).caches == ()


def test_this_machine_has_a_core_and_a_name():
    here = machine.this_machine()
    assert here.cpus
    assert here.name
    assert here.id.startswith("this-")
