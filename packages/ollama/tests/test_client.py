"""The SDK's client: where its server is, whose it is, and when there is none."""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from typing import Any

import httpx
import pytest
from ollama import AsyncClient, Client

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine.loop import FinalAnswer
from agentic_kernel_engine.providers import ProviderRuntime
from agentic_kernel_engine.seams.middlewares import Fallback
from agentic_kernel_ollama import OllamaPlanner, OllamaRuntime
from agentic_kernel_ollama import client as ours
from integration.peers.aimock import Aimock
from integration.peers.faulty import FaultyServer
from integration.peers.llama import LlamaServer

from .asking import KEY, MODEL, ask, failure, planning, seen, task
from .lines import LineServer, done, said


@pytest.fixture
def nowhere() -> str:
    """The address of a server that was."""
    with FaultyServer("closed") as server:
        return server.url


class TestReaching:
    async def test_without_a_server_a_task_is_refused_and_told_what_to_start(
        self, nowhere: str
    ) -> None:
        asked = Task.new(summary="", instructions="Hi", runtime_kind="ollama")
        async with OllamaRuntime(MODEL, host=nowhere) as runtime:
            with pytest.raises(CannotStart) as caught:
                await runtime.dispatch(asked)
            assert await runtime.get_many([asked.id]) == {}
        assert caught.value.task_id == asked.id
        assert nowhere in caught.value.reason
        assert "`ollama serve`" in caught.value.reason

    @pytest.mark.parametrize("named", ["fallback", "middleware"])
    async def test_without_a_server_a_fallback_answers(
        self, nowhere: str, aimock: Aimock, named: str
    ) -> None:
        aimock.load([{"match": {}, "response": {"content": "Yes."}}])
        other = OllamaPlanner(MODEL, host=aimock.url)
        given: Any = {"middleware": [Fallback(other)]}
        if named == "fallback":
            given = {"fallback": [other], "middleware": []}
        async with OllamaRuntime(MODEL, host=nowhere, **given) as runtime:
            assert (await runtime.run("Hi")).unwrap() == "Yes."
        await other.close()

    @pytest.mark.parametrize("last", ["alone", "with others"])
    async def test_only_the_runtime_with_a_fallback_takes_tasks_without_a_server(
        self, nowhere: str, aimock: Aimock, last: str
    ) -> None:
        """Also if both runtimes have the same planner, in whatever order they are made."""
        aimock.load([{"match": {}, "response": {"content": "Yes."}}])
        planner, other = OllamaPlanner(MODEL, host=nowhere), OllamaPlanner(MODEL, host=aimock.url)
        options: dict[str, Any] = {"alone": {}, "with others": {"fallback": [other]}}
        order = ["with others", "alone"] if last == "alone" else ["alone", "with others"]
        made = {name: ProviderRuntime(planner, "ollama", (), None, options[name]) for name in order}
        async with made["alone"] as alone, made["with others"] as with_others:
            assert (await with_others.run("Hi")).unwrap() == "Yes."
            with pytest.raises(CannotStart, match="ollama serve"):
                await alone.run("Hi")

    async def test_a_name_that_does_not_exist_is_no_server(self) -> None:
        async with planning("http://nowhere.invalid:11434") as planner:
            with pytest.raises(CannotStart, match=r"nowhere\.invalid"):
                await planner.accept(task())

    async def test_a_server_that_is_silent_is_none(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ours, "REACH_SECONDS", 0.1)
        with socket.create_server(("127.0.0.1", 0)) as silent:
            async with planning(f"127.0.0.1:{silent.getsockname()[1]}") as planner:
                with pytest.raises(CannotStart, match="TimeoutError"):
                    await planner.accept(task())

    @pytest.mark.parametrize(
        "answer",
        [
            {"status": 401},
            {"status": 500},
            {"status": 404, "encoding": "gzip"},
            {"encoding": "br"},
        ],
        ids=str,
    )
    async def test_whatever_it_answers_it_is_there(
        self, lines: LineServer, answer: dict[str, Any]
    ) -> None:
        lines.give("/api/tags", b"<html>", **answer)
        async with planning(lines.url) as planner:
            await planner.accept(task())

    async def test_it_is_asked_once(self, lines: LineServer, aimock: Aimock) -> None:
        async with planning(lines.url) as planner:
            for _ in range(3):
                await planner.accept(task())
        assert [path for path, _ in lines.requests] == ["/api/tags"]
        aimock.script({"content": "Yes."})
        async with planning(aimock.url) as planner:
            await planner.accept(task())
            _, plan = await ask(planner, seen())
        assert plan.actions == (FinalAnswer("Yes."),)

    async def test_one_that_goes_away_later_is_a_failure(self) -> None:
        with FaultyServer("nothing") as server:
            planner = OllamaPlanner(MODEL, host=server.url)
            await planner.accept(task())
        await planner.accept(task())
        error = await failure(planner, seen())
        assert error.code == "ollama/connection"
        await planner.close()
        with pytest.raises(CannotStart):
            await planner.accept(task())
        await planner.close()

    async def test_reading_and_controlling_need_none(self, nowhere: str) -> None:
        async with OllamaRuntime(MODEL, host=nowhere) as runtime:
            assert await runtime.get_many(["none"]) == {}


