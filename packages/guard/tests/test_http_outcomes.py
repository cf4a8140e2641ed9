"""HTTPDriver: whether a failure had no effect, what stays open, and options that are refused."""

from __future__ import annotations

import asyncio
import gzip
import logging
import ssl
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence
from typing import Any
from urllib.parse import parse_qsl, unquote, urlsplit

import pytest
import trustme
from hypothesis import given, settings
from hypothesis import strategies as st

from agentic_kernel import InvalidValue
from agentic_kernel_guard import (
    DriverCall,
    Endpoint,
    HTTPDriver,
    HTTPFailed,
    Indeterminate,
    NoEffect,
    RawResult,
    StaticRouter,
)
from agentic_kernel_guard.drivers.http import driver as module

from .http_servers import TLS, answer, asking, client_tls, served, server_tls, to


class Next:
    """The next driver of a route; it must not be asked."""

    name = "next"

    async def call(self, call: DriverCall) -> RawResult:
        raise AssertionError("the first driver may have had an effect")


@pytest.mark.parametrize(
    ("location", "then"),
    [
        ("http://169.254.169.254/", None),
        ("https://a.example/", None),
        ("/done", answer(1, "404 Not Found")),
        ("http://127.0.0.1:1/", None),
    ],
    ids=["a place that is not allowed", "an address that is not", "refused", "not reached"],
)
async def test_after_a_redirect_no_failure_counts_as_without_effect(
    location: str, then: bytes | None
) -> None:
    async def inside(host: str, port: int) -> Sequence[str]:
        return ["10.0.0.1"]

    moved = answer(b"", "302 Found", Location=location)
    async with served(moved, *([then] if then else [])) as (server, place):
        driver = HTTPDriver(
            {"op": Endpoint("GET", f"http://{place}/delete")},
            hosts=["a.example"], loopback=[place, "127.0.0.1:1"], resolve=inside,
        )  # fmt: skip
        with pytest.raises(HTTPFailed) as failed:
            await driver.call(asking())
        assert "nothing was sent" not in str(failed.value)
        server.script[:] = [moved, *([then] if then else [])]
        with pytest.raises(Indeterminate):
            await StaticRouter({"api/x": [driver, Next()]}).run(asking(), False)


async def test_no_redirect_goes_to_another_place_of_this_machine() -> None:
    inner = await asyncio.start_server(lambda reader, writer: writer.close(), "127.0.0.2", 0)
    async with inner:
        other = f"127.0.0.2:{inner.sockets[0].getsockname()[1]}"
        async with served(answer(b"", "302 Found", Location=f"http://{other}/")) as (_, place):
            driver = HTTPDriver(
                {"op": Endpoint("GET", f"http://{place}/x")}, loopback=[place, other]
            )
            with pytest.raises(HTTPFailed, match="redirects to this machine"):
                await driver.call(asking())


async def a_bug(host: str, port: int) -> Sequence[str]:
    raise RuntimeError("a bug of the resolver")


@pytest.mark.parametrize(
    ("method", "arguments"),
    [
        ("POST", {"a": float("nan")}),
        ("POST", {"a": float("inf")}),
        ("POST", {"a": "\ud800"}),
        ("POST", {"a": 10**30}),
        ("POST", {"a": object()}),
        ("POST", {"a": b"bytes"}),
        ("GET", {"q": float("nan")}),
        ("GET", {"q": ["x" * 2_000] * 40}),
    ],
)
async def test_arguments_without_a_form_are_refused_before_anything_is_sent(
    method: str, arguments: dict[str, Any]
) -> None:
    async with served() as (server, place):
        with pytest.raises(NoEffect, match="nothing was sent") as refused:
            await to(place, "/x", method, query=("q",)).call(asking(**arguments))
        assert refused.value.code == "guard/http_argument"
        assert server.heads == []


async def test_a_bug_of_the_resolver_had_no_effect() -> None:
    endpoint = Endpoint("POST", "https://a.example/x")
    driver = HTTPDriver({"op": endpoint}, hosts=["a.example"], resolve=a_bug)
    with pytest.raises(NoEffect, match=r"look-up of a.example failed \(RuntimeError\)"):
        await driver.call(asking())


