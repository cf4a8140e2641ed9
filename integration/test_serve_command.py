"""The commands ``serve`` and ``runner`` as processes: started, reloaded, killed and stopped."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import psutil  # type: ignore[import-untyped]
import psycopg
import pytest
import rebuno

from agentic_kernel_server.security import KeyFile

from .postgres_server import Server
from .serving_process import PATIENCE, Serving, until

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "serving.md"
WALK = ROOT / "docs" / "examples" / "serving.sh"
RULES = """version: 1
rules:
  - {{name: all, priority: 1, effect: {effect}, match: {{capability: "*"}}}}
"""
TOOLS = """
from agentic_kernel_engine.seams import ToolError, tool

@tool(effect="none")
def double(number: int) -> int:
    "Twice the number."
    if number < 0:
        raise ToolError("give a number from 0 on")
    return 2 * number

tools = [double]
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., Serving]]:
    """Starts servers, which end with the test."""
    started: list[Serving] = []

    def start(*words: str, **more: str) -> Serving:
        started.append(Serving(tmp_path, *words, **more))
        return started[-1]

    yield start
    for each in started:
        for process in children(each):
            process.kill()
        each.process.kill()
        each.process.wait()


def children(serving: Serving) -> list[psutil.Process]:
    """The processes behind the port, if there are several."""
    if serving.process.poll() is not None:
        return []
    return list(psutil.Process(serving.process.pid).children())


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def test_the_walk_through_of_the_documentation_ends_as_it_says(tmp_path: Path) -> None:
    command = tmp_path / "bin" / "agentic-kernel"
    command.parent.mkdir()
    command.write_text(f'#!/bin/sh\nexec {sys.executable} -m agentic_kernel_cli "$@"\n')
    command.chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "PORT": str(free_port()),
    }
    # The lines that the page shows and no others, as its reader types them.
    shown = [
        WALK.read_text().split(f"[start:{part}]\n")[1].split(f"# --8<-- [end:{part}]")[0]
        for part in re.findall(r"examples/serving\.sh:(\w+)", PAGE.read_text())
    ]
    script = "\n".join(["trap 'kill $(jobs -p) 2> /dev/null || true' EXIT", *shown])
    done = subprocess.run(
        ["bash", "-euc", script], cwd=tmp_path, env=env, capture_output=True, text=True,
        timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert '"accepted":false,"error":"no rule matches the request' in done.stdout
    types = [
        line.removeprefix("event: ")
        for line in (tmp_path / "events.txt").read_text().splitlines()
        if line.startswith("event: ")
    ]
    assert types == [
        "execution.created",
        "execution.started",
        "intent.denied",
        "step.created",
        "approval.resolved",
        "step.dispatched",
        "step.started",
        "step.succeeded",
        "execution.completed",
    ]
    assert '"by":"ann"' in done.stdout
    assert '"output":"invoice 7 is paid"' in done.stdout
    for secret in (tmp_path / "serve.log").read_text(), (tmp_path / "keys.json").read_text():
        assert "ak_" not in secret


def test_a_stop_waits_for_safe_points_and_ends_well(serve: Callable[..., Serving]) -> None:
    serving = serve()
    made = httpx.post(f"{serving.url}/v0/executions", json={"agent_id": "swe"})
    assert made.status_code == 201
    with httpx.stream(
        "GET", f"{serving.url}/v0/agents/stream?agent_id=swe&consumer_id=c", timeout=30.0
    ) as stream:
        lines = stream.iter_lines()
        assert any("execution.assigned" in line for line in lines)
        watched = watching(serving, made.json()["id"])
        serving.process.send_signal(signal.SIGTERM)
        with pytest.raises(httpx.RemoteProtocolError):
            list(lines)  # Cut, and not ended.
        with watched, pytest.raises(ConnectionError, match="cut"):
            rest(watched)
    assert serving.process.wait(PATIENCE) == 0
    assert "Traceback" not in serving.log.read_text()
    assert "Cancel " not in serving.log.read_text()
    again = serve()
    found = again.get(f"/v0/executions/{made.json()['id']}").json()
    assert found["status"] in ("pending", "running")
    assert again.stop() == 0


def watching(serving: Serving, id: str) -> socket.socket:
    """A connection that has the first event of an execution's stream."""
    host, _, port = serving.url.removeprefix("http://").partition(":")
    made = socket.create_connection((host, int(port)), timeout=PATIENCE)
    path = f"/v0/executions/{id}/stream"
    made.sendall(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    text = b""
    while b"execution.created" not in text:
        text += made.recv(65_536)
    return made


def rest(wire: socket.socket) -> None:
    """Read to the end of a stream.

    Raises:
        ConnectionError: It was cut: the last chunk did not come.
    """
    text = b""
    while more := wire.recv(65_536):
        text += more
    if not text.endswith(b"0\r\n\r\n"):
        raise ConnectionError("the stream was cut")


@pytest.mark.torture
def test_a_signal_reloads_the_policy_and_a_bad_one_is_not_taken(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES.format(effect="allow"))
    serving = serve("--policy", str(rules), "--processes", "2")
    serving.said("listening on", times=2)
    rules.write_text("rules: [")
    serving.process.send_signal(signal.SIGHUP)
    serving.said("the earlier policy stays", times=3)  # The parent has it, too.
    rules.write_text(RULES.format(effect="deny"))
    serving.process.send_signal(signal.SIGHUP)
    serving.said("is in use, with 1 rules", times=3)
    assert serving.stop() == 0


def test_a_killed_process_is_replaced_and_the_figures_are_of_all(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES.format(effect="allow"))
    serving = serve("--processes", "2", "--policy", str(rules))
    serving.said("listening on", times=2)
    rules.write_text("rules: [")  # No reload: the new process gets the policy that is in use.
    for _ in range(20):
        assert serving.get("/v0/executions").status_code == 200
    counted = 'requests_total{method="GET",route="/v0/executions",status="200"}'

    def total() -> float:
        lines = serving.get("/metrics").text.splitlines()
        return next(float(line.split()[-1]) for line in lines if counted in line)

    assert [total() for _ in range(4)] == [20.0] * 4
    killed = children(serving)[0]
    killed.kill()
    serving.said("another one takes its place")
    serving.said("listening on", times=3)
    assert len(children(serving)) == 2
    assert serving.get("/v0/ready").status_code == 200
    assert total() == 20.0
    left = children(serving)
    assert serving.stop() == 0
    assert not any(process.is_running() for process in left)


def test_the_processes_stop_if_their_parent_was_killed(serve: Callable[..., Serving]) -> None:
    serving = serve("--processes", "2")
    serving.said("listening on", times=2)
    left = children(serving)
    serving.process.kill()
    serving.said("the parent process is gone", times=2)
    assert psutil.wait_procs(left, timeout=PATIENCE)[1] == []


@pytest.mark.torture
def test_processes_that_cannot_work_end_the_command(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.write_text("no folder")
    words = ("serve", "--listen", "127.0.0.1:0", "--processes", "2")
    done = subprocess.run(
        [sys.executable, "-m", "agentic_kernel_cli", "--state", str(state), *words],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "died early" in done.stderr


@pytest.mark.torture
def test_a_server_whose_store_is_away_is_not_ready(serve: Callable[..., Serving]) -> None:
    with Server() as postgres:
        serving = serve(state=postgres.place)
        assert serving.get("/v0/ready").status_code == 200
        postgres.kill()
        until(lambda: serving.get("/v0/ready").status_code == 503)
        assert serving.get("/v0/health").status_code == 200
        postgres.start()
        until(lambda: serving.get("/v0/ready").status_code == 200)
        assert serving.stop() == 0


@rebuno.tool("double", remote=True)
async def double(number: int) -> int:
    """The agent's side of a tool that a runner has."""
    raise AssertionError(number)


def started_runner(folder: Path, url: str, key: str = "") -> subprocess.Popen[bytes]:
    """A runner with the tools of a module in the folder; its log is in the folder."""
    words = ("runner", "--tools", "mine:tools", "--server", url)
    with (folder / "runner.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "agentic_kernel_cli", *words],
            cwd=folder, stderr=log, env={**os.environ, "AGENTIC_KERNEL_API_KEY": key},
        )  # fmt: skip


@pytest.mark.torture
@pytest.mark.torture  # The agent of the documentation works with a runner in the gate.
async def test_a_runner_serves_tools_of_the_engine(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES.format(effect="allow"))
    (tmp_path / "mine.py").write_text(TOOLS)
    serving = serve("--policy", str(rules))
    runner = started_runner(tmp_path, serving.url)

    async def handler(numbers: list[int]) -> list[Any]:
        answers: list[Any] = []
        for number in numbers:
            try:
                answers.append(await double(number))
            except rebuno.RebunoError as error:
                answers.append(str(error))
        return answers

    made = rebuno.Agent("swe", kernel_url=serving.url)
    working = asyncio.ensure_future(made.run_async(handler))
    try:
        async with rebuno.Client(serving.url) as client, asyncio.timeout(PATIENCE):
            ended = await client.run_until_complete("swe", {"numbers": [1, -1, 21]})
        tools = serving.get("/v0/tools").json()
        assert ended.status == "completed", ended
        assert [ended.output[0], ended.output[2]] == [2, 42]
        assert "give a number from 0 on" in ended.output[1]
        assert [(tool["id"], tool["description"]) for tool in tools] == [
            ("double", "Twice the number.")
        ]
        runner.send_signal(signal.SIGTERM)
        assert await asyncio.to_thread(runner.wait, PATIENCE) == 0
        assert serving.get("/v0/tools").json() == []
    finally:
        made._handle_shutdown()
        await working
        runner.kill()
        runner.wait()


def started_agent(folder: Path, url: str) -> subprocess.Popen[bytes]:
    with (folder / "agent.log").open("w") as log:
        return subprocess.Popen(
            [sys.executable, str(ROOT / "docs" / "examples" / "remote" / "shop.py")],
            cwd=folder, stdout=log, stderr=log, env={**os.environ, "REBUNO_URL": url},
        )  # fmt: skip


async def test_the_agent_of_the_documentation_works_with_its_runner(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    rules = tmp_path / "rules.yaml"
    rules.write_text(RULES.format(effect="allow"))
    shutil.copy(ROOT / "docs" / "examples" / "my_tools.py", tmp_path / "mine.py")
    serving = await asyncio.to_thread(lambda: serve("--policy", str(rules)))
    runner = started_runner(tmp_path, serving.url)
    agent = started_agent(tmp_path, serving.url)
    try:
        async with rebuno.Client(serving.url) as client, asyncio.timeout(PATIENCE):
            made = await client.create("shop", {"part": "nut", "count": 20})
            async for event in client.events(made.id):
                if event.type == "signal.awaited":
                    await client.send_signal(made.id, "customer.answer", True)
            ended = await client.get(made.id)
    finally:
        for process in (agent, runner):
            process.terminate()
            await asyncio.to_thread(process.wait, PATIENCE)
    assert ended.status == "completed", ended
    assert ended.output["of"] == "the part 'nut'"
    assert "20 of nut" in ended.output["ordered"]


@pytest.mark.torture
def test_a_runner_whose_key_is_refused_says_so_and_ends(
    serve: Callable[..., Serving], tmp_path: Path
) -> None:
    (tmp_path / "mine.py").write_text(TOOLS)
    key, _ = KeyFile(tmp_path / "keys.json").make("ann", ["client"])
    serving = serve("--keys", "keys.json")
    for given, says in (
        (key, "lacks the scope 'runner'"),
        ("", "The variable AGENTIC_KERNEL_API_KEY is not set"),
        (f"{key[:-1]}.", "The variable AGENTIC_KERNEL_API_KEY is refused"),
    ):
        runner = started_runner(tmp_path, serving.url, given)
        assert runner.wait(PATIENCE) == 1
        assert says in (tmp_path / "runner.log").read_text()


async def test_a_process_whose_lease_ran_out_begins_again(serve: Callable[..., Serving]) -> None:
    began, go = asyncio.Event(), asyncio.Event()

    async def handler() -> str:
        began.set()
        await go.wait()
        return "done"

    with Server() as postgres:
        serving = await asyncio.to_thread(lambda: serve(state=postgres.place))
        agent = rebuno.Agent("a", kernel_url=serving.url, reconnect_delay=0.1)
        working = asyncio.ensure_future(agent.run_async(handler))
        async with rebuno.Client(serving.url) as client:
            made = await client.create("a", {})
            await began.wait()
            async with await psycopg.AsyncConnection.connect(postgres.place, autocommit=True) as db:
                # As after a suspended machine, or a database that was away longer than the lease.
                await db.execute("UPDATE agentic_kernel.hosts SET until = clock_timestamp()")
            await asyncio.to_thread(serving.said, "listening on", 2)
            go.set()  # The execution is live, and its agent keeps its session.
            told = [event async for event in client.events(made.id)]
        agent._handle_shutdown()
        await working
        assert told[-1].payload == {"output": "done"}
        assert "execution.reset" not in [event.type for event in told]
        assert await asyncio.to_thread(serving.stop) == 0
