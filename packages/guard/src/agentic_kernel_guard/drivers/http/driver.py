"""HTTPDriver: carries operations out as HTTP requests, to named hosts at public addresses."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urljoin, urlsplit

from agentic_kernel import InvalidValue
from agentic_kernel_engine.edges import entries, function, instance, names, several, text, whole

from ...errors import GuardError
from ...firewall.raw import RawResult
from ..port import DriverCall, NoEffect
from . import addresses
from .addresses import Resolve, address_fault, host_fault
from .answer import HTTPFailed, read, value_of
from .endpoint import Endpoint, header_name

if TYPE_CHECKING:
    import httpx

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


@dataclass(frozen=True, slots=True)
class _Place:
    """The place that a request goes to."""

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
    host alone. No proxy and no password is taken from the environment, no cookie is kept, and no
    connection is used twice. An answer may be compressed by gzip, once.

    A request that changes something has the header ``Idempotency-Key``, by which a server can drop
    a repetition.

    Args:
        endpoints: The requests by operation.
        hosts: The hosts that requests and redirects may go to, as ``host`` or ``host:port``.
        name: Name of the driver.
        source: The source of the data; taint names it.
        loopback: Places of this machine, as ``127.0.0.1:8080``, which may be asked without https.
        refusals: Statuses from 400 to 599 that say that nothing was done.
        key_header: The header for the key of the action; "" for none.
        most_bytes: The most bytes of an answer.
        resolve: Resolves names; the system does unless it is given.
        tls: Checks servers; by the system's authorities unless it is given. It must check the
            certificate and the host's name.

    Raises:
        InvalidValue: An argument is wrong, or an endpoint is at a place that is not listed.
        GuardError: The extra ``http`` is not installed.
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
        httpx = self._httpx = _httpx()
        self.name: Final = text(name, "name", empty=False)
        self.source: Final = text(source, "source") or name
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
            for operation, each in entries(endpoints, "endpoints")
        }
        self._places = {}
        for operation, each in self._endpoints.items():
            try:
                self._places[operation] = self._place(each.url)
            except NoEffect as error:
                raise InvalidValue(f"endpoints[{operation!a:.100}].url", error.message) from None
        self._refusals = frozenset(
            whole(each, "refusals", 400, 599) for each in several(refusals, "refusals", "statuses")
        )
        self._key_header = key_header and header_name(key_header, "key_header")
        for operation, each in self._endpoints.items():
            if key_header and key_header.lower() in map(str.lower, each.headers):
                raise InvalidValue(
                    f"endpoints[{operation!a:.100}].headers",
                    f"cannot have {key_header}, which has the key of the action; remove it, or "
                    "name another key_header",
                )
        self._most = whole(most_bytes, "most_bytes", 1)
        self._resolve = function(resolve, "resolve")
        checks = ssl.create_default_context() if tls is None else tls
        instance(checks, "tls", ssl.SSLContext)
        if checks.verify_mode is not ssl.CERT_REQUIRED or not checks.check_hostname:
            raise InvalidValue(
                "tls", "does not check servers; set check_hostname, and verify_mode CERT_REQUIRED"
            )
        self._transport = httpx.AsyncHTTPTransport(
            verify=checks,
            trust_env=False,
            limits=httpx.Limits(max_keepalive_connections=0),
        )

    async def call(self, call: DriverCall) -> RawResult:
        """Send the operation's request, once, within the call's time.

        A text that is JSON is given as its value, any other text as it is, other content as bytes,
        and an empty answer as None.

        Raises:
            NoEffect: There is no such operation, nothing was sent, or the server refused it.
            HTTPFailed: It was sent, and the server failed or gave no usable answer. A server that
                redirects may have acted before, so every failure after a redirect is one.
        """
        endpoint = self._endpoints.get(call.operation)
        if endpoint is None:
            raise NoEffect(f"{self.name} has no operation {call.operation!a:.200}")
        place = self._places[call.operation]
        target, body = endpoint.target(call.arguments), endpoint.body(call.arguments)
        headers = {**endpoint.headers, **self._key(endpoint, call)}
        if body is not None:
            headers["Content-Type"] = "application/json"
        until = asyncio.get_running_loop().time() + call.timeout * _OWN_TIME
        sent, moved = _Sent(until), False
        try:
            async with asyncio.timeout_at(until):
                for _ in range(REDIRECTS + 1):
                    answer = await self._ask(endpoint.method, place, target, headers, body, sent)
                    if not isinstance(answer, str):
                        return RawResult(answer[0], self.name, self.source)
                    moved = True
                    before, place = place, self._place(answer)
                    if place.host != before.host and addresses.loopback(place.host):
                        raise NoEffect(
                            f"{before.authority} redirects to this machine", "guard/http_host"
                        )
                    parts = urlsplit(answer)
                    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
                    if place != before:
                        headers = {}
        except NoEffect as refused:
            if not moved:
                raise
            why = refused.message.removesuffix("; nothing was sent")
            raise HTTPFailed(f"the answer was a redirect, and then: {why}") from None
        except (TimeoutError, self._httpx.HTTPError, OSError, ssl.SSLError) as error:
            why = type(error).__name__
            if not sent.any and not moved:
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
            return (value_of(response, await read(response, self._most)),)
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
        # An address that says nothing leaves time for the others.
        left = max(0.0, sent.until - asyncio.get_running_loop().time())
        usual = {"Accept": "application/json, text/*;q=0.5"}
        if "accept" in map(str.lower, headers):
            usual = {}
        for number, address in enumerate(found, 1):
            shown = f"[{address}]" if ":" in address else address
            request = self._httpx.Request(
                method,
                self._httpx.URL(f"{place.scheme}://{shown}:{place.port}", raw_path=target.encode()),
                headers={
                    "Host": place.authority, **usual,
                    "Accept-Encoding": "gzip", "Connection": "close", **headers,
                },
                content=body,
                extensions={
                    "sni_hostname": place.host, "trace": sent.trace,
                    "timeout": {"connect": left / (len(found) + 1) if len(found) > 1 else None},
                },
            )  # fmt: skip
            try:
                response: httpx.Response = await self._transport.handle_async_request(request)
                return response
            except (self._httpx.ConnectError, self._httpx.ConnectTimeout):
                await sent.close()
                if sent.any or number == len(found):
                    raise
            except BaseException:
                await sent.close()
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
        except Exception as error:
            raise NoEffect(
                f"the look-up of {place.host} failed ({type(error).__name__}); nothing was sent",
                "guard/http_unreached",
            ) from error
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


class _Sent:
    """The last request: if a part of it may have been sent, and over which connection."""

    def __init__(self, until: float) -> None:
        self.until: Final = until
        """The time of the event loop when the call ends."""
        self.any = False
        self._stream: Any = None

    async def trace(self, event: str, info: Mapping[str, Any]) -> None:
        """Hear of the steps of a connection (httpcore's extension ``trace``)."""
        if event == "connection.connect_tcp.complete":
            self._stream = info["return_value"]
        elif event.endswith("send_request_headers.started"):
            self.any = True

    async def close(self) -> None:
        """Close the connection of a request that failed.

        httpcore does not close it if the call is cancelled during the TLS handshake.
        """
        stream, self._stream = self._stream, None
        if stream is not None:
            with suppress(Exception):
                await stream.aclose()


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


def _httpx() -> ModuleType:
    try:
        import httpx
    except ImportError as error:
        raise GuardError(
            "guard/not_installed", "HTTPDriver needs httpx; install agentic-kernel-guard[http]"
        ) from error
    return httpx