@settings(max_examples=60)
@given(part=st.text(max_size=40), query=st.text(max_size=40))
def test_an_argument_never_leaves_its_segment_nor_its_value(part: str, query: str) -> None:
    endpoint = Endpoint("GET", "https://a.example/a/{x}/b", query=("q",))
    try:
        target = endpoint.target({"x": part, "q": query})
    except NoEffect:
        odd = [char for char in part + query if not char.isprintable()]
        assert odd or part in ("", ".") or ".." in unquote(part)
        return
    parts = urlsplit(target)
    _, first, segment, last = parts.path.split("/")
    assert (first, unquote(segment), last) == ("a", part, "b")
    assert segment not in (".", "..")
    assert parse_qsl(parts.query, keep_blank_values=True) == [("q", query)]
    assert not parts.netloc
    assert not parts.fragment


@pytest.mark.parametrize(
    "more", [gzip.compress(b", 2]"), b"x", b"\0" * 500_000], ids=["packed", "a byte", "zeros"]
)
async def test_what_follows_the_end_of_a_compression_is_not_dropped_silently(more: bytes) -> None:
    hostile = answer(gzip.compress(b"[1") + more, Content_Encoding="gzip")
    async with served(hostile) as (_, place):
        with pytest.raises(HTTPFailed, match="after the end of its compression"):
            await to(place).call(asking())


