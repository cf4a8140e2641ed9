"""Histories of executions on the wire, under kills, for the kit's checker of linearizability.

Each execution is one Task: creating it is the dispatch, a cancel is the kill, an agent's `complete`
is the completion, and reads of two clients are reads. An execution that has not ended counts as
running, because the wire's pending, running and blocked say where it runs. An answer that did not
come leaves the outcome unknown; so does 503, because the request may be carried out later.
"""

from __future__ import annotations

import asyncio
import json
import random
import uuid
from contextlib import suppress
from typing import Any

import httpx

from agentic_kernel import TaskStatus
from agentic_kernel_conformance.history import ACCEPTED, Recorder, View
from agentic_kernel_conformance.linearizability import linearize

AGENT = "raw"
_ENDS = {
    "completed": TaskStatus.SUCCESS,
    "failed": TaskStatus.FAILURE,
    "cancelled": TaskStatus.CANCELLED,
}
_RACE = 0.4
"""Seconds within which the calls on one execution are made."""


class Histories:
    """Makes executions, races calls on each, and records what the callers were told.

    Args:
        url: The port before the servers.
        chance: Decides the calls and their moments.
    """

    def __init__(self, url: str, chance: random.Random) -> None:
        self._url = url
        # Each request is a connection of its own, so that it may reach any server.
        limits = httpx.Limits(max_connections=200, max_keepalive_connections=0)
        self._client = httpx.AsyncClient(timeout=35.0, limits=limits)
        self._chance = chance
        self._sessions: dict[str, str] = {}
        self._assigned = asyncio.Condition()
        self._told: dict[str, Recorder] = {}
        self._stories: set[asyncio.Task[None]] = set()

    async def agent(self) -> None:
        """Hold the agent's stream, and open it again whenever it breaks."""
        path = f"{self._url}/v0/agents/stream?agent_id={AGENT}&consumer_id=one"
        while True:
            with suppress(httpx.HTTPError):
                async with self._client.stream("GET", path) as told:
                    await self._read(told)
            await asyncio.sleep(0.1)

    async def _read(self, told: httpx.Response) -> None:
        kind = ""
        async for line in told.aiter_lines():
            kind = line[7:] if line.startswith("event: ") else kind
            if line.startswith("data: ") and kind == "execution.assigned":
                given = json.loads(line[6:])
                async with self._assigned:
                    self._sessions[given["execution_id"]] = given["session_id"]
                    self._assigned.notify_all()

    async def make(self) -> None:
        """Begin one execution after the other, without an end."""
        while True:
            story = asyncio.ensure_future(self._story())
            self._stories.add(story)
            story.add_done_callback(self._stories.discard)
            await asyncio.sleep(0.5)

    async def judge(self) -> tuple[int, int, list[str]]:
        """After everything has ended: the number of histories, of their calls, and the bad ones."""
        if self._stories:
            await asyncio.wait(set(self._stories), timeout=60.0)
        bad = []
        for id, told in self._told.items():
            await self._call(told, id, "last", "get")
            verdict = linearize(told.operations)
            if not verdict.holds:
                lines = [str(each.to_json()) for each in told.operations]
                bad.append(f"{id}: " + "; ".join(lines))
        await self._client.aclose()
        return len(self._told), sum(len(each) for each in self._told.values()), bad

    async def _story(self) -> None:
        told = Recorder(unknown=(httpx.HTTPError,))
        number = told.begin("creator", "dispatch")
        id = await self._created()
        told.end(number, "transition")
        # Its deadline may end it at any time, also while a call waits for a server.
        told.begin("deadline", "fail", "deadline")
        self._told[id] = told
        calls = ["get", "get", "complete", "complete"]
        calls += ["kill"] * (self._chance.random() < 0.5)
        async with self._assigned:
            with suppress(TimeoutError):
                async with asyncio.timeout(30.0):
                    await self._assigned.wait_for(lambda: id in self._sessions)
        await asyncio.gather(
            *(self._later(told, id, f"{verb}{n}", verb) for n, verb in enumerate(calls))
        )

    async def _created(self) -> str:
        """The id of a new execution; its key makes it one, however often it is asked for."""
        body = {"agent_id": AGENT, "input": 1, "idempotency_key": uuid.uuid4().hex}
        while True:
            with suppress(httpx.HTTPError):
                made = await self._client.post(f"{self._url}/v0/executions", json=body)
                if made.status_code == 201:
                    id: str = made.json()["id"]
                    return id
            await asyncio.sleep(0.2)

    async def _later(self, told: Recorder, id: str, caller: str, verb: str) -> None:
        await asyncio.sleep(self._chance.uniform(0, _RACE))
        await self._call(told, id, caller, verb)

    async def _call(self, told: Recorder, id: str, caller: str, verb: str) -> None:
        output = json.dumps(caller) if verb == "complete" else None
        number = told.begin(caller, verb, output)
        try:
            answer = await self._asked(id, caller, verb)
        except httpx.HTTPError:
            return
        if answer.status_code == 401:
            told.drop(number)  # Its session was lost, so nothing was asked of the execution.
        elif answer.status_code == 409:
            told.end(number, "none")
        elif answer.status_code == 200:
            body = answer.json()
            view = None if verb == "complete" else _view(body)
            told.end(number, "none" if verb == "get" else ACCEPTED, view)

    async def _asked(self, id: str, caller: str, verb: str) -> httpx.Response:
        client = self._client
        path = f"{self._url}/v0/executions/{id}"
        if verb == "get":
            return await client.get(path)
        if verb == "kill":
            return await client.post(f"{path}/cancel")
        intent = {"type": "complete", "output": caller}
        held = {"execution_id": id, "session_id": self._sessions.get(id, "none")}
        return await client.post(f"{self._url}/v0/agents/intent", json={**held, "intent": intent})


def _view(body: dict[str, Any]) -> View:
    status = _ENDS.get(body["status"])
    if status is None:
        return TaskStatus.RUNNING, (), ""
    if status is TaskStatus.SUCCESS:
        return status, (), json.dumps(body["output"])
    return status, (), "deadline" if status is TaskStatus.FAILURE else ""
