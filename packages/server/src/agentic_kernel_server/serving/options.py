"""Options: what a server of its own is told, and where it may listen."""

from __future__ import annotations

import re
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

from ..security import Most, Sizes, is_loopback
from ..settings import Settings

BACKLOG: Final = 2_048
"""The most connections that wait to be accepted."""
MOST_PROCESSES: Final = 64
_LISTEN: Final = re.compile(r"(\[[0-9A-Fa-f:.%a-z]{1,80}\]|[^\s:/\[\]]{1,253}):([0-9]{1,5})")


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """The options of a server that runs in a process of its own."""

    listen: str = "127.0.0.1:8080"
    """``HOST:PORT``; port 0 takes a free one."""
    policy: Path | None = None
    """A rule file, or a directory with one for each agent; None denies every tool."""
    keys: Path | None = None
    """The key file; None serves everybody who reaches the loopback address."""
    processes: int = 1
    """Processes behind the port."""
    notice: float = 0.0
    """Seconds for which a stopping process still serves after it has said that it is not ready."""
    grace: float = 20.0
    """Seconds that the runs of a stopping process have to reach a safe point."""
    place: str = ""
    """The place of the store, as the log names it; without secrets."""
    level: str = "info"
    """The lowest level of the log."""
    settings: Settings = Settings()
    most: Most = Most()
    sizes: Sizes = Sizes()


def listening(options: Options) -> list[socket.socket]:
    """Sockets that listen where the options say.

    Raises:
        InvalidValue: The address is malformed or does not exist, or callers from elsewhere could
            reach a server that asks for no key.
    """
    found = _LISTEN.fullmatch(options.listen)
    if found is None or int(found[2]) > 65_535:
        raise InvalidValue(
            "--listen", f"is {shown(options.listen)}; use HOST:PORT, e.g. 127.0.0.1:8080"
        )
    host, port = found[1].strip("[]"), int(found[2])
    try:
        places = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE | socket.AI_NUMERICSERV
        )
    except (OSError, UnicodeError) as error:
        raise InvalidValue("--listen", f"{shown(host)} has no address: {error}") from None
    # What counts is where the name leads, not what it is.
    open_to = [str(place[4][0]) for place in places if not is_loopback(str(place[4][0]))]
    if open_to and options.keys is None:
        raise InvalidValue(
            "--listen",
            f"{shown(options.listen)} can be reached from other machines, at {open_to[0]}, and the "
            "server would ask nobody for a key; make keys and give --keys FILE, or listen on "
            "127.0.0.1",
        )
    return _bound(places)


def _bound(places: Sequence[tuple[object, ...]]) -> list[socket.socket]:
    bound: list[socket.socket] = []
    known: set[object] = set()
    place = ""
    try:
        for family, kind, protocol, _, address in places:
            place = _shown(*address[:2])  # type: ignore[index]
            if (family, address) in known:
                continue
            known.add((family, address))
            each = socket.socket(family, kind, protocol)  # type: ignore[arg-type]
            bound.append(each)
            each.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if family == socket.AF_INET6:
                each.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            each.bind(address)  # type: ignore[arg-type]
            each.listen(BACKLOG)
            each.setblocking(False)
            if each.getsockname()[1] != address[1]:  # type: ignore[index]
                break  # A free port on one address; another address would get another port.
    except OSError as error:
        for each in bound:
            each.close()
        raise InvalidValue(
            "--listen",
            f"cannot listen on {place} ({error.strerror}); use another address or port",
        ) from error
    return bound


def shown_address(bound: socket.socket) -> str:
    """The URL of a listening socket."""
    return f"http://{_shown(*bound.getsockname()[:2])}"


def _shown(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
