"""Agents in a FastAPI application: routes that run a text, stream a Task, and approve a call.

``uvicorn --factory web:application --timeout-graceful-shutdown 5`` serves it.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

import httpx

# --8<-- [start:application]
from fastapi import Depends, FastAPI, Header, Request
from fastapi.responses import JSONResponse
from fastapi.sse import EventSourceResponse, ServerSentEvent

from agentic_kernel import InvalidValue, KernelError, Task, TaskNotFound, TaskStatus
from agentic_kernel_engine import EventId, tool, waiting_for
from agentic_kernel_engine.seams import BasicPolicy
from agentic_kernel_file import FileStore
from agentic_kernel_openai import OpenAIRuntime


@tool(effect="write")
def pay(to: str, euros: int) -> str:
    """Pay an amount."""
    return f"paid {euros} euros to {to}"


def view(task: Task) -> dict[str, Any]:
    waits = waiting_for(task)
    requests = [] if waits is None else waits.get("requests", [])
    return {"id": task.id, "status": task.status, "result": task.result, "requests": requests}


def application() -> FastAPI:
    policy = BasicPolicy(allow=["read"])  # A person looks at each call with an effect.
    runtime = OpenAIRuntime("gpt-6-luna", FileStore("state"), tools=[pay], policy=policy)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        async with runtime:
            yield

    async def place(
        task_id: str, last_event_id: Annotated[str | None, Header()] = None
    ) -> EventId | None:
        await runtime.get(task_id)  # Refuses an unknown id before the stream begins.
        return EventId.parse(last_event_id) if last_event_id else None

    app = FastAPI(lifespan=lifespan)

    @app.post("/tasks")
    async def run(text: str, wait: bool = True) -> dict[str, Any]:
        task = (await runtime.dispatch(runtime.task(text))).snapshot
        return view(await runtime.wait(task.id, TaskStatus.PAUSED) if wait else task)

    @app.get("/tasks/{task_id}/events", response_class=EventSourceResponse)
    async def stream(
        task_id: str, after: Annotated[EventId | None, Depends(place)]
    ) -> AsyncIterator[ServerSentEvent]:
        async for event in runtime.watch(task_id, after):
            if event.type.startswith(("run.delta", "task.")):
                read = None if event.id is None else str(event.id)
                yield ServerSentEvent(data=event.data, event=event.type, id=read)

    @app.post("/tasks/{task_id}/approve")
    async def approve(task_id: str, digest: str) -> dict[str, Any]:
        await runtime.approve(task_id, digest, by="ann")  # The user of your session.
        return view(await runtime.wait(task_id, TaskStatus.PAUSED))

    @app.exception_handler(KernelError)
    async def refuse(request: Request, error: KernelError) -> JSONResponse:
        code = {TaskNotFound: 404, InvalidValue: 422}.get(type(error), 409)
        return JSONResponse({"detail": str(error)}, code)

    return app


# --8<-- [end:application]
async def main() -> None:
    app = application()
    wire = httpx.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx.AsyncClient(transport=wire, base_url="http://127.0.0.1") as web,
    ):
        begun = await web.post("/tasks", params={"text": "Why is the sky blue?", "wait": False})
        print((await web.get(f"/tasks/{begun.json()['id']}/events")).text)
        paused = (await web.post("/tasks", params={"text": "Pay the plumber 80 euros."})).json()
        [request] = paused["requests"]
        print(paused["status"], request["action"]["arguments"])
        approval = f"/tasks/{paused['id']}/approve?digest={request['digest']}"
        print((await web.post(approval)).json()["result"])
        print((await web.post(approval)).status_code, (await web.get("/tasks/x/events")).text)


if __name__ == "__main__":
    asyncio.run(main())