@pytest.mark.slow
async def test_a_server_that_speaks_another_wire_is_told_apart(llama: LlamaServer) -> None:
    """That of llama.cpp has other vendors' wires, and not this one."""
    async with planning(llama.url, model=llama.model, api_key=llama.api_key) as planner:
        await planner.accept(task())
        assert (await failure(planner, seen())).code == "ollama/not_found"


class TestTheEnvironment:
    async def test_address_and_key_come_from_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        with FaultyServer("status_500", times=0) as server:
            monkeypatch.setenv("OLLAMA_HOST", f"127.0.0.1:{server.port}")
            monkeypatch.setenv("OLLAMA_API_KEY", KEY)
            planner = OllamaPlanner(MODEL)
            _, plan = await ask(planner, seen())
            await planner.close()
            [request] = server.requests
        assert plan.actions == (FinalAnswer("All is well."),)
        assert request.headers["authorization"] == f"Bearer {KEY}"
        assert request.headers["accept-encoding"] == "identity"
        assert request.path == "/api/chat"

    async def test_what_the_user_gives_comes_first(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("OLLAMA_HOST", "http://127.0.0.1:9")
        monkeypatch.setenv("OLLAMA_API_KEY", "another")
        with FaultyServer("status_500", times=0) as server:
            async with planning(server.url, api_key=KEY) as planner:
                await ask(planner, seen())
            assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"

    async def test_a_secret_of_it_is_not_told(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Though it does not look like a key."""
        monkeypatch.setenv("OLLAMA_API_KEY", "horse.battery.staple")
        with FaultyServer("secret_echoed") as server:
            async with planning(server.url) as planner:
                error = await failure(planner, seen())
        assert "horse" not in str(error)

    @pytest.mark.parametrize(
        ("name", "value"),
        [
            ("OLLAMA_HOST", "http://127.0.0.1:99999"),
            ("OLLAMA_HOST", "http://a b"),
            ("OLLAMA_HOST", "ftp://127.0.0.1"),
            ("OLLAMA_HOST", "http://me:word@127.0.0.1"),
            ("OLLAMA_API_KEY", "one\r\nX-Injected: yes"),
        ],
    )
    async def test_what_cannot_be_used_is_told(
        self, monkeypatch: pytest.MonkeyPatch, name: str, value: str
    ) -> None:
        monkeypatch.setenv(name, value)
        planner = OllamaPlanner(MODEL)
        with pytest.raises(CannotStart, match=name) as caught:
            await planner.accept(task())
        assert "word@" not in str(caught.value)
        assert (await failure(planner, seen())).code == "ollama/connection"
        await planner.close()


class TestTheUsersOwn:
    async def test_it_is_used_and_stays_open(self, aimock: Aimock) -> None:
        aimock.load([{"match": {}, "response": {"content": "Yes."}}])
        client: Any = AsyncClient(aimock.url)
        for _ in range(2):
            planner = OllamaPlanner(MODEL, client=client)
            await planner.accept(task())
            _, plan = await ask(planner, seen())
            assert plan.actions == (FinalAnswer("Yes."),)
            await planner.close()
        await client.list()
        await client.close()

    async def test_one_that_cannot_be_awaited_is_refused(self) -> None:
        client: Any = Client()
        with pytest.raises(InvalidValue, match="AsyncClient"):
            OllamaPlanner(MODEL, client=client)
        client.close()

    async def test_an_address_beside_it_is_refused(self) -> None:
        client: Any = AsyncClient()
        with pytest.raises(InvalidValue, match="client"):
            OllamaPlanner(MODEL, client=client, host="http://127.0.0.1:1")
        await client.close()


async def test_a_closed_planner_makes_another_client_when_it_is_asked(aimock: Aimock) -> None:
    aimock.load([{"match": {}, "response": {"content": "Yes."}}])
    planner = OllamaPlanner(MODEL, host=aimock.url)
    for _ in range(2):
        await ask(planner, seen())
        await planner.close()
        await planner.close()


async def test_many_tasks_share_the_connections_and_no_thread(aimock: Aimock) -> None:
    aimock.load([{"match": {}, "response": {"content": "Yes."}, "latency": 20}])
    async with OllamaRuntime(MODEL, host=aimock.url) as runtime:
        await runtime.run(Task.new(summary="", instructions="Hi", runtime_kind="ollama"))
        before = threading.active_count()
        tasks = [Task.new(summary="", instructions="Hi", runtime_kind="ollama") for _ in range(50)]
        ended = await asyncio.gather(*map(runtime.run, tasks))
        assert {each.result for each in ended} == {"Yes."}
        assert threading.active_count() <= before
    assert asyncio.all_tasks() == {asyncio.current_task()}


async def test_a_call_leaves_no_response_to_the_garbage_collector_or_to_a_timer(
    lines: LineServer,
) -> None:
    """A response keeps its request, and so the whole prompt."""
    lines.give("/api/chat", said(content="Yes."), done(prompt_eval_count=1, eval_count=1))

    def kept() -> int:
        return sum(isinstance(each, httpx.Response) for each in gc.get_objects())

    gc.collect()
    gc.disable()
    try:
        before = kept()
        async with planning(lines.url) as planner:
            for _ in range(5):
                await ask(planner, seen())
        assert kept() == before
    finally:
        gc.enable()
