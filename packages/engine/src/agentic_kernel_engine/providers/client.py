"""SDKClient: holds a vendor's client, imported and made when its planner first needs it."""

from __future__ import annotations

import asyncio
import os
import sys
import threading
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from importlib import import_module
from typing import Any, ClassVar, Final
from weakref import ReferenceType, WeakKeyDictionary, ref

from agentic_kernel import CannotStart, InvalidValue

from .edges import address_problem, key_problem
from .logs import mask
from .secrets import Secrets, keys_in, secrets_of
from .transport import http_client

_LOOPS: Final[WeakKeyDictionary[Any, ReferenceType[asyncio.AbstractEventLoop]]] = (
    WeakKeyDictionary()
)
"""The event loop that first used a user's client, by that client, its HTTP client and its pools of
connections: several clients may share a pool, and its connections belong to that loop."""
_CLAIMING: Final = threading.Lock()
"""Held while an event loop claims a client, because each thread may have an event loop."""


class SDKClient:
    """Holds the client of one planner: the user's own, or one that it makes.

    Args:
        own: The user's client; it is never closed. It belongs to the event loop that first used it.
        timeout: Seconds; see `transport.http_options`.
        beside: Secrets that requests hold beside the client's keys.
        **given: The values of `keywords`; None for one that the user did not give.

    Raises:
        InvalidValue: A value is not valid; the error names it.
    """

    sdk: ClassVar[str]
    """The module of the SDK."""
    kind: ClassVar[str]
    """The name of its client's class there; the client is asynchronous."""
    logger: ClassVar[str] = ""
    """The name of the SDK's loggers; empty if it is that of the module."""
    http: ClassVar[str]
    """The module of the HTTP library that the SDK uses."""
    named_events: ClassVar[bool] = True
    """False if the SDK reads no names of events in a stream; see `body.Form`."""
    keywords: ClassVar[tuple[str, ...]] = ("api_key", "base_url")
    """The keywords that make a client, beside ``client`` and ``timeout``: `address`, and keys."""
    address: ClassVar[str] = "base_url"
    """The keyword of the server's address."""
    address_variable: ClassVar[str]
    """The environment variable of the server's address."""
    usual: ClassVar[str]
    """The server's address if that variable is not set."""
    key_variables: ClassVar[tuple[str, ...]]
    """The environment variables of keys; the first is the one to tell of."""
    needs_key: ClassVar[bool] = True
    """True if a call needs a key of `keywords` or of `key_variables`."""
    key_headers: ClassVar[Mapping[str, str]] = {}
    """By environment variable of a key: the header that has the key, as `models_check` takes it.
    Empty if a run needs no key."""
    models: ClassVar[str] = ""
    """The path of the list of models below the address; empty if the server has none."""
    models_headers: ClassVar[Mapping[str, str]] = {}
    """Further headers of a request for that list."""
    keys: ClassVar[tuple[str, ...]] = ("api_key", "auth_token")
    """The attributes of a client that hold its keys; dots lead to inner objects."""
    headers: ClassVar[str] = "_custom_headers"
    """The same for the headers that it sends."""
    connections: ClassVar[tuple[str, ...]] = ("_client",)
    """The same for the HTTP clients by which it sends its asynchronous requests."""

    def __init__(
        self, own: Any, timeout: float, beside: tuple[str, ...] = (), **given: str | None
    ) -> None:
        for name, value in given.items():
            if value is not None:
                problem = (
                    self.address_problem(value) if name == self.address else key_problem(value)
                )
                if problem:
                    raise InvalidValue(name, problem)
        if own is not None:
            self.check(own)
            if any(value is not None for value in given.values()):
                *first, last = given
                raise InvalidValue(
                    "client",
                    f"cannot be combined with {', '.join(first)} or {last}; set these on the "
                    "client",
                )
        self.own = own
        self.timeout = timeout
        self.given = given
        self._beside = beside
        self._client: Any = None
        self._loop: ReferenceType[asyncio.AbstractEventLoop] | None = None
        """The event loop that has claimed the user's client for this object."""
        self._transports: list[Any] = []

    async def open(self) -> Any:
        """Return the client, with the SDK's retries off, because the Loop decides about retries.

        The first call imports the SDK in a thread: the import takes a second or more, and other
        Tasks go on meanwhile.

        Raises:
            CannotStart: There is no valid key, the address in the environment is not valid, or the
                user's client belongs to another event loop; the error says what to do.
        """
        if self.own is not None:
            self._keep_loop()
        if self._client is None:
            if self.own is None:
                self.check_environment()
            if self.sdk not in sys.modules:
                await asyncio.to_thread(import_module, self.sdk)
            if self._client is None:
                self._client = self.make() if self.own is None else self.share(self.own)
                mask(self.logger or self.sdk, "httpx2", "httpcore2", "httpx", "httpcore")
        return self._client

    async def ready(self) -> None:
        """Find out if Tasks can begin; by default, if the client can be made.

        Raises:
            CannotStart: See `open`.
        """
        await self.open()

    @property
    def secrets(self) -> Secrets:
        """The client's keys and the other secrets of requests; no output may contain them."""
        client = self._client or self.own
        return _secrets_among(
            self.given.get("api_key"),
            *map(os.environ.get, self.key_variables),
            *self._beside,
            *(() if client is None else self.keys_of(client)),
        )

    async def close(self) -> None:
        """Close the client, unless it is the user's own; `open` makes a new one later."""
        client, self._client = self._client, None
        if client is not None and self.own is None:
            closing = client.close()
            if closing is not None:
                await closing
            while self._transports:  # An SDK may leave open what it was given.
                await self._transports.pop().aclose()

    def _keep_loop(self) -> None:
        """Keep the user's client to the event loop that first used it or its connections.

        Another runtime may have used it, and another client may have the same connections. Objects
        that take no weak references are not checked.

        Raises:
            CannotStart: Another event loop used it first.
        """
        running = asyncio.get_running_loop()
        if self._loop is not None and self._loop() is running:
            return
        claimed = [part for part in _parts(self.own, self.connections) if _is_kept(part)]
        with _CLAIMING:
            users = [_LOOPS[part] for part in claimed if part in _LOOPS]
            if any(user() is not running for user in users):
                raise CannotStart(
                    f"client=: another event loop has used this {type(self.own).__name__}, or "
                    "another client with the same connections, e.g. one that with_options() made. "
                    "An asynchronous client belongs to the event loop that first used it, because "
                    "its connections do. Give each runtime a client with connections of its own, "
                    "or leave client= out; run_sync has an event loop of its own for each runtime"
                )
            self._loop = ref(running)
            for part in claimed:
                _LOOPS[part] = self._loop

    def check(self, own: Any) -> None:
        """Refuse an object of the user that is not an asynchronous client of the SDK.

        Raises:
            InvalidValue: It is not one; the path is ``client``.
        """
        if not isinstance(own, getattr(import_module(self.sdk), self.kind)):
            raise InvalidValue("client", f"must be a {self.sdk}.{self.kind}")

    def make(self) -> Any:
        """Return a new client on `transport`; by default with the arguments of OpenAI's SDK.

        Raises:
            CannotStart: The SDK finds no key.
        """
        http, made = self.transport(), getattr(import_module(self.sdk), self.kind)
        return made(**self.given, timeout=http.timeout, max_retries=0, http_client=http)

    def transport(self) -> Any:
        """Return a new HTTP client for `make`; `close` closes it."""
        made = http_client(import_module(self.http), self.timeout, named=self.named_events)
        self._transports.append(made)
        return made

    def share(self, own: Any) -> Any:
        """Return the user's client with its retries off, if it retries anything."""
        return own.with_options(max_retries=0) if hasattr(own, "with_options") else own

    def keys_of(self, client: Any) -> Iterable[Any]:
        """Return the keys that a client sends."""
        yield from (_inner(client, path) for path in self.keys)
        yield from keys_in(_inner(client, self.headers) or {})

    def address_problem(self, address: Any) -> str:
        """Return the fault of an address, or an empty string."""
        return address_problem(address)

    def check_environment(self) -> None:
        """Refuse a missing or bad key, and a bad address, before the SDK reads them.

        Raises:
            CannotStart: See `open`.
        """
        if not self.given.get("api_key"):
            found = {name: key for name in self.key_variables if (key := os.environ.get(name))}
            for name, key in found.items():
                problem = key_problem(key)
                if problem:
                    raise CannotStart(f"the environment variable {name} {problem}")
            if self.needs_key and not found:
                raise self.no_key()
        address = self.asked_address()
        if address and self.given.get(self.address) is None:
            problem = self.address_problem(address)
            if problem:
                raise CannotStart(f"the environment variable {self.address_variable} {problem}")

    def asked_address(self) -> str | None:
        """Return the address that the user gave, or that of the environment; None for `usual`."""
        return self.given.get(self.address) or os.environ.get(self.address_variable) or None

    def no_key(self) -> CannotStart:
        """Return the error for a missing key."""
        return CannotStart(
            f"there is no API key: set the environment variable {self.key_variables[0]}, or give "
            "api_key=; if your server needs no key, give any text"
        )


def _parts(own: Any, connections: Iterable[str]) -> Iterator[Any]:
    """Return a client, its HTTP clients, and their pools as httpx and httpx2 have them."""
    yield own
    for path in connections:
        http = _inner(own, path)
        yield http
        mounts = getattr(http, "_mounts", None)
        others = mounts.values() if isinstance(mounts, dict) else ()
        for transport in (getattr(http, "_transport", None), *others):
            yield getattr(transport, "_pool", None)


def _is_kept(part: Any) -> bool:
    """True if `_LOOPS` can have an object as its key."""
    try:
        hash(ref(part))
    except TypeError:
        return False
    return True


@lru_cache(maxsize=256)
def _secrets_among(*found: Any) -> Secrets:
    return secrets_of(*sorted({key for key in found if isinstance(key, str) and key}))


def _inner(client: Any, path: str) -> Any:
    for name in path.split("."):
        client = getattr(client, name, None)
    return client
