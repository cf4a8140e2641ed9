"""Servers: how MCP servers are started or reached, and the usual file that lists them."""

from __future__ import annotations

import ipaddress
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from agentic_kernel import InvalidValue
from agentic_kernel.frozen import shown

MAX_FILE: Final = 1_000_000
"""The longest file of servers, in bytes."""
MOST_SERVERS: Final = 64
"""The most servers of one file, or of one `MCPTools`."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,31}")
_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_HEADER: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_STDIO: Final = frozenset({"type", "command", "args", "env", "cwd"})
_HTTP: Final = frozenset({"type", "url", "headers"})
_KINDS: Final = {"stdio": "stdio", "http": "http", "streamable-http": "http",
                 "streamableHttp": "http"}  # fmt: skip


@dataclass(frozen=True)
class StdioServer:
    """A server that is a child process of this one and speaks over its standard streams.

    The process gets ``HOME``, ``PATH`` and a few more variables that hold no secret, and those of
    `env`. It does not get the other variables of this process.

    Raises:
        InvalidValue: A part has the wrong type, is empty, or holds a NUL.
    """

    command: str
    """The program: its path, or its name in ``PATH``."""
    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables of the environment, often with a secret; they are not shown."""
    cwd: str | None = None
    """Working folder; None for that of this process."""

    def __post_init__(self) -> None:
        _text(self.command, "command")
        if not self.command:
            raise InvalidValue("command", "is empty; name a program")
        if isinstance(self.args, str) or not isinstance(self.args, (list, tuple)):
            raise InvalidValue("args", f"must be a list of strings, not {shown(self.args)}")
        for index, each in enumerate(self.args):
            _text(each, f"args[{index}]")
        object.__setattr__(self, "args", tuple(self.args))
        object.__setattr__(self, "env", _texts(self.env, "env"))
        if any(not name or "=" in name for name in self.env):
            raise InvalidValue("env", "has a name that is empty or contains '='")
        if self.cwd is not None:
            _text(self.cwd, "cwd")


@dataclass(frozen=True)
class HTTPServer:
    """A server at an address, over streamable HTTP.

    Only these headers are sent to it, and nothing of the principal: a token that a user gave to
    this program stays here. Plain ``http:`` is accepted for this machine only. Proxies that the
    environment names are not used.

    Raises:
        InvalidValue: The address is not ``https:``, or a header cannot be sent.
    """

    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Headers of every request, often with a secret; they are not shown."""
    auth: Any = field(default=None, repr=False)
    """An authentication of the MCP SDK, such as its ``OAuthClientProvider``, which binds each token
    to this server's address."""

    def __post_init__(self) -> None:
        _text(self.url, "url")
        try:
            parts = urlsplit(self.url)
            host = parts.hostname or ""
            _ = parts.port
        except ValueError as error:
            raise InvalidValue("url", f"is not an address: {error}") from None
        if parts.scheme not in ("http", "https") or not host:
            raise InvalidValue("url", "must begin with https:// and name a host")
        if parts.username is not None or parts.password is not None:
            raise InvalidValue("url", "must hold no user and no password; use headers")
        if parts.scheme == "http" and not _here(host):
            raise InvalidValue("url", f"is http: for {host}, which is not this machine; use https:")
        headers = _texts(self.headers, "headers")
        for name, value in headers.items():
            if not _HEADER.fullmatch(name) or not _VALUE.fullmatch(value):
                raise InvalidValue("headers", f"{shown(name)} cannot be sent as a header")
        object.__setattr__(self, "headers", headers)


Server = StdioServer | HTTPServer
"""The way to start or to reach one server."""


@dataclass(frozen=True)
class ServerFile:
    """The servers of a file."""

    servers: Mapping[str, Server]
    unused: tuple[str, ...] = ()
    """Settings of the file that mean nothing here, such as ``files.autoApprove``."""


