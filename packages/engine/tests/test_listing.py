"""The list of a server's models, for `doctor`: told if there is one, and no key gets out."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_engine.checks import Check
from agentic_kernel_engine.listing import models_check
from integration.peers.faults import Fault
from integration.peers.paged import PagedServer

KEY = "sk-secret-0123456789"


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ACME_KEY", KEY)
    monkeypatch.delenv("ACME_URL", raising=False)


async def asked(address: str, **more: Any) -> Check:
    keys = {"ACME_KEY": "Authorization: Bearer {}"}
    return await models_check(
        "acme models", address, "ACME_URL", "/models", **{"keys": keys, **more}
    )


@pytest.mark.parametrize(
    ("page", "detail"),
    [
        ({"data": [{"id": "b"}, {"id": "a"}]}, "2: a, b"),
        ({"models": [{"name": "models/a"}]}, "1: a"),
        ({"data": [{"id": f"m{n:02}"} for n in range(20)]}, "20: m00, m01, m02, m03, m04, m05, "
         "m06, m07, m08, m09, m10, m11, …"),
        ({"data": [{"id": "a\x1b[31m"}, 5, {"id": "x" * 900}]}, f"3: ?, a�[31m, {'x' * 80}"),
        ({"data": []}, "the server tells no list (ValueError)"),
        ({"object": "list"}, "the server tells no list (ValueError)"),
        ([], "the server tells no list (ValueError)"),
        (404, "the server tells no list (status 404)"),
        (500, "the server tells no list (status 500)"),
    ],
    ids=lambda value: str(value)[:40],
)  # fmt: skip
async def test_a_list_is_told_and_a_server_without_one_is_no_fault(page: Any, detail: str) -> None:
    with PagedServer({"/models": page}) as server:
        assert await asked(server.url) == Check("acme models", True, detail)
        [request] = server.asked
    assert request.headers["authorization"] == f"Bearer {KEY}"


@pytest.mark.parametrize("status", [401, 403])
async def test_a_refused_key_is_a_fault(status: int) -> None:
    with PagedServer({"/models": status}) as server:
        found = await asked(server.url)
    assert not found.ok
    assert found.advice == "set a key that the server accepts"
    assert KEY not in str(found)


async def test_without_a_key_nothing_is_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ACME_KEY")
    with PagedServer({"/models": {"data": [{"id": "a"}]}}) as server:
        found = await asked(server.url)
        assert (found.ok, found.detail) == (False, "not asked, because there is no key")
        assert found.advice == "set ACME_KEY"
        assert not server.asked
        assert (await asked(server.url, keys=None)).detail == "1: a"


async def test_no_redirect_is_followed() -> None:
    fault = Fault("moves", lambda exchange: None)
    with PagedServer({"/elsewhere": {"data": [{"id": "a"}]}}, fault=fault) as server:
        server.pages = {**server.pages, "/models": 302}
        found = await asked(server.url)
        assert found.detail == "the server tells no list (status 302)"
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    "address", ["http://127.0.0.1:1", "file:///etc", "http://[::1", "127.0.0.1:1"]
)
async def test_an_address_without_a_server_is_left_to_the_other_check(address: str) -> None:
    found = await asked(address)
    assert found.ok
    assert found.detail.startswith("the server tells no list (")


async def test_the_address_of_the_environment_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    with PagedServer({"/v1/models": {"data": [{"id": "a"}]}}) as server:
        monkeypatch.setenv("ACME_URL", f"{server.url}/v1/")
        assert (await asked("http://127.0.0.1:1")).detail == "1: a"
