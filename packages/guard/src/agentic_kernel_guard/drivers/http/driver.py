"""HTTPDriver: carries operations out as HTTP requests, to named hosts at public addresses."""

from __future__ import annotations

import asyncio
import re
import ssl
import zlib
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urljoin, urlsplit

import msgspec

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import instance, names, whole

from ...firewall.raw import RawResult
from ..port import DriverCall, NoEffect
from . import addresses
from .addresses import Resolve, address_fault, host_fault
from .endpoint import Endpoint

try:
    import httpx
except ImportError as missing:
    raise ImportError("HTTPDriver needs httpx; install agentic-kernel-guard[http]") from missing

MOST_BYTES: Final = 10_000_000
"""The most bytes of an answer, before and after decompression."""
REFUSALS: Final = frozenset(
    (400, 401, 403, 404, 405, 406, 410, 411, 412, 413, 414, 415, 417, 421, 422, 426, 428, 429, 431)
)
"""Statuses by which a server says that it did not do what was asked (RFC 9110, section 15.5)."""
REDIRECTS: Final = 3
"""The most redirects that a GET or HEAD follows."""
_MOVED: Final = (301, 302, 303, 307, 308)
_TRIED: Final = 4
"""The most addresses of one host that are tried."""
_OWN_TIME: Final = 0.95
"""The share of a call's time that the driver takes, so that it can still say what it sent."""
_KEY: Final = re.compile(r"[\x21-\x7e]{1,255}")


class HTTPFailed(Exception):
    """The request was sent, and its outcome is not known."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a request goes."""

    scheme: str
    host: str
    port: int

    @property
    def authority(self) -> str:
        """The value of the header Host."""
        usual = self.port == (443 if self.scheme == "https" else 80)
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if usual else f"{host}:{self.port}"


