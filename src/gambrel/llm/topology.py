"""Nodes and what joins their devices: read from a small TOML, never invented.

name = "my-cluster"
devices_per_node = 8
link = "nvlink"              # a link of the device's own entry; its fastest peer link if absent
link_byte_per_s = 450e9      # or a number of your own, a device's share, one way
in_switch = true             # the switch adds (NVLink SHARP)
all_reduce = "tree"          # ring, tree or in_switch; what the node allows if absent
mesh_links = 7               # devices joined pairwise: two of them use one link in seven
ring_share = 0.5             # of the link, attained by collectives of more than two devices
network_bit_per_s = 400e9    # between nodes, a device's share, one way (or network_byte_per_s)
network_latency_s = 5e-6     # of a message between nodes; 0 if absent
source = "where this is from"
"""

from __future__ import annotations

import tomllib
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import msgspec

from gambrel.device.model import Device, Link, Source
from gambrel.device.roofs import NETWORK, peer_link
from gambrel.errors import DeviceError, FileFormatError, InputError, UnknownNameError
from gambrel.fileio import check_name, path_of, read_record, read_toml
from gambrel.ops.collective import ALGORITHMS

_MAX_BYTES: Final = 100_000
_SHIPPED: Final = Path(__file__).parent / "nodes.toml"
_EXAMPLE: Final = 'write devices_per_node = 8, network_bit_per_s = 400e9 and source = "..."'


