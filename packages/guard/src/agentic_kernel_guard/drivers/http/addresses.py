"""Addresses: which hosts may be named, and which addresses a connection may go to."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Awaitable, Callable, Sequence
from ipaddress import IPv4Address, IPv6Address, ip_address, ip_network
from typing import Final

Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the addresses of a host, for a port; an `OSError` if there are none."""

_HOST: Final = re.compile(
    r"(?:[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?\.)*[a-z](?:[a-z0-9-]*[a-z0-9])?"
)
"""A name in lower case. Its last label begins with a letter, so it is no number in any spelling."""
_CLOSED: Final = tuple(
    ip_network(each)
    for each in (
        # IPv4 that is not public: https://www.iana.org/assignments/iana-ipv4-special-registry
        "0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16",
        "172.16.0.0/12", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "192.168.0.0/16",
        "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
        # A public number, but inside Azure it is the machine's own host with its metadata:
        # https://learn.microsoft.com/azure/virtual-network/what-is-ip-address-168-63-129-16
        "168.63.129.16/32",
    )
)  # fmt: skip
_OPEN_V6: Final = ip_network("2000::/3")
"""Public unicast addresses. All that holds an address of IPv4, but 6to4 and Teredo, is outside."""
_CLOSED_V6: Final = tuple(
    ip_network(each)
    # https://www.iana.org/assignments/iana-ipv6-special-registry
    for each in ("2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20")
)


def host_fault(host: str) -> str:
    """The fault of a host's name; "" for a name that DNS may be asked about."""
    if len(host) > 253 or not _HOST.fullmatch(host):
        return (
            "must be a name in lower case and ASCII, such as api.example.com: no address, no user "
            "and no dot at the end"
        )
    return ""


def address_fault(text: str) -> str:
    """Why no connection may go to an address; "" for a public one."""
    try:
        address = ip_address(text)
    except ValueError:
        return "is no address"
    if isinstance(address, IPv4Address):
        return "is not public" if any(address in each for each in _CLOSED) else ""
    return _fault_v6(address)


def loopback(text: str) -> bool:
    """True for an address of this machine."""
    try:
        return ip_address(text).is_loopback
    except ValueError:
        return False


def _fault_v6(address: IPv6Address) -> str:
    if address.scope_id is not None:
        return "has a zone"
    if address not in _OPEN_V6 or any(address in each for each in _CLOSED_V6):
        return "is not public"
    return ""


async def resolve(host: str, port: int) -> Sequence[str]:
    """The addresses of a host, as the system knows them."""
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(each[4][0]) for each in found))