@pytest.mark.parametrize(
    "start", [b"HTTP/1.1 200 OK\r\nX: ", answer(b"").replace(b": 0", b": 9999999")]
)
async def test_a_server_that_drips_is_left_in_time(start: bytes) -> None:
    gone = asyncio.Event()

    async def drip(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write(start)
            while not writer.is_closing():
                writer.write(b"x")
                await writer.drain()
                await asyncio.sleep(0.01)
        except ConnectionError:
            pass
        finally:
            gone.set()
            writer.close()

    async with await asyncio.start_server(drip, "127.0.0.1", 0) as listening:
        place = f"127.0.0.1:{listening.sockets[0].getsockname()[1]}"
        with pytest.raises(HTTPFailed, match="TimeoutError"):
            await to(place, "/x", "POST").call(asking(0.3))
        await gone.wait()


@pytest.fixture
def public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Addresses of this machine stand for public ones, which a test cannot have."""
    monkeypatch.setattr(module, "address_fault", lambda text: "")


class Silent:
    """Accepts connections, says nothing, and hears when the other side leaves."""

    def __init__(self) -> None:
        self.heard, self.gone = asyncio.Event(), asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        self.heard.set()
        await reader.read()
        self.gone.set()
        writer.close()


def secure(port: int, *found: str, tls: ssl.SSLContext | None = None) -> HTTPDriver:
    async def known(host: str, asked: int) -> Sequence[str]:
        return found

    return HTTPDriver(
        {"op": Endpoint("POST", f"https://a.example:{port}/x")},
        hosts=[f"a.example:{port}"], resolve=known, tls=tls,
    )  # fmt: skip


@pytest.mark.usefixtures("public")
async def test_a_connection_without_a_handshake_is_closed_in_time_and_on_a_cancellation() -> None:
    async def in_time(running: Awaitable[Any], silent: Silent) -> None:
        with pytest.raises(NoEffect, match=r"TimeoutError.*nothing was sent"):
            await running

    async def cut(running: Awaitable[Any], silent: Silent) -> None:
        task = asyncio.ensure_future(running)
        await silent.heard.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    ways: list[tuple[float, Callable[[Awaitable[Any], Silent], Awaitable[None]]]]
    ways = [(0.3, in_time), (30.0, cut)]
    for timeout, way in ways:
        silent = Silent()
        async with await asyncio.start_server(silent, "127.0.0.1", 0) as listening:
            driver = secure(listening.sockets[0].getsockname()[1], "127.0.0.1")
            await way(driver.call(asking(timeout)), silent)
            await silent.gone.wait()


@pytest.mark.usefixtures("public")
async def test_an_address_that_says_nothing_leaves_time_for_the_next() -> None:
    authority, silent = trustme.CA(), Silent()
    tls = server_tls(authority, "a.example")
    async with served(answer("fine"), tls=tls) as (server, place):
        port = int(place.rpartition(":")[2])
        async with await asyncio.start_server(silent, "127.0.0.2", port):
            driver = secure(port, "127.0.0.2", "127.0.0.1", tls=client_tls(authority))
            assert (await driver.call(asking(4.0))).value == "fine"
            assert silent.heard.is_set()
            await silent.gone.wait()
        assert len(server.heads) == 1


def unchecked(check_hostname: bool) -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.check_hostname = check_hostname
    if not check_hostname:
        context.verify_mode = ssl.CERT_NONE
    return context


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("key_header", "X\r\nY"), ("key_header", "Host"), ("key_header", "X-TOKEN"),
        ("key_header", 7), ("refusals", ["404"]), ("refusals", [200]), ("refusals", "404"),
        ("refusals", [600]), ("tls", unchecked(False)), ("tls", True), ("resolve", "8.8.8.8"),
        ("most_bytes", 0), ("endpoints", [1]), ("endpoints", {"op": "https://a.example/x"}),
    ],
)  # fmt: skip
def test_an_option_that_would_not_hold_is_refused(option: str, value: Any) -> None:
    endpoint = Endpoint("POST", "https://a.example/x", headers={"X-Token": "secret"})
    given: dict[str, Any] = {"endpoints": {"op": endpoint}, "hosts": ["a.example"], "tls": TLS}
    HTTPDriver(**given)
    with pytest.raises(InvalidValue, match=option) as refused:
        HTTPDriver(**{**given, option: value})
    assert "secret" not in str(refused.value)


@pytest.mark.parametrize(
    "wrong",
    [
        {"query": "page"}, {"query": (1,)}, {"query": ("",)}, {"url": 7},
        {"headers": {"X": 7}}, {"headers": {7: "x"}}, {"headers": ["X"]},
        {"headers": {"X-A": "1", "x-a": "2"}},
    ],
)  # fmt: skip
def test_an_endpoint_of_other_types_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match=rf"endpoint\.{next(iter(wrong))}"):
        Endpoint(**{"method": "GET", "url": "https://a.example/x", **wrong})


async def test_headers_are_those_that_were_checked_and_one_of_a_kind() -> None:
    headers = {"accept": "text/csv"}
    async with served(answer(1)) as (server, place):
        endpoint = Endpoint("GET", f"http://{place}/x", headers=headers)
        headers["Host"] = "b.example"
        await HTTPDriver({"op": endpoint}, loopback=[place]).call(asking())
    lines = server.heads[0].lower().split("\r\n")
    assert [line for line in lines if line.startswith("accept:")] == ["accept: text/csv"]
    assert [line for line in lines if line.startswith("host:")] == [f"host: {place}"]


async def test_a_secret_of_the_operator_is_in_no_log_nor_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    async with served(answer(1), b"") as (_, place):
        driver = to(place, "/x", "POST", headers={"X-Token": "hidden-7"})
        await driver.call(asking())
        with pytest.raises(HTTPFailed) as failed:
            await driver.call(asking())
    assert any(record.name.startswith("httpcore") for record in caplog.records)
    endpoint = Endpoint("GET", "https://a.example/x", headers={"X-Token": "hidden-7"})
    told = [record.getMessage() for record in caplog.records]
    assert "hidden-7" not in "".join([*told, repr(endpoint), repr(driver), repr(failed.value)])


@pytest.mark.parametrize(
    ("charset", "sent"),
    [("iso-8859-1", b"\xe4"), ('"windows-1252"', b"\xe4"), ("utf-8", "ä".encode()),
     ("rot13", "ä".encode()), ("unicode_escape", "ä".encode()), ("", "ä".encode())],
)  # fmt: skip
async def test_text_is_read_by_its_character_set_and_by_no_other_codec(
    charset: str, sent: bytes
) -> None:
    async with served(answer(sent, kind=f"text/plain; charset={charset}")) as (_, place):
        assert (await to(place).call(asking())).value == "ä"


def test_without_httpx_the_error_names_the_extra() -> None:
    code = (
        "import sys; sys.modules['httpx'] = None\n"
        "import agentic_kernel_guard as guard\n"
        "guard.InMemoryDriver({})\n"
        "try: guard.HTTPDriver({})\n"
        "except guard.GuardError as error: print(error.code, error.message)"
    )
    said = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    wanted = "guard/not_installed HTTPDriver needs httpx; install agentic-kernel-guard[http]\n"
    assert said.stdout == wanted
