"""The entry of a provider on the skeleton: its planner, and its checks for `doctor`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, cast

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.api_entry import api_entry
from agentic_kernel_engine.discovery import NoOptions
from agentic_kernel_engine.inputs import Inputs
from agentic_kernel_engine.providers import APIPlanner, APIRuntime, SDKClient
from integration.peers.paged import PagedServer

KEY = "sk-secret-0123456789"


class Client(SDKClient):
    sdk = "json"
    kind = "JSONEncoder"
    http = "json"
    address_variable = "ACME_URL"
    usual = "http://127.0.0.1:9"
    key_variables = ("ACME_KEY",)


class Keyed(Client):
    key_headers: ClassVar = {"ACME_KEY": "x-key: {}"}
    models = "/models"
    models_headers: ClassVar = {"version": "1"}


class AcmePlanner(APIPlanner):
    impl = "acme"
    client = Client
    images = ""

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, options)

    def _request(self, *_: Any) -> Any:
        raise AssertionError("no model is asked here")

    def _ask(self, *_: Any) -> Any:
        raise AssertionError("no model is asked here")


class KeyedPlanner(AcmePlanner):
    client = Keyed


class AcmeRuntime(APIRuntime):
    asks = AcmePlanner

    def __init__(self, model: str, **options: Any) -> None:
        super().__init__(model, None, options)


async def test_a_client_without_keys_and_models_has_its_server_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("ACME_URL", raising=False)
    entry = api_entry(AcmePlanner, "models of Acme")
    assert (entry.summary, entry.options) == ("models of Acme", NoOptions)
    assert cast(AcmePlanner, entry.make("m", NoOptions())).model == "m"
    assert entry.checks is not None
    [check] = await entry.checks()
    assert (check.name, check.ok) == ("acme server", False)


async def test_the_key_the_server_and_its_models_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("ACME_KEY", KEY)
    entry = api_entry(KeyedPlanner, "")
    assert entry.checks is not None
    with PagedServer({"/models": {"data": [{"id": "a"}]}}) as server:
        monkeypatch.setenv("ACME_URL", server.url)
        checks = await entry.checks()
        [request] = server.asked
    assert [each.name for each in checks] == ["acme key", "acme server", "acme models"]
    assert all(each.ok for each in checks)
    assert checks[-1].detail == "1: a"
    assert (request.headers["x-key"], request.headers["version"]) == (KEY, "1")


def test_an_entry_may_make_its_planner_by_options() -> None:
    @dataclass(frozen=True)
    class Options:
        model: str = "other"

    entry = api_entry(
        AcmePlanner, "", make=lambda _, options: AcmePlanner(options.model), options=Options
    )
    assert cast(AcmePlanner, entry.make("m", Options())).model == "other"


def test_a_runtime_parts_its_keywords_and_takes_what_its_planner_takes() -> None:
    runtime = AcmeRuntime("m", timeout=5.0, runtime_kind="mine", on_deny="end")
    assert isinstance(runtime.planner, AcmePlanner)
    assert runtime.runtime_kind == "mine"
    assert AcmeRuntime("m").runtime_kind == "acme"
    inputs: Inputs = AcmePlanner.inputs
    assert AcmeRuntime.inputs is runtime.inputs is inputs
    with pytest.raises(TypeError, match="no keyword argument 'nonsense'"):
        AcmeRuntime("m", nonsense=1)
    with pytest.raises(InvalidValue, match="timeout"):
        AcmeRuntime("m", timeout=0)