class HTTPDriver:
    """Carries operations out as requests of an HTTP API.

    Each request goes over https to a host of the list. Its name is resolved once; each address must
    be public; and the connection goes to an address that was checked. A redirect of a GET or HEAD
    is checked in the same way; other requests follow none. Headers of an endpoint go to its own
    host alone. Nothing is taken from the environment, no cookie is kept, and no connection is used
    twice. An answer may be compressed by gzip, once.

    A request that changes something has the header ``Idempotency-Key``, by which a server can drop
    a repetition.

    Args:
        endpoints: The requests by operation.
        hosts: The hosts that requests and redirects may go to, as ``host`` or ``host:port``.
        name: Name of the driver.
        source: Where the data is from; taint names it.
        loopback: Places of this machine, as ``127.0.0.1:8080``, which may be asked without https.
        refusals: Statuses that say that nothing was done.
        key_header: The header for the key of the action; "" for none.
        most_bytes: The most bytes of an answer.
        resolve: Resolves names; the system does unless it is given.
        tls: Checks servers; by the system's authorities unless it is given.

    Raises:
        InvalidValue: An argument is wrong, or an endpoint is at a place that is not listed.
    """

    def __init__(
        self,
        endpoints: Mapping[str, Endpoint],
        *,
        hosts: Collection[str] = (),
        name: str = "http",
        source: str = "",
        loopback: Collection[str] = (),
        refusals: Collection[int] = REFUSALS,
        key_header: str = "Idempotency-Key",
        most_bytes: int = MOST_BYTES,
        resolve: Resolve = addresses.resolve,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name: Final = name
        self._source = source or name
        self._hosts = frozenset(_listed(each, "hosts") for each in names(hosts, "hosts"))
        self._local = frozenset(_listed(each, "loopback") for each in names(loopback, "loopback"))
        for host, _ in self._hosts:
            if fault := host_fault(host):
                raise InvalidValue("hosts", f"{host!a:.100} {fault}")
        for host, _ in self._local:
            if not addresses.loopback(host):
                raise InvalidValue("loopback", f"{host!a:.100} is no address of this machine")
        self._endpoints = {
            operation: instance(each, f"endpoints[{operation!a:.100}]", Endpoint)
            for operation, each in endpoints.items()
        }
        self._places = {}
        for operation, each in self._endpoints.items():
            try:
                self._places[operation] = self._place(each.url)
            except NoEffect as error:
                raise InvalidValue(f"endpoints[{operation!a:.100}].url", error.message) from None
        self._refusals = frozenset(refusals)
        self._key_header = key_header
        self._most = whole(most_bytes, "most_bytes", 1)
        self._resolve = resolve
        self._transport = httpx.AsyncHTTPTransport(
            verify=ssl.create_default_context() if tls is None else tls,
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def call(self, call: DriverCall) -> RawResult:
        """Send the operation's request, once, within the call's time.

        A text that is JSON is given as its value, any other text as it is, other content as bytes,
        and an empty answer as None.

        Raises:
            NoEffect: There is no such operation, nothing was sent, or the server refused it.
            HTTPFailed: It was sent, and the server failed or gave no usable answer.
        """
        endpoint = self._endpoints.get(call.operation)
        if endpoint is None:
            raise NoEffect(f"{self.name} has no operation {call.operation!a:.200}")
        place = self._places[call.operation]
        target, body = endpoint.target(call.arguments), endpoint.body(call.arguments)
        headers = {**endpoint.headers, **self._key(endpoint, call)}
        if body is not None:
            headers["Content-Type"] = "application/json"
        sent = _Sent()
        try:
            async with asyncio.timeout(call.timeout * _OWN_TIME):
                for _ in range(REDIRECTS + 1):
                    answer = await self._ask(endpoint.method, place, target, headers, body, sent)
                    if not isinstance(answer, str):
                        return RawResult(answer[0], self.name, self._source)
                    before, place = place, self._place(answer)
                    if place.host != before.host and addresses.loopback(place.host):
                        raise NoEffect(
                            f"{before.authority} redirects to this machine", "guard/http_host"
                        )
                    parts = urlsplit(answer)
                    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                    if place != before:
                        headers = {}
        except (TimeoutError, httpx.HTTPError, OSError, ssl.SSLError) as error:
            why = type(error).__name__
            if not sent.any:
                raise NoEffect(
                    f"{place.authority} was not reached ({why}); nothing was sent",
                    "guard/http_unreached",
                ) from None
            raise HTTPFailed(f"{place.authority} gave no answer ({why})") from None
        raise HTTPFailed(f"{place.authority} redirects over {REDIRECTS} times")

    async def _ask(
        self,
        method: str,
        place: _Place,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        sent: _Sent,
    ) -> tuple[Any] | str:
        """One request: the value of its answer, or the place that it redirects to."""
        response = await self._connected(method, place, target, headers, body, sent)
        try:
            status = response.status_code
            if status in _MOVED and method in ("GET", "HEAD"):
                return self._moved(response, place, target)
            if status in self._refusals:
                raise NoEffect(f"{place.authority} answered {status}", f"guard/http_{status}")
            if not 200 <= status < 300:
                raise HTTPFailed(f"{place.authority} answered {status}")
            return (_value(response, await self._read(response)),)
        finally:
            await response.aclose()

    async def _connected(
        self,
        method: str,
        place: _Place,
        target: str,
        headers: Mapping[str, str],
        body: bytes | None,
        sent: _Sent,
    ) -> httpx.Response:
        """The head of the answer, from the first address that can be reached."""
        found = await self._addresses(place)
        sent.any = False
        for number, address in enumerate(found, 1):
            shown = f"[{address}]" if ":" in address else address
            request = httpx.Request(
                method,
                httpx.URL(f"{place.scheme}://{shown}:{place.port}", raw_path=target.encode()),
                headers={
                    "Host": place.authority, "Accept": "application/json, text/*;q=0.5",
                    "Accept-Encoding": "gzip", "Connection": "close", **headers,
                },
                content=body,
                extensions={"sni_hostname": place.host, "trace": sent.trace},
            )  # fmt: skip
            try:
                return await self._transport.handle_async_request(request)
            except httpx.ConnectError:
                if sent.any or number == len(found):
                    raise
        raise AssertionError("there is at least one address")

    async def _addresses(self, place: _Place) -> list[str]:
        """The addresses of a place, each of them checked.

        Raises:
            NoEffect: There is none, or one of them is not public.
        """
        if (place.host, place.port) in self._local:
            return [place.host]
        try:
            found = list(await self._resolve(place.host, place.port))
        except (OSError, UnicodeError):
            found = []
        if not found:
            raise NoEffect(f"{place.host} has no address; nothing was sent", "guard/http_unreached")
        for each in found:
            if fault := address_fault(each):
                raise NoEffect(
                    f"{place.host} has the address {each!a:.60}, which {fault}; nothing was sent",
                    "guard/http_address",
                )
        return found[:_TRIED]

    def _place(self, url: str) -> _Place:
        """The place of a URL.

        Raises:
            NoEffect: No request may go there.
        """
        try:
            parts = urlsplit(url)
            host, port = parts.hostname or "", parts.port
        except ValueError:
            raise NoEffect("the URL is malformed", "guard/http_host") from None
        usual = 443 if parts.scheme == "https" else 80
        place = _Place(parts.scheme, host, usual if port is None else port)
        spelled = place.authority if port is None else f"{host}:{port}"
        if ":" in host:
            spelled = f"[{host}]" + ("" if port is None else f":{port}")
        if parts.netloc == spelled:
            if parts.scheme in ("http", "https") and (host, place.port) in self._local:
                return place
            if parts.scheme == "https" and (host, place.port) in self._hosts:
                return place
        raise NoEffect(
            f"{parts.scheme!a:.20} requests to {parts.netloc.rpartition('@')[2]!a:.100} are not "
            "allowed: the host is not in the list, or it is not https",
            "guard/http_host",
        )

    def _moved(self, response: httpx.Response, place: _Place, target: str) -> str:
        """The place that an answer redirects to."""
        said = response.headers.get_list("location")
        if len(said) != 1 or not re.fullmatch(r"[\x21-\x7e]{1,4000}", said[0]) or "\\" in said[0]:
            raise HTTPFailed(f"{place.authority} redirects to no usable place")
        try:
            return urljoin(f"{place.scheme}://{place.authority}{target}", said[0])
        except ValueError:
            raise HTTPFailed(f"{place.authority} redirects to no usable place") from None

    def _key(self, endpoint: Endpoint, call: DriverCall) -> dict[str, str]:
        if endpoint.method in ("GET", "HEAD") or not self._key_header:
            return {}
        if not _KEY.fullmatch(call.key):
            raise NoEffect("the key of the action cannot be a header; nothing was sent")
        return {self._key_header: call.key}

    async def _read(self, response: httpx.Response) -> bytes:
        """The whole body, decompressed.

        Raises:
            HTTPFailed: It is too long, or its compression is unknown, wrong or doubled.
        """
        coding = response.headers.get("content-encoding", "identity").strip().lower()
        if coding not in ("gzip", "identity"):
            raise HTTPFailed(f"the answer's compression {coding!a:.60} is not known")
        unpacked = zlib.decompressobj(31) if coding == "gzip" else None
        raw, read = 0, bytearray()
        stream: AsyncIterator[bytes] = response.aiter_raw()
        async for chunk in stream:
            raw += len(chunk)
            room = self._most + 1 - len(read)
            try:
                read += chunk if unpacked is None else unpacked.decompress(chunk, room)
            except zlib.error as error:
                raise HTTPFailed("the answer's compression is broken") from error
            if raw > self._most or len(read) > self._most:
                raise HTTPFailed(
                    f"the answer has over {self._most:,} bytes; ask for less, or allow more"
                )
        if unpacked is not None and raw and not unpacked.eof:
            raise HTTPFailed("the answer's compression ends too early")
        return bytes(read)


class _Sent:
    """Whether a part of the request may have been sent."""

    def __init__(self) -> None:
        self.any = False

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear of the steps of a connection (httpcore's extension ``trace``)."""
        if event.endswith("send_request_headers.started"):
            self.any = True


def _listed(text: str, what: str) -> tuple[str, int]:
    """The host and the port of an entry; the port is 443 unless it is named."""
    try:
        parts = urlsplit(f"//{text}")
        host, port = parts.hostname or "", parts.port
    except ValueError:
        host, port = "", None
    bare = text.rpartition(":")[0] if port is not None else text
    if not host or bare.strip("[]") != host or port == 0:
        raise InvalidValue(what, f"{text!a:.100} must be host or host:port, in lower case")
    return host, 443 if port is None else port


def _value(response: httpx.Response, body: bytes) -> Any:
    """The value of an answer."""
    if not body:
        return None
    kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json" or kind.endswith("+json"):
        try:
            return msgspec.json.decode(body)
        except (msgspec.DecodeError, RecursionError):
            return body.decode("utf-8", "replace")
    if kind.startswith("text/"):
        return body.decode("utf-8", "replace")
    return body
