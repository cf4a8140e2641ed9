"""Session: one conversation that the CLI keeps, as far as a Task needs it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from copilot import CopilotSession, Tool
from copilot.rpc import (
    ExternalToolTextResultForLlm,
    HandlePendingToolCallRequest,
    PermissionDecisionApproveOnce,
    PermissionDecisionReject,
    PermissionDecisionRequest,
)
from copilot.session import BlobAttachment, PermissionNoResult
from copilot.session_events import SessionEvent

from agentic_kernel_engine import TaskFailed
from agentic_kernel_engine.loop import Observation
from agentic_kernel_engine.seams import Tool as OwnTool

from .cli import Connection
from .translation import result_of

_MISSING: Final = "Session not found"
"""A part of the CLI's message about a session that it does not have."""


class SessionMissing(Exception):
    """The CLI has no such session."""


@dataclass(frozen=True, slots=True)
class Pending:
    """A request that a session waits for."""

    request_id: str
    call: str
    """The CLI's id of the call that the request is about; "" for none."""
    request: Any = None
    """The permission that is requested; None for a call of our own tools."""


class Session:
    """A session of the CLI that this process takes part in.

    The SDK answers no request of the session: calls of tools and permission requests stay pending
    until this class answers them, even if another process has resumed the session in between.
    """

    def __init__(self, connection: Connection, session: CopilotSession) -> None:
        self.connection = connection
        """The life of the CLI that the session belongs to."""
        self._session = session

    @classmethod
    async def create(
        cls,
        connection: Connection,
        id: str,
        options: Mapping[str, Any],
        told: Callable[[SessionEvent], None],
    ) -> Session:
        """Create a session with this id.

        Args:
            options: The session's options, in the SDK's form.
            told: Called with every event, on the event loop.

        Raises:
            CliLost: The CLI is gone.
            TaskFailed: The CLI refuses.
        """
        made = await connection.call(
            "create a session",
            lambda: connection.client.create_session(
                session_id=id,
                name=f"task {id}",  # With a name the session is on disk from the beginning.
                on_event=told,
                on_permission_request=_abstain,
                **options,
            ),
        )
        return cls(connection, made)

    @classmethod
    async def resume(
        cls,
        connection: Connection,
        id: str,
        options: Mapping[str, Any],
        told: Callable[[SessionEvent], None],
    ) -> Session:
        """Resume the session with this id as it was left; its requests still wait for answers.

        Raises:
            SessionMissing: The CLI has no such session.
            CliLost, TaskFailed: As for `create`.
        """
        try:
            found = await connection.call(
                "resume a session",
                lambda: connection.client.resume_session(
                    id,
                    on_event=told,
                    on_permission_request=_abstain,
                    continue_pending_work=True,
                    **options,
                ),
            )
        except TaskFailed as refused:
            if missing(refused):
                raise SessionMissing(id) from refused
            raise
        return cls(connection, found)

    async def say(
        self,
        prompt: str,
        attachments: Sequence[BlobAttachment] = (),
        schema: dict[str, Any] | None = None,
    ) -> None:
        """Send a message; the answer comes as events.

        Args:
            prompt: The message.
            attachments: Images and files that go with it.
            schema: The JSON Schema of the answer; None for text.
        """
        given: Any = list(attachments) or None
        await self.connection.call(
            "take a message",
            lambda: self._session.send(prompt, attachments=given, response_schema=schema),
        )

    async def abort(self) -> None:
        """End the turn; nothing happens if there is none."""
        await self.connection.call("abort a turn", self._session.abort)

    async def leave(self) -> None:
        """Let go of the session; the CLI unloads it, and keeps it with its open requests."""
        await self.connection.call("let go of a session", self._session.disconnect)

    async def log(self) -> Sequence[SessionEvent]:
        """All durable events so far."""
        return await self.connection.call("hand over a log", self._session.get_events)

    async def processing(self) -> bool:
        """True if a turn goes on."""
        asked = self._session.rpc.metadata.is_processing
        return (await self.connection.call("tell what it does", asked)).processing

    async def pending(self) -> list[Pending]:
        """The requests that the session waits for."""
        rpc = self._session.rpc
        permissions = await self.connection.call(
            "list its requests", rpc.permissions.pending_requests
        )
        calls = await self.connection.call("list its calls", rpc.tools.list_pending_requests)
        return [
            *(permission(each.request_id, each.request) for each in permissions.items),
            *(Pending(each.request_id, each.tool_call_id) for each in calls.items),
        ]

    async def permit(self, request_id: str, refusal: str | None = None) -> None:
        """Answer a permission request: allow the call, or refuse it for this reason."""
        result = (
            PermissionDecisionApproveOnce()
            if refusal is None
            else PermissionDecisionReject(feedback=refusal)
        )
        answer = PermissionDecisionRequest(request_id=request_id, result=result)
        handle = self._session.rpc.permissions.handle_pending_permission_request
        await self.connection.call("take a decision", lambda: handle(answer))

    async def settle(self, request_id: str, observation: Observation) -> None:
        """Answer a call of one of our tools."""
        text, images = result_of(observation)
        result = ExternalToolTextResultForLlm(
            text_result_for_llm=text,
            binary_results_for_llm=images or None,
            result_type="success" if observation.ok else "failure",
            error=observation.error or None,
        )
        answer = HandlePendingToolCallRequest(request_id=request_id, result=result)
        handle = self._session.rpc.tools.handle_pending_tool_call
        await self.connection.call("take a result", lambda: handle(answer))


def permission(request_id: str, request: Any) -> Pending:
    """A permission request of the CLI; not every kind of them names a call."""
    return Pending(request_id, getattr(request, "tool_call_id", None) or "", request)


def missing(refused: TaskFailed) -> bool:
    """True if the CLI refused because it does not have the session."""
    return _MISSING in refused.message


def offered(tools: Sequence[OwnTool]) -> list[Tool]:
    """Our tools in the CLI's form; our policy decides about them, so the CLI does not ask."""
    return [
        Tool(
            name=tool.name,
            description=tool.description,
            parameters=dict(tool.input_schema),
            skip_permission=True,
        )
        for tool in tools
    ]


def _abstain(*_: Any) -> PermissionNoResult:
    """Leave a permission request pending; without a handler the CLI would deny it."""
    return PermissionNoResult()