class Topology(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node and the network between nodes.

    Attributes:
        name: For reports.
        devices_per_node: Devices that the link joins; None: as many as there are.
        link: Name of that link among the device's own; empty for its fastest one to peers.
        link_byte_per_s: Its bandwidth one way where the user gives it.
        in_switch: Whether the switch reduces (NVLink SHARP).
        all_reduce: Algorithm of all-reduces: ``ring``, ``tree`` or ``in_switch``; empty: in the
            switch where it can, rings elsewhere.
        mesh_links: Links of a device in a node whose devices are joined pairwise; 0 for a switch,
            through which a device reaches any other with its whole bandwidth.
        ring_share: Share of the link that collectives of more than two devices attain in such a
            node, for expected times; None: as measured on the device or its kin.
        network_byte_per_s: A device's share of the network between nodes, one way; None unknown.
        network_latency_s: Of one message between nodes.
        source: Where the numbers come from.
        url: Address of the source.
        note: One sentence for the reader, where something had to be assumed.
    """

    name: str = "node"
    devices_per_node: int | None = None
    link: str = ""
    link_byte_per_s: float | None = None
    in_switch: bool = False
    all_reduce: str = ""
    mesh_links: int = 0
    ring_share: float | None = None
    network_byte_per_s: float | None = None
    network_latency_s: float = 0.0
    source: str = ""
    url: str = ""
    note: str = ""

    def __post_init__(self) -> None:
        positive = ("devices_per_node", "link_byte_per_s", "network_byte_per_s")
        for field in positive:
            value = getattr(self, field)
            if value is not None and not 0 < value < 1e18:
                raise InputError(f"topology {self.name!r}: {field}={value!r} must be above 0.")
        if self.ring_share is not None and not 0 < self.ring_share <= 1:
            raise InputError(
                f"topology {self.name!r}: ring_share={self.ring_share!r} is no share from 0 to 1."
            )
        if self.all_reduce and self.all_reduce not in ALGORITHMS:
            raise InputError(
                f"topology {self.name!r}: all_reduce={self.all_reduce!r}; use "
                f"{', '.join(ALGORITHMS)}."
            )
        for field in ("mesh_links", "network_latency_s"):
            value = getattr(self, field)
            if not 0 <= value < 1e6:
                raise InputError(f"topology {self.name!r}: {field}={value!r} must be 0 or more.")

    def nodes(self, stride: int, size: int) -> int:
        """Nodes that a group of ``size`` devices spans when its members stand ``stride`` apart.

        Devices are numbered through; the innermost degree of parallelism has stride 1.
        """
        if self.devices_per_node is None or size == 1:
            return 1
        within = max(1, min(size, self.devices_per_node // stride))
        return -(-size // within)

    def place(self, device: Device, devices: int, group: int | None = None) -> Device:
        """The device with the links that ``devices`` of it use: that of its node and the network.

        Args:
            device: The device.
            devices: All of them.
            group: Devices that exchange most, of which a mesh has few links; None: all.

        Raises:
            DeviceError: The device has no such link, or several nodes are needed and the network
                between them is not known.
        """
        if devices == 1:
            return device
        links = [self._within(device)] if self.devices_per_node != 1 else []
        links = [self._between_pairs(link, group or devices) for link in links]
        if self.devices_per_node is not None and devices > self.devices_per_node:
            links.append(self._between(device, devices))
        used = {link.name for link in links}
        hosts = [x for x in device.links if x.name in _HOSTS - used]
        return msgspec.structs.replace(device, links=(*links, *hosts))

    def _within(self, device: Device) -> Link:
        found = next((x for x in device.links if x.name == self.link), None)
        if self.link and found is None and self.link_byte_per_s is None:
            have = ", ".join(x.name for x in device.links) or "none"
            raise DeviceError(
                f"topology {self.name!r}: {device.id} has no link {self.link!r} (it has {have}); "
                "give link_byte_per_s."
            )
        if self.link_byte_per_s is not None:
            return Link(
                name=self.link or "link",
                byte_per_s=self.link_byte_per_s,
                direction="per direction",
                source=self._source,
            )
        found = found or peer_link(device)
        if found is None or found.byte_per_s_per_direction is None:
            raise DeviceError(
                f"{device.id} publishes no bandwidth to other devices; give one with --topology "
                "FILE.toml: devices_per_node = 8, link_byte_per_s = ..."
            )
        return found

    def _between_pairs(self, link: Link, group: int) -> Link:
        """In a mesh a device reaches each of the others over one of its links."""
        rate = link.byte_per_s_per_direction
        if not self.mesh_links or rate is None or group - 1 >= self.mesh_links:
            return link
        return msgspec.structs.replace(
            link,
            byte_per_s=rate * (group - 1) / self.mesh_links,
            direction="per direction",
            note=f"{group - 1} of {self.mesh_links} links, in a group of {group}",
        )

    def _between(self, device: Device, devices: int) -> Link:
        if self.network_byte_per_s is None:
            raise DeviceError(
                f"{devices} devices are more than the {self.devices_per_node} of a node "
                f"({self.name}) of {device.id}, and the network between nodes is not known; "
                f"{_known_network(device)}give it with --topology node.toml: {_EXAMPLE}."
            )
        return Link(
            name=NETWORK,
            byte_per_s=self.network_byte_per_s,
            direction="per direction",
            source=self._source,
        )

    @property
    def _source(self) -> Source:
        return Source(title=self.source or f"given in topology {self.name!r}", url=self.url)


def _known_network(device: Device) -> str:
    """What names a node of the device whose network is known; empty where there is none."""
    known = [
        node.name
        for node, devices, _ in _shipped()
        if device.id in devices and node.network_byte_per_s is not None
    ]
    return f"take that of a known node with --topology {' or '.join(known)}, or " if known else ""


_HOSTS: Final = frozenset({"pcie", "usb3", "nvlink-c2c"})


def topology_for(device: Device, given: str | Path | Topology | None = None) -> Topology:
    """The topology to use for a device.

    Args:
        device: The device.
        given: A topology, a TOML file, or the name of a shipped node; None for the usual node of
            the device: how many of them their link joins.

    Raises:
        InputError: No such node, or it is made of other devices.
        FileFormatError: The file cannot be read.
    """
    if isinstance(given, Topology):
        return given
    if given is not None:
        return _given(device, given)
    for node, devices, by_name in _shipped():
        if device.id in devices and not by_name:
            return node
    return Topology(
        name=f"{device.id} node",
        note=f"how many {device.id} one link joins is not known: it is taken to join all of them.",
    )


def load(path: str | Path) -> Topology:
    """Reads a topology file.

    Raises:
        FileFormatError: Missing, too large, not TOML, an unknown field or an impossible value.
    """
    path = path_of(path, "topology")
    hint = f"{_EXAMPLE[0].upper()}{_EXAMPLE[1:]}."
    table = read_toml(path, _MAX_BYTES, "a topology", hint)
    try:
        return from_table({"name": path.stem, **table})
    except InputError as error:
        raise FileFormatError(f"{path}: {error}") from None


def from_table(table: dict[str, Any]) -> Topology:
    """A topology from parsed TOML.

    Raises:
        InputError: An unknown field, a wrong type or an impossible value.
    """
    table = dict(table)
    bits = table.pop("network_bit_per_s", None)
    if bits is not None:
        if "network_byte_per_s" in table:
            raise InputError("give network_bit_per_s or network_byte_per_s, not both.")
        if not isinstance(bits, int | float):
            raise InputError(f"network_bit_per_s={bits!r}: a number of bits per second.")
        table["network_byte_per_s"] = bits / 8
    return read_record(Topology, table, "a topology")


def _given(device: Device, given: str | Path) -> Topology:
    for node, devices, _ in _shipped():
        if node.name == given:
            if device.id not in devices:
                raise InputError(
                    f"topology {given!r} is made of {', '.join(devices)}, not of {device.id}."
                )
            return node
    path = path_of(given, "topology")
    check_name(path)
    if path.suffix != ".toml" and not path.exists():
        raise UnknownNameError(
            "topology", str(given), [n.name for n, _, _ in _shipped()], "Or give a .toml file."
        )
    return load(path)


@lru_cache(maxsize=1)
def _shipped() -> tuple[tuple[Topology, tuple[str, ...], bool], ...]:
    """The nodes that come with gambrel: (node, device ids, only when asked for by name)."""
    found = []
    for row in tomllib.loads(_SHIPPED.read_text(encoding="utf-8"))["nodes"]:
        devices, by_name = tuple(row.pop("devices")), bool(row.pop("named_only", False))
        found.append((from_table(row), devices, by_name))
    return tuple(found)
