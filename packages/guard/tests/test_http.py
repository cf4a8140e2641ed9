"""HTTPDriver: what is sent, what is refused, and servers that attack."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Sequence
from typing import Any

import pytest
import trustme

from agentic_kernel import InvalidValue
from agentic_kernel_guard import (
    AsGiven,
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Endpoint,
    Guard,
    HTTPDriver,
    HTTPFailed,
    Indeterminate,
    MemoryGuardStore,
    NoEffect,
    Query,
    Registry,
    SafetyClass,
    StaticRouter,
)
from agentic_kernel_guard.drivers.http import driver as module
from agentic_kernel_guard.drivers.http.addresses import address_fault, host_fault

from .guards import ANN, KEYS, WHY
from .http_servers import TLS, answer, asking, client_tls, served, server_tls, to


async def test_each_argument_has_its_place() -> None:
    async with served(answer([1]), answer({"ok": True})) as (server, place):
        get = to(place, "/a/{name}/b", query=("q", "page"), headers={"X-Token": "secret"})
        raw = await get.call(asking(name="x/y?z#%41 ä", q=["1", "2 3"], page=2))
        assert (raw.value, raw.driver, raw.source) == ([1], "http", "http")
        head = server.heads[0]
        wanted = "GET /a/x%2Fy%3Fz%23%2541%20%C3%A4/b?q=1&q=2%203&page=2 HTTP/1.1\r\n"
        assert head.startswith(wanted)
        assert f"\r\nHost: {place}\r\n" in head
        assert "\r\nX-Token: secret\r\n" in head
        assert "idempotency" not in head.lower()
        post = to(place, "/a/{id}", "POST", source="crm")
        raw = await post.call(asking(id=7, text="hello", deep={"a": [1]}))
        assert (raw.value, raw.source) == ({"ok": True}, "crm")
        assert json.loads(server.bodies[1]) == {"text": "hello", "deep": {"a": [1]}}
        assert server.heads[1].startswith("POST /a/7 HTTP/1.1\r\n")
        assert "\r\nIdempotency-Key: k_1\r\n" in server.heads[1]


@pytest.mark.parametrize(
    "arguments",
    [
        {}, {"id": ""}, {"id": "."}, {"id": ".."}, {"id": "../../x"}, {"id": "a/../b"},
        {"id": "a\\..\\b"}, {"id": "..;a"}, {"id": "%2e%2e/x"}, {"id": "%2E."}, {"id": None},
        {"id": {"a": 1}}, {"id": ["a"]},
        {"id": "a\r\nX-Evil: 1"}, {"id": "a\x00"}, {"id": "x" * 2_001}, {"id": "a\u202eb"},
        {"id": 1, "other": 2}, {"id": 1, "q": {"a": 1}}, {"id": 1, "q": "\n"},
        {"id": 1, "q": "a\ud800"}, {"id": 10**5000},
    ],
)  # fmt: skip
async def test_an_argument_that_fits_nowhere_is_refused_before_anything_is_sent(
    arguments: dict[str, Any],
) -> None:
    async with served() as (server, place):
        driver = to(place, "/a/{id}", query=("q",))
        with pytest.raises(NoEffect):
            await driver.call(asking(**arguments))
        assert server.heads == []


@pytest.mark.parametrize(
    "wrong",
    [
        {"url": "https://a.example/x?y=1"}, {"url": "https://a.example/x#y"},
        {"url": "https://{host}.example/x"}, {"url": "https://a.example"},
        {"url": "https://a.example/{a!r}"}, {"url": "https://a.example/{a.b}"},
        {"url": "https://a.example/{}"}, {"url": "https://a.example/{a"},
        {"url": "https://a.example/\r\nX: 1"}, {"url": "https://a.example\\@b.example/"},
        {"url": "https://a.example/{q}", "query": ("q",)}, {"method": "CONNECT"},
        {"method": "get"}, {"headers": {"Host": "b"}}, {"headers": {"content-length": "1"}},
        {"headers": {"X": "a\r\nY: b"}}, {"headers": {"X": "a\x00"}}, {"headers": {"X:": "a"}},
        {"headers": {"X": "ä"}}, {"headers": {"Transfer-Encoding": "chunked"}},
    ],
)  # fmt: skip
def test_a_wrong_endpoint_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        Endpoint(**{"method": "GET", "url": "https://a.example/x", **wrong})


@pytest.mark.parametrize(
    "url",
    [
        "http://a.example/x", "https://b.example/x", "https://a.example:444/x",
        "https://user@a.example/x", "https://user:pw@a.example/x", "https://A.example/x",
        "https://a.example./x", "https://127.0.0.1/x", "https://0x7f.1/x", "https://2130706433/x",
        "https://017700000001/x", "https://[::1]/x", "https://[fe80::1%25eth0]/x",
        "ftp://a.example/x", "https://xn--a.example/x", "https://a.example:0443/x",
        "https://a%2eexample/x", "https://a.example:99999/x", "http://127.0.0.1:8081/x",
    ],
)  # fmt: skip
def test_an_endpoint_is_at_a_place_of_the_list(url: str) -> None:
    with pytest.raises(InvalidValue):
        HTTPDriver({"op": Endpoint("GET", url)}, hosts=["a.example"], loopback=["127.0.0.1:8080"])


@pytest.mark.parametrize(
    "host",
    ["127.0.0.1", "0x7f.0.0.1", "1.2.3", "a.example.", "A.example", "ä.example", "a..b", "-a.b",
     "a_b.c", "a.0x1", "::1", "", "a" * 64 + ".b", "a.b:0"],
)  # fmt: skip
def test_a_host_is_a_plain_name(host: str) -> None:
    assert host == "a.b:0" or host_fault(host)
    with pytest.raises(InvalidValue):
        HTTPDriver({}, hosts=[host])
    with pytest.raises(InvalidValue):
        HTTPDriver({}, loopback=["10.0.0.1:80"])


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "172.31.255.255",
        "192.168.1.1", "169.254.169.254", "100.64.0.1", "192.0.0.8", "192.0.2.1", "192.88.99.1",
        "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255",
        "::1", "::", "::ffff:127.0.0.1", "::ffff:8.8.8.8", "::127.0.0.1", "64:ff9b::7f00:1",
        "64:ff9b:1::1", "2002:7f00:1::", "2001::1", "2001:db8::1", "fc00::1", "fd00:ec2::254",
        "fe80::1", "fe80::1%eth0", "2600::1%1", "fec0::1", "ff02::1", "100::1", "3fff::1",
        "5f00::1", "4000::1", "168.63.129.16", "0x7f000001", "2130706433", "127.1",
        "0177.0.0.1", "a.example", "",
    ],
)  # fmt: skip
async def test_no_connection_goes_to_an_address_that_is_not_public(address: str) -> None:
    assert address_fault(address)
    assert not address_fault("8.8.8.8")
    assert not address_fault("2606:4700::1111")

    async def mixed(host: str, port: int) -> Sequence[str]:
        return ["8.8.8.8", address]

    endpoints = {"op": Endpoint("GET", "https://a.example/x")}
    driver = HTTPDriver(endpoints, hosts=["a.example"], resolve=mixed, tls=TLS)
    with pytest.raises(NoEffect) as refused:
        await driver.call(asking())
    assert refused.value.code == "guard/http_address"


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


async def test_the_connection_goes_to_the_address_that_was_checked_and_tls_to_the_name(
    authority: trustme.CA, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Only so can a server of this machine stand for a public one.
    monkeypatch.setattr(module, "address_fault", lambda text: "" if text == "127.0.0.1" else "no")
    looked: list[str] = []

    async def once(host: str, port: int) -> Sequence[str]:
        looked.append(host)
        # The second look-up gives another address, as in a rebinding attack.
        return ["127.0.0.1"] if len(looked) == 1 else ["169.254.169.254"]

    for names, met in ((["a.example"], True), (["b.example", "127.0.0.1"], False)):
        looked.clear()
        async with served(answer("fine"), tls=server_tls(authority, *names)) as (server, place):
            port = place.rpartition(":")[2]
            driver = HTTPDriver(
                {"op": Endpoint("POST", f"https://a.example:{port}/x")},
                hosts=[f"a.example:{port}"], resolve=once, tls=client_tls(authority),
            )  # fmt: skip
            if met:
                assert (await driver.call(asking())).value == "fine"
                assert f"\r\nHost: a.example:{port}\r\n" in server.heads[0]
            else:
                with pytest.raises(NoEffect) as refused:
                    await driver.call(asking())
                assert refused.value.code == "guard/http_unreached"
                assert server.heads == []
        assert looked == ["a.example"]


async def test_nothing_comes_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    async with served(answer(1, Set_Cookie="a=1"), answer(2)) as (server, place):
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, "http://127.0.0.1:1")
        driver = to(place)
        assert (await driver.call(asking())).value == 1
        assert (await driver.call(asking())).value == 2
        assert "cookie" not in server.heads[1].lower()


@pytest.mark.parametrize(
    "target",
    [
        "http://169.254.169.254/latest", "http://[::1]/", "http://2852039166/", "http://0xA9.254/",
        "http://[::ffff:127.0.0.1]/", "https://b.example/", "https://a.example:444/",
        "//169.254.169.254/x", "ftp://a.example/", "file:///etc/passwd", "https://a.example@b/",
        "https://a.example\\@b.example/", "/x\ty", "https://[::1",
    ],
)  # fmt: skip
async def test_a_redirect_to_another_place_is_refused(target: str) -> None:
    moved = answer(b"", "302 Found", Location=target)
    async with served(moved) as (server, place):
        driver = to(place, hosts=["a.example"])
        with pytest.raises((NoEffect, HTTPFailed)):
            await driver.call(asking())
        assert len(server.heads) == 1


async def test_a_redirect_is_followed_within_the_list_and_without_secrets() -> None:
    async with served(answer("there")) as (there, other):
        near = answer(b"", "301 Moved Permanently", Location="/y?a=%20")
        far = answer(b"", "307 Temporary Redirect", Location=f"http://{other}/z")
        async with served(near, far) as (here, place):
            endpoint = Endpoint("GET", f"http://{place}/x", headers={"X-Token": "secret"})
            driver = HTTPDriver({"op": endpoint}, loopback=[place, other])
            assert (await driver.call(asking())).value == "there"
            assert here.heads[1].startswith("GET /y?a=%20 ")
            assert ["X-Token" in head for head in (*here.heads, *there.heads)] == [
                True,
                True,
                False,
            ]


async def test_a_redirect_that_does_not_end_is_left() -> None:
    async with served(*[answer(b"", "302 Found", Location="/x")] * 9) as (server, place):
        with pytest.raises(HTTPFailed, match="redirects over 3 times"):
            await to(place).call(asking())
        assert len(server.heads) == 4


@pytest.mark.parametrize("status", ["302 Found", "307 Temporary Redirect"])
async def test_a_request_that_changes_something_follows_no_redirect(status: str) -> None:
    async with served(answer(b"", status, Location="/y"), answer(1)) as (server, place):
        with pytest.raises(HTTPFailed):
            await to(place, "/x", "POST").call(asking())
        assert len(server.heads) == 1


@pytest.mark.parametrize(
    ("status", "error"),
    [("400 Bad", NoEffect), ("404 No", NoEffect), ("429 Slow", NoEffect), ("408 Late", HTTPFailed),
     ("409 Conflict", HTTPFailed), ("500 Oh", HTTPFailed), ("503 Oh", HTTPFailed),
     ("101 Switching Protocols", HTTPFailed), ("304 Not Modified", HTTPFailed)],
)  # fmt: skip
async def test_a_status_says_whether_something_was_done(
    status: str, error: type[Exception]
) -> None:
    secret = "what the server says of sk-abcdefghij"
    async with served(answer(secret, status)) as (_, place):
        with pytest.raises(error) as said:
            await to(place, "/x", "POST", headers={"X-Token": "hidden"}).call(asking())
        assert status[:3] in str(said.value) or status.startswith("101")
        assert "sk-abc" not in str(said.value)
        assert "hidden" not in repr(said.value) + repr(said.value.__context__)


BOMB = gzip.compress(b"\0" * 3_000_000, mtime=0)


@pytest.mark.parametrize(
    "hostile",
    [
        answer(BOMB, Content_Encoding="gzip"),
        answer(gzip.compress(BOMB, mtime=0), Content_Encoding="gzip, gzip"),
        answer(b"x", Content_Encoding="br"),
        answer(b"no gzip", Content_Encoding="gzip"),
        answer(gzip.compress(b"whole", mtime=0)[:-6], Content_Encoding="gzip"),
        answer(b"x" * 200_000),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"4000\r\n" + b"x" * 0x4000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort",
        b"HTTP/1.1 200 OK\r\n" + b"X: " + b"y" * 200_000,
        b"HTTP/1.1 200 OK\r\n" + b"".join(b"X%d: y\r\n" % number for number in range(30_000)),
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxy",
        b"SSH-2.0-OpenSSH\r\n",
        b"",
    ],
)
async def test_a_hostile_answer_fails_and_what_it_did_is_not_known(hostile: bytes) -> None:
    async with served(hostile) as (_, place):
        with pytest.raises(HTTPFailed):
            await to(place, "/x", "POST", most_bytes=100_000).call(asking())


async def test_answers_are_json_text_bytes_or_nothing() -> None:
    script = [
        answer({"a": 1}, kind="application/problem+json; charset=utf-8"),
        answer(b'{"a": ', kind="application/json"),
        answer(b"[" * 100_000, kind="application/json"),
        answer("ä".encode(), kind="text/plain; charset=utf-8"),
        answer(b"\xff\x00", kind="application/octet-stream"),
        answer(b"", "204 No Content"),
        answer(gzip.compress(b"[1, 2]"), Content_Encoding="gzip"),
    ]
    async with served(*script) as (_, place):
        driver = to(place)
        values = [(await driver.call(asking())).value for _ in script]
    assert values == [{"a": 1}, '{"a": ', "[" * 100_000, "ä", b"\xff\x00", None, [1, 2]]


async def test_a_server_that_says_nothing_is_left_in_time_and_on_a_cancellation() -> None:
    async with served(None) as (server, place):
        with pytest.raises(HTTPFailed, match="TimeoutError"):
            await to(place).call(asking(0.2))
        await server.gone.wait()
    async with served(None) as (server, place):
        cut = asyncio.create_task(to(place).call(asking()))
        await server.asked.wait()
        cut.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cut
        await server.gone.wait()


async def test_what_is_not_reached_was_not_sent() -> None:
    async with served() as (_, place):
        pass
    with pytest.raises(NoEffect, match="nothing was sent"):
        await to(place, "/x", "POST").call(asking())

    async def nowhere(host: str, port: int) -> Sequence[str]:
        raise OSError("no such host")

    async def never(host: str, port: int) -> Sequence[str]:
        await asyncio.Event().wait()
        return []

    for resolve in (nowhere, never):
        driver = HTTPDriver(
            {"op": Endpoint("POST", "https://a.example/x")}, hosts=["a.example"], resolve=resolve
        )
        with pytest.raises(NoEffect, match="nothing was sent"):
            await driver.call(asking(0.2))
    with pytest.raises(NoEffect, match="no operation"):
        await HTTPDriver({}).call(asking())


async def test_the_five_methods_on_an_http_api() -> None:
    rows = [{"id": number, "card": "4111 1111 1111 1111"} for number in range(80)]
    async with served(answer(rows), answer({"id": 80}, "201 Created"), b"") as (server, place):
        driver = HTTPDriver(
            {
                "list": Endpoint("GET", f"http://{place}/orders", query=("page",)),
                "add": Endpoint("POST", f"http://{place}/orders", headers={"X-Token": "hidden"}),
            },
            loopback=[place], source="shop",
        )  # fmt: skip
        specs = [
            CapabilitySpec("shop/list", "list the orders", "list", safety=SafetyClass.READ),
            CapabilitySpec("shop/add", "add an order", "add", safety=SafetyClass.WRITE),
        ]
        ann = type(ANN)("ann", "acme", roles=frozenset({"writer"}))
        guard = Guard(
            Registry(specs), StaticRouter({spec.name: [driver] for spec in specs}),
            policy=DefaultPolicy(), store=MemoryGuardStore(), keys=KEYS, resolver=AsGiven(),
        )  # fmt: skip
        (found,) = await guard.request_capabilities("list orders", 1)
        assert found.spec.name == "shop/list"
        token = await guard.grant_capability(CapabilityRequest("shop/list", {"page": 1}), ann)
        frame = await guard.invoke(token, ann, {"page": 1})
        assert frame is not None
        assert "80 rows" in frame.summary
        assert "4111" not in json.dumps(frame.as_json())
        assert frame.handle is not None
        more = await guard.expand(frame.handle, ann, Query(offset=79))
        assert [row["id"] for row in more.rows] == [79]
        for number in (1, 2):
            asked = CapabilityRequest("shop/add", {"text": "new"}, key=f"order-{number}")
            token = await guard.grant_capability(asked, ann, WHY)
            if number == 1:
                assert await guard.invoke(token, ann, {"text": "new"}) is not None
                continue
            with pytest.raises(Indeterminate):
                await guard.invoke(token, ann, {"text": "new"})
        keys = [line for line in server.heads[2].split("\r\n") if line.startswith("Idempotency")]
        action = keys[0].partition(": ")[2]
        assert (await guard.explain(action)).outcome == "indeterminate"
        assert "hidden" not in str([link.body for link in await guard.store.links()])