def read_servers(path: Path | str, environment: Mapping[str, str] | None = None) -> ServerFile:
    """The servers of a JSON file of the usual form, ``{"mcpServers": {"<name>": {…}}}``.

    A server has a ``command``, with ``args``, ``env`` and ``cwd``, or a ``url`` with ``headers``.
    In these texts ``${NAME}`` stands for a variable of the environment, and ``${NAME:-text}`` for
    it or else for the text. A server with ``"disabled": true`` is left out.

    Args:
        path: The file.
        environment: The variables; by default those of this process.

    Raises:
        InvalidValue: The file cannot be read, or is not such a file; the message names the place.
    """
    try:
        with Path(path).open("rb") as file:
            text = file.read(MAX_FILE + 1)
    except OSError as error:
        raise InvalidValue(str(path), f"cannot be read: {error.strerror or error}") from None
    if len(text) > MAX_FILE:
        raise InvalidValue(str(path), f"is longer than {MAX_FILE:,} bytes")
    try:
        data = json.loads(text, object_pairs_hook=_unique, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise InvalidValue(str(path), f"is not JSON: {error}") from None
    if not isinstance(data, dict) or not isinstance(data.get("mcpServers"), dict):
        raise InvalidValue(str(path), 'must be an object with "mcpServers", an object')
    known = os.environ if environment is None else environment
    servers: dict[str, Server] = {}
    unused = [name for name in data if name != "mcpServers"]
    for name, given in data["mcpServers"].items():
        place = f"{path}: mcpServers.{shown(name)}"
        if not isinstance(given, dict):
            raise InvalidValue(place, "must be an object")
        if given.get("disabled") is True:
            continue
        try:
            server_name(name)
        except InvalidValue as error:
            raise InvalidValue(f"{path}: mcpServers", error.reason) from None
        servers[name], more = _server(given, place, known)
        unused += [f"{name}.{each}" for each in more]
    if not servers:
        raise InvalidValue(str(path), "names no server that is enabled")
    return ServerFile(check_servers(servers), tuple(unused))


def server_name(name: Any) -> str:
    """The name of a server, checked: it is a part of the names of the server's tools.

    Raises:
        InvalidValue: It is not 1 to 32 letters, digits, ``_``, ``.`` and ``-``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidValue(
            "servers", f"has the name {shown(name)}; use 1 to 32 of A-Z a-z 0-9 _ . -"
        )
    return name


def check_servers(servers: Any) -> dict[str, Server]:
    """A copy of servers by name.

    Raises:
        InvalidValue: There are none or too many, or one is not a server.
    """
    if not isinstance(servers, Mapping):
        raise InvalidValue(
            "servers", f"must be a mapping of names to servers, not {shown(servers)}"
        )
    if not 0 < len(servers) <= MOST_SERVERS:
        raise InvalidValue("servers", f"has {len(servers)} servers; use 1 to {MOST_SERVERS}")
    for name, server in servers.items():
        server_name(name)
        if not isinstance(server, (StdioServer, HTTPServer)):
            raise InvalidValue(
                f"servers[{name!r}]", f"must be a StdioServer or an HTTPServer, not {shown(server)}"
            )
    return dict(servers)


def _server(
    given: Mapping[str, Any], place: str, known: Mapping[str, str]
) -> tuple[Server, list[str]]:
    said = given.get("type")
    kind = "http" if said is None and "url" in given else "stdio" if said is None else None
    if kind is None:
        kind = _KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        raise InvalidValue(
            place, f'has the type {shown(said)}; use "stdio" or "http" (SSE is not supported)'
        )
    names = _STDIO if kind == "stdio" else _HTTP
    used = {key: value for key, value in given.items() if key in names and key != "type"}
    needed = "command" if kind == "stdio" else "url"
    if needed not in used:
        raise InvalidValue(place, f'has no "{needed}"')
    try:
        used = {key: _expanded(value, known) for key, value in used.items()}
        made: Server = StdioServer(**used) if kind == "stdio" else HTTPServer(**used)
    except InvalidValue as error:
        raise InvalidValue(place, str(error)) from None
    return made, sorted(given.keys() - names - {"disabled"})


def _expanded(value: Any, known: Mapping[str, str]) -> Any:
    if isinstance(value, str):
        return _VARIABLE.sub(lambda found: _variable(found, known), value)
    if isinstance(value, list):
        return [_expanded(each, known) for each in value]
    if isinstance(value, dict):
        return {key: _expanded(each, known) for key, each in value.items()}
    return value


def _variable(found: re.Match[str], known: Mapping[str, str]) -> str:
    name, default = found[1], found[2]
    value = known.get(name)
    if value is None and default is None:
        raise InvalidValue(name, "is not set in the environment; set it, or use ${NAME:-text}")
    return value if value is not None else default


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {shown(twice)} is there twice")
    return found


def _no_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def _here(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _text(value: Any, path: str) -> str:
    if not isinstance(value, str):
        raise InvalidValue(path, f"must be a string, not {shown(value)}")
    if "\0" in value:
        raise InvalidValue(path, "has a NUL character")
    return value


def _texts(value: Any, path: str) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise InvalidValue(path, f"must be an object with texts, not {shown(value)}")
    return {_text(name, path): _text(each, f"{path}.{name}") for name, each in value.items()}
