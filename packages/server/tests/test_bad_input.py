"""Bad input over the wire: framing, sizes and slowness. The server goes on and stores nothing."""

from __future__ import annotations

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from agentic_kernel_engine import MemoryStore
from agentic_kernel_server.executions import KIND
from agentic_kernel_server.security import Most, Sizes
from agentic_kernel_server.security.protocol import GuardedProtocol

from .fronts import Crowd, fronted
from .wires import Wire, head, post, wired

CREATE = "/v0/executions"
TALL = {"agent_id": "swe", "input": {"n": 1}}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
async def url(store: MemoryStore) -> AsyncIterator[str]:
    async with fronted(store, sizes=Sizes(body=10_000, seconds=0.2)) as (address, _):
        yield address
        async with wired(address) as wire:  # Whatever came before, it still serves.
            await wire.send(head("GET", "/v0/health"))
            assert (await wire.answer())[0] == 200


async def executions(store: MemoryStore) -> int:
    return len(await store.find(kinds=[KIND]))


async def said(url: str, request: bytes | str) -> tuple[int, Any]:
    async with wired(url) as wire:
        await wire.send(request)
        status, _, body = await wire.answer()
        return status, body


def body_of(text: str, *lines: str) -> str:
    return head("POST", CREATE, "Content-Type: application/json", *lines) + text


GOOD = json.dumps(TALL)
FRAMING = {
    "both lengths": body_of(GOOD, f"Content-Length: {len(GOOD)}", "Transfer-Encoding: chunked"),
    "both lengths, hidden request": body_of(
        "0\r\n\r\nPOST /v0/executions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 19\r\n\r\n"
        '{"agent_id": "bad"}',
        "Content-Length: 4",
        "Transfer-Encoding: chunked",
    ),
    "two lengths": body_of(GOOD, "Content-Length: 3", f"Content-Length: {len(GOOD)}"),
    "a list of lengths": body_of(GOOD, f"Content-Length: 3, {len(GOOD)}"),
    "a signed length": body_of(GOOD, f"Content-Length: +{len(GOOD)}"),
    "a negative length": body_of(GOOD, "Content-Length: -1"),
    "a huge length": body_of(GOOD, f"Content-Length: {'9' * 30}"),
    "an unknown coding": body_of(GOOD, "Transfer-Encoding: gzip, chunked"),
    "a coding twice": body_of(
        "0\r\n\r\n", "Transfer-Encoding: chunked", "Transfer-Encoding: chunked"
    ),
    "a coding in disguise": body_of("0\r\n\r\n", "Transfer-Encoding: \x0bchunked"),
    "a space before the colon": body_of(GOOD, f"Content-Length : {len(GOOD)}"),
    "a folded header": body_of(GOOD, "X-A: 1\r\n Content-Length: 0", "Content-Length: x"),
    "a chunk size that is none": body_of("zz\r\n", "Transfer-Encoding: chunked"),
    "a NUL in a header": body_of(GOOD, "X-A: a\x00b"),
    "no host": "POST /v0/executions HTTP/1.1\r\nContent-Length: 0\r\n\r\n",
    "two hosts": body_of("", "Host: evil.example", "Content-Length: 0"),
    "another host": head("GET", CREATE).replace("127.0.0.1", "evil.example"),
    "another site": head("GET", CREATE, "Origin: http://evil.example"),
    "no HTTP at all": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + "\r\n\r\n",
    "HTTP/2": "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    "a head that is too large": head("GET", CREATE, "X-A: " + "a" * 70_000),
    "too many headers": head("GET", CREATE, *(f"X-{n}: 1" for n in range(150))),
    "a path that is too long": head("GET", "/" + "a" * 40_000),
}  # fmt: skip


@pytest.mark.parametrize("request_text", FRAMING.values(), ids=FRAMING)
async def test_a_request_that_is_no_good_http_is_refused(
    url: str, store: MemoryStore, request_text: str
) -> None:
    async with wired(url) as wire:
        await wire.send(request_text)
        status, _, body = await wire.answer()
        assert status in (400, 403, 404, 501)
        assert json.loads(body).keys() == {"error", "code", "details"}
        assert b"HTTP/1.1 2" not in await closed(wire, status)
    assert await executions(store) == 0


