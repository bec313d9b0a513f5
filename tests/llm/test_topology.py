"""Nodes, their links and what spans them."""

from __future__ import annotations

import pytest

import gambrel
from gambrel.device.catalog import list_devices
from gambrel.device.lookup import find
from gambrel.device.roofs import network_link, peer_link
from gambrel.errors import DeviceError, FileFormatError, InputError, UnknownNameError
from gambrel.llm.collectives import nodes_of
from gambrel.llm.sharding import Sharding
from gambrel.llm.topology import Topology, _shipped, from_table, load, topology_for

H200 = find("h200").device


def brute_nodes(stride, size, per_node):
    """Numbers the devices and counts the nodes of the group that holds device 0."""
    return len({i * stride // per_node for i in range(size)})


@pytest.mark.parametrize("per_node", [1, 2, 4, 8])
@pytest.mark.parametrize("stride", [1, 2, 4, 8, 16])
@pytest.mark.parametrize("size", [1, 2, 4, 8, 16])
def test_nodes_of_a_group(stride, size, per_node):
    node = Topology(devices_per_node=per_node)
    assert node.nodes(stride, size) == brute_nodes(stride, size, per_node)


def test_tensor_groups_stay_within_a_node_and_replicas_do_not():
    layout, node = Sharding(tensor=8, pipeline=2, data=2), Topology(devices_per_node=8)
    assert nodes_of("tensor", layout, node) == 1
    assert nodes_of("pipeline", layout, node) == 2
    assert nodes_of("data", layout, node) == 2
    assert nodes_of("tensor", Sharding(tensor=16), node) == 2
    within = Sharding(tensor=2, pipeline=4)
    assert nodes_of("pipeline", within, node) == 1


def test_shipped_nodes_name_devices_of_the_catalog_and_sources():
    known = {device.id for device in list_devices()}
    for node, devices, _ in _shipped():
        assert set(devices) <= known
        assert node.source
        for name in devices:
            node.place(find(name).device, 2)  # has the link that it names


def test_a_node_of_eight_is_assumed_for_hgx():
    node = topology_for(H200)
    assert (node.devices_per_node, node.in_switch) == (8, True)
    placed = node.place(H200, 8)
    assert peer_link(placed).byte_per_s_per_direction == 450e9
    assert network_link(placed) is None


def test_a_refusal_names_a_node_that_would_do():
    h100 = find("h100").device
    with pytest.raises(DeviceError) as refusal:
        topology_for(h100).place(h100, 16)
    name = str(refusal.value).partition("--topology ")[2].partition(",")[0]
    assert name == "dgx-h100"
    assert network_link(topology_for(h100, name).place(h100, 16)) is not None


def test_more_devices_than_a_node_need_a_network():
    with pytest.raises(DeviceError, match=r"16 devices are more than the 8 of a node .*--topology"):
        topology_for(H200).place(H200, 16)
    placed = topology_for(H200, "dgx-h200").place(H200, 16)
    assert network_link(placed).byte_per_s_per_direction == 50e9  # 400 Gb/s / 8
    assert peer_link(placed).name == "nvlink"


def test_a_device_without_a_known_node_says_so():
    assert "is not known" in topology_for(find("tpu-v5e").device).note


def test_cards_behind_switches_exchange_faster_than_through_the_host():
    rates = {}
    for name in (None, "pcie", "pcie-through-host"):
        plan = gambrel.serve_plan(
            "llama-3.1-70b",
            "l40s",
            input=512,
            output=512,
            precision=["fp8"],
            tensor=8,
            topology=name,
            concurrency=64,
        )
        rates[name] = plan.best[0].point.tokens_per_s
    assert rates[None] == rates["pcie"] > 2 * rates["pcie-through-host"]


def test_the_share_of_a_ring_is_for_more_than_two():
    two, four = (
        gambrel.serve_plan(
            "llama-3.1-8b",
            "l40s",
            input=512,
            output=512,
            tensor=tensor,
            max_devices=4,
            topology=Topology(devices_per_node=8, link="pcie", ring_share=share),
            concurrency=64,
        )
        .best[0]
        .point.tpot_s
        for tensor, share in ((2, 0.01), (4, 0.01))
    )
    assert four > 5 * two
    with pytest.raises(InputError, match=r"ring_share=1.5 is no share"):
        Topology(ring_share=1.5)


def test_a_named_node_of_other_devices_is_refused():
    with pytest.raises(InputError, match="'dgx-h100' is made of h100-sxm5-80gb, not of h200"):
        topology_for(H200, "dgx-h100")
    with pytest.raises(UnknownNameError, match=r"unknown topology 'nowhere'; closest: hgx"):
        topology_for(H200, "nowhere")


def test_a_file_of_ones_own(tmp_path):
    path = tmp_path / "lab.toml"
    path.write_text(
        "devices_per_node = 4\nlink_byte_per_s = 1e11\nnetwork_bit_per_s = 1e11\nsource = 'ours'\n"
    )
    node = topology_for(H200, path)
    assert (node.name, node.network_byte_per_s) == ("lab", 12.5e9)
    placed = node.place(H200, 8)
    assert peer_link(placed).byte_per_s_per_direction == 1e11
    assert peer_link(placed).source.title == "ours"


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("devices_per_node = 0", "devices_per_node=0 must be above 0"),
        ("devices_per_node = 'eight'", "Expected `int"),
        ("gpus = 8", "unknown field 'gpus'"),
        ("network_bit_per_s = '400G'", "a number of bits per second"),
        ("network_bit_per_s = 1\nnetwork_byte_per_s = 1", "not both"),
        ("network_byte_per_s = -1", "must be above 0"),
        ("network_latency_s = -1", "must be 0 or more"),
        ("all_reduce = 'star'", "use ring, tree, in_switch"),
        ("mesh_links = nan", "Expected `int"),
        ("devices_per_node", "not a TOML file"),
    ],
)
def test_broken_files(tmp_path, text, sentence):
    path = tmp_path / "node.toml"
    path.write_text(text)
    with pytest.raises(FileFormatError, match=sentence):
        load(path)


def test_missing_and_huge_files(tmp_path):
    with pytest.raises(FileFormatError, match="No such file"):
        load(tmp_path / "none.toml")
    huge = tmp_path / "huge.toml"
    huge.write_text("#" * 200_000)
    with pytest.raises(FileFormatError, match="larger than"):
        load(huge)


def test_a_link_that_the_device_lacks():
    node = from_table({"devices_per_node": 2, "link": "warp"})
    with pytest.raises(DeviceError, match=r"has no link 'warp' \(it has nvlink, pcie\)"):
        node.place(H200, 2)


def test_a_mesh_gives_a_pair_one_link():
    # MI300X: 448 GB/s one way over seven links, 64 GB/s each.
    device = find("mi300x").device
    node = topology_for(device)
    rates = [
        peer_link(node.place(device, 8, group)).byte_per_s_per_direction for group in (2, 4, 8)
    ]
    assert rates == [64e9, 192e9, 448e9]