async def closed(wire: Wire, status: int) -> bytes:
    """The bytes until the server closed; a mere refusal of the route keeps the connection."""
    if status in (403, 404):
        return b""
    return await wire.rest()


BODIES: dict[str, bytes] = {
    "nothing": b"",
    "no JSON": b"{",
    "a list": b"[]",
    "a number": b"1e999",
    "NaN": b'{"agent_id": "swe", "input": NaN}',
    "infinity": b'{"agent_id": "swe", "input": 1e999}',
    "a long integer": b'{"agent_id": "swe", "input": ' + b"9" * 5_000 + b"}",
    "deep": b'{"agent_id": "swe", "input": ' + b"[" * 4_000 + b"]" * 4_000 + b"}",
    "a lone surrogate": b'{"agent_id": "swe", "input": "\\ud800"}',
    "NUL in the agent": b'{"agent_id": "s\\u0000e"}',
    "a newline in the agent": b'{"agent_id": "s\\ne"}',
    "no UTF-8": b'{"agent_id": "\xff"}',
    "no agent": b"{}",
    "an empty agent": b'{"agent_id": ""}',
    "a long agent": b'{"agent_id": "' + b"a" * 5_000 + b'"}',
    "labels of another type": b'{"agent_id": "swe", "labels": {"a": 1}}',
    "a long label": b'{"agent_id": "swe", "labels": {"a": "' + b"a" * 1_000 + b'"}}',
    "a body that is too large": b'{"agent_id": "swe", "input": "' + b"a" * 20_000 + b'"}',
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
async def test_a_body_that_cannot_be_used_gets_the_codes_answer(
    url: str, store: MemoryStore, body: bytes
) -> None:
    status, text = await said(url, post(CREATE, body))
    answer = json.loads(text)
    assert (status, answer["code"]) == (400, "VALIDATION_ERROR")
    assert set(answer) == {"error", "code", "details"}
    assert len(answer["error"]) < 1_000
    assert await executions(store) == 0


async def test_a_body_in_chunks_is_too_large_even_if_it_names_no_length(
    url: str, store: MemoryStore
) -> None:
    async with wired(url) as wire:
        await wire.send(head("POST", CREATE, "Transfer-Encoding: chunked"))
        for _ in range(20):
            await wire.send(b"400\r\n" + b"a" * 0x400 + b"\r\n")
        assert (await wire.answer())[0] == 400
    assert await executions(store) == 0


async def test_a_body_that_comes_too_slowly_is_refused(url: str, store: MemoryStore) -> None:
    async with wired(url) as wire:
        await wire.send(head("POST", CREATE, "Content-Length: 100") + '{"agent_id": ')
        status, _, body = await wire.answer()
        assert (status, b"did not arrive" in body) == (400, True)
        assert await wire.rest() == b""
    assert await executions(store) == 0


class Hasty(GuardedProtocol):
    head_seconds = 0.2
    stalled_seconds = 0.2
    most_connections = 5


@pytest.mark.parametrize(
    "sent",
    ["", "\r\n", "GET /v0/health HTTP/1.1\r\n", "GET /v0/health HTTP/1.1\r\nHost: 127.0"],
    ids=["nothing", "a blank line", "a line", "half a header"],
)
async def test_a_head_that_comes_too_slowly_closes_the_connection(sent: str) -> None:
    async with fronted(MemoryStore(), Hasty) as (url, _), wired(url) as wire:
        await wire.send(sent)
        if sent == "\r\n":
            assert (await wire.answer())[0] == 400  # h11 takes no blank line before a head.
        elif sent:
            await slow(wire)
        assert await wire.rest() == b""


async def test_a_second_head_that_comes_too_slowly_closes_the_connection() -> None:
    async with fronted(MemoryStore(), Hasty) as (url, _), wired(url) as wire:
        await wire.send(head("GET", "/v0/health"))
        assert (await wire.answer())[0] == 200
        await wire.send("GET /v0/hea")
        await slow(wire)
        assert await wire.rest() == b""


async def slow(wire: Wire) -> None:
    """The answer about a head that comes too slowly."""
    status, _, body = await wire.answer()
    assert (status, json.loads(body)["code"]) == (400, "VALIDATION_ERROR")
    assert "did not arrive within 0.2 s" in json.loads(body)["error"]


async def test_a_chunked_body_that_is_too_large_closes_the_connection(url: str) -> None:
    async with wired(url) as wire:
        whole = b"2ee0\r\n" + b" " * 12_000 + b"\r\n0\r\n\r\n"
        await wire.send(head("POST", CREATE, "Transfer-Encoding: chunked").encode() + whole)
        status, headers, body = await wire.answer()
        assert (status, headers["connection"]) == (400, "close")
        assert "too large" in json.loads(body)["error"]
        assert await wire.rest() == b""


async def test_an_idle_connection_is_kept_for_the_next_request() -> None:
    async with fronted(MemoryStore(), Hasty) as (url, _), wired(url) as wire, wired(url) as other:
        await wire.send(head("GET", "/v0/health"))
        assert (await wire.answer())[0] == 200
        assert await other.rest() == b""  # The other connection's time for a head is over.
        await wire.send(head("GET", "/v0/health"))
        assert (await wire.answer())[0] == 200


async def test_a_reader_that_never_reads_is_cut_and_the_others_go_on() -> None:
    stalled = asyncio.Event()

    class Impatient(Hasty):
        def _cut(self) -> None:
            super()._cut()
            stalled.set()

    large, answers = 3_000_000, 5
    async with fronted(MemoryStore(), Impatient) as (url, _):
        _, text = await said(url, post(CREATE, {"agent_id": "swe", "input": "x" * large}))
        path = f"{CREATE}/{json.loads(text)['id']}"
        with socket.socket() as lazy:
            lazy.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
            lazy.connect(place(url))
            lazy.sendall(head("GET", path).encode() * answers)
            async with asyncio.timeout(20):
                await stalled.wait()
            lazy.settimeout(10)
            assert await asyncio.to_thread(drained, lazy) < large * answers
        assert (await said(url, head("GET", "/v0/health")))[0] == 200


def drained(lazy: socket.socket) -> int:
    """The number of bytes until the connection ends."""
    came = 0
    try:
        while text := lazy.recv(1 << 20):
            came += len(text)
    except ConnectionError:
        pass
    return came


async def test_connections_over_the_bound_are_cut_until_one_is_closed() -> None:
    async with fronted(MemoryStore(), Hasty) as (url, _), wired(url) as first:
        await first.send(head("GET", "/v0/health"))
        assert (await first.answer())[0] == 200
        rest = [await asyncio.open_connection(*place(url)) for _ in range(10)]
        over = [reader for reader, _ in rest]
        done, _ = await asyncio.wait([asyncio.ensure_future(Wire(*each).rest()) for each in rest])
        assert len(done) == len(over)
        for _, writer in rest:
            writer.close()
        await first.send(head("GET", "/v0/health"))
        assert (await first.answer())[0] == 200


def place(url: str) -> tuple[str, int]:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


async def test_pipelined_requests_are_answered_in_their_order(url: str, store: MemoryStore) -> None:
    async with wired(url) as wire:
        wanted = [
            (head("GET", "/v0/health").encode(), 200),
            (post(CREATE, TALL), 201),
            (head("GET", "/v0/none").encode(), 404),
            (post(CREATE, TALL), 201),
            (post(CREATE, {}), 400),
            (head("GET", f"{CREATE}?limit=1").encode(), 200),
        ]
        await wire.send(b"".join(request for request, _ in wanted))
        assert [(await wire.answer())[0] for _ in wanted] == [status for _, status in wanted]
    assert await executions(store) == 2


PATHS = [
    "/v0/executions/../executions",
    "/v0/executions/%2e%2e/%2e%2e/etc/passwd",
    "/v0/executions/..%2f..%2fetc%2fpasswd",
    "/v0/executions/%00",
    "/v0/executions/%0d%0aX-A:%201",
    "/v0/executions/'%20OR%201=1--",
    "/v0/executions/" + "a" * 3_000,
    "/v0/executions/%F0%9F%92%A9",
    "/v0/executions/%ff",
    "//v0/executions",
    "/V0/executions",
    "/v0/executions/",
    "http://127.0.0.1/v0/none",
    "*",
]


@pytest.mark.parametrize("path", PATHS, ids=[str(n) for n in range(len(PATHS))])
async def test_a_path_that_names_nothing_is_not_found(url: str, path: str) -> None:
    async with wired(url) as wire:
        await wire.send(head("GET", path))
        status, headers, body = await wire.answer()
        assert status in (400, 404)
        assert not {"x-a", "location"} & set(headers)
        assert json.loads(body)["code"] in ("NOT_FOUND", "VALIDATION_ERROR")


QUERIES = [
    "limit=0", "limit=-1", "limit=201", "limit=x", "limit=1e3", "limit=9" + "9" * 30, "status=gone",
    "cursor=x", "cursor=%00", "label=x", "label=%00:1", "agent_id=%00",
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
async def test_a_query_that_cannot_be_used_is_refused_or_finds_nothing(
    url: str, query: str
) -> None:
    status, body = await said(url, head("GET", f"{CREATE}?{query}"))
    answer = json.loads(body)
    assert status == 400 or answer["executions"] == []
    assert status in (200, 400)


@pytest.mark.parametrize(
    "id", ["-1", "x", "9" * 40, "1e9", "1.5", "\xff", "1\x0b", " ", "0x10"], ids=repr
)
async def test_a_forged_last_event_id_is_refused_or_means_a_place(url: str, id: str) -> None:
    _, text = await said(url, post(CREATE, TALL))
    stream = f"{CREATE}/{json.loads(text)['id']}/stream"
    async with wired(url) as wire:
        await wire.send(head("GET", stream, f"Last-Event-ID: {id}"))
        async with asyncio.timeout(10):
            line = (await wire.reader.readline()).decode()
        assert line.split()[1] in ("200", "400")


async def test_one_tenant_uses_up_its_streams_and_another_one_goes_on(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    red = crowd.key("ann", "agent")
    blue = crowd.key("bob", "agent", tenant="blue")
    async with fronted(
        MemoryStore(), keys=crowd.file.path, most=Most(streams=3, requests=1_000, burst=1_000)
    ) as (url, _):
        wires = [await opened(url, red, f"c{number}") for number in range(3)]
        refused, line = await opened(url, red, "c3")
        assert " 429 " in line
        other, line = await opened(url, blue, "c0")
        assert " 200 " in line
        await wires[0][0].close()
        async with asyncio.timeout(10):
            while True:
                again, line = await opened(url, red, "c3")
                await again.close()
                if " 200 " in line:
                    break
                await asyncio.sleep(0.01)
        for wire in (refused, other, *(each for each, _ in wires[1:])):
            await wire.close()


async def opened(url: str, key: str, consumer: str) -> tuple[Wire, str]:
    wire = Wire(*await asyncio.open_connection(*place(url)))
    path = f"/v0/agents/stream?agent_id=swe&consumer_id={consumer}"
    await wire.send(head("GET", path, key))
    async with asyncio.timeout(10):
        return wire, (await wire.reader.readline()).decode()


async def test_one_tenant_uses_up_its_requests_and_another_one_goes_on(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    red = crowd.key("ann", "client")
    blue = crowd.key("bob", "client", tenant="blue")
    async with fronted(MemoryStore(), keys=crowd.file.path, most=Most(requests=0.001, burst=3)) as (
        url,
        _,
    ):
        answers = [await said(url, head("GET", CREATE, red)) for _ in range(4)]
        assert [status for status, _ in answers] == [200, 200, 200, 429]
        async with wired(url) as wire:
            await wire.send(head("GET", CREATE, red))
            _, headers, body = await wire.answer()
            assert int(headers["retry-after"]) > 100
            assert json.loads(body)["code"] == "RATE_LIMITED"
        assert (await said(url, head("GET", CREATE, blue)))[0] == 200


async def test_one_tenant_uses_up_its_executions_and_another_one_goes_on(tmp_path: Path) -> None:
    crowd = Crowd(tmp_path)
    red = crowd.key("ann", "client")
    blue = crowd.key("bob", "client", tenant="blue")
    async with fronted(MemoryStore(), keys=crowd.file.path, most=Most(executions=2)) as (url, _):
        statuses = [(await said(url, post(CREATE, TALL, red)))[0] for _ in range(3)]
        assert statuses == [201, 201, 429]
        assert (await said(url, post(CREATE, TALL, blue)))[0] == 201


def chunked(*chunks: bytes) -> bytes:
    """A request with these chunks, one after the other."""
    start = head("POST", CREATE, "Transfer-Encoding: chunked").encode()
    return start + b"".join(b"%x\r\n%s\r\n" % (len(each), each) for each in chunks)


async def test_a_body_in_too_many_chunks_is_refused_and_its_connection_closed(
    url: str, store: MemoryStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_kernel_server.security.protocol.MOST_CHUNKS", 100)
    text = GOOD.encode().ljust(100)
    async with wired(url) as wire:
        await wire.send(chunked(*(text[n : n + 1] for n in range(100))) + b"0\r\n\r\n")
        assert (await wire.answer())[0] == 201
        # The count begins anew with each request.
        await wire.send(chunked(*(b" " for _ in range(101))))
        assert (await wire.answer())[0] == 400
        assert b"HTTP/1.1" not in await wire.rest()
    assert await executions(store) == 1


async def test_a_body_that_breaks_after_its_head_is_answered_once_and_logs_no_fault(
    url: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with wired(url) as wire:
        await wire.send(chunked(b"{") + b"zz\r\n")
        assert (await wire.answer())[0] == 400
        assert b"HTTP/1.1" not in await wire.rest()
    assert [each for each in caplog.records if each.exc_info] == []


async def test_another_version_of_http_is_refused(url: str) -> None:
    status, body = await said(url, head("GET", "/v0/health").replace("HTTP/1.1", "HTTP/2.0"))
    assert (status, json.loads(body)["code"]) == (400, "VALIDATION_ERROR")


async def test_what_runners_offer_and_publish_is_bounded(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("agentic_kernel_server.routes.runners.MOST_BYTES", 5_000)
    monkeypatch.setattr("agentic_kernel_server.runners.registry.MOST_LISTED", 6_000)
    globs = ",".join(f"a{n}*" for n in range(51))
    query = f"/v0/runners/stream?runner_id=r&consumer_id=c&capabilities={globs}"
    assert (await said(url, head("GET", query)))[0] == 400
    tools = [{"id": "t", "description": "x" * 4_000}]
    assert (await said(url, post("/v0/runners/r/tools", {"tools": tools * 2})))[0] == 400
    assert (await said(url, post("/v0/runners/r/tools", {"tools": tools})))[0] == 200
    assert (await said(url, head("GET", "/v0/tools")))[0] == 200
    assert (await said(url, post("/v0/runners/s/tools", {"tools": tools})))[0] == 200
    status, body = await said(url, head("GET", "/v0/tools"))
    assert (status, "6,000 bytes" in json.loads(body)["error"]) == (400, True)


async def test_signals_are_bounded_in_size(store: MemoryStore) -> None:
    async with fronted(store) as (url, _):
        _, made = await said(url, post(CREATE, TALL))
        path = f"{CREATE}/{json.loads(made)['id']}/signal"
        big = {"signal_type": "go", "payload": "x" * 256 * 1024}
        status, body = await said(url, post(path, big))
        assert (status, json.loads(body)["code"]) == (400, "VALIDATION_ERROR")
        assert (await said(url, post(path, {**big, "payload": "x" * 250_000})))[0] == 200


@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b'{"agent_id": "swe", "input": "\xff"}', "not UTF-8 at byte 30"),
        (b'{"agent_id": "swe", "input": "\\ud800"}', "half a surrogate pair"),
        (b'{"agent_id": "swe", "timeout": 0}', "timeout is 0 seconds; use more than 0"),
    ],
)
async def test_a_refusal_names_the_fault(url: str, body: bytes, why: str) -> None:
    status, text = await said(url, post(CREATE, body))
    assert status == 400
    assert why in json.loads(text)["error"]
