"""CopilotSubstrate: a Task is one session of the Copilot CLI."""

from __future__ import annotations

import asyncio
import os
import time
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Literal, TypedDict, get_args

import msgspec
from copilot.session import (
    MCPServerConfig,
    ModelCapabilitiesOverride,
    ModelSupportsOverride,
    PreToolUseHandler,
    PreToolUseHookInput,
    PreToolUseHookOutput,
    ProviderConfig,
    SystemMessageConfig,
)

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel_engine import Event, Job, Limits, StateUnreadable, TaskFailed, edges
from agentic_kernel_engine.inputs import Inputs
from agentic_kernel_engine.loop import (
    STOP_REASON,
    USED,
    AnswerForms,
    End,
    Principal,
    StopReason,
    failed,
    named_tools,
    on_behalf,
    refuse_notes,
)
from agentic_kernel_engine.plans import vocabulary
from agentic_kernel_engine.principal import NOBODY
from agentic_kernel_engine.providers import (
    Price,
    check_model,
    check_name,
    check_prices,
    check_seconds,
    price_of,
)
from agentic_kernel_engine.providers.failures import NO_PRICE
from agentic_kernel_engine.seams import (
    AgentTool,
    AllowAll,
    Policy,
    Tool,
    Tools,
    Validator,
    compile_schema,
)
from agentic_kernel_engine.substrate import Accepting, Acting, Cleaning, Limiting, Metered
from agentic_kernel_engine.waiting import WAITING_FOR

from . import failures
from .answering import FinalForm
from .arguments import check_config, check_environment, check_message, check_servers, path_of
from .calls import Calls
from .cli import PATIENCE, Cli, default_home
from .limits import LIMITS
from .provider import MODEL, check_provider, keys_of, lacking, provider_of
from .run import SessionRun, refuse_limits
from .session import SessionMissing, missing, offered
from .state import VERSION, State, load
from .translation import attachments_of
from .turns import SessionTurns

SESSION: Final = "copilot/session"
"""The note that names the CLI's session."""
INPUTS: Final = Inputs(
    scope="copilot",
    limits=LIMITS,
    images="by content",
    schema=True,
    tools=True,
)
"""The inputs that the substrate takes: a session of the CLI belongs to one Task."""
LET_GO_SECONDS: Final = 2 * PATIENCE
"""Seconds that a run may take to let go of its session: it ends the turn, then leaves."""
OnKill = Literal["keep", "delete"]
"""The treatment of the session of a killed Task: the CLI keeps or deletes it."""


def new_uuid() -> str:
    """A new id for a session."""
    return str(uuid.uuid4())


class SubstrateOptions(TypedDict, total=False):
    """The keyword arguments of `CopilotSubstrate`; see there."""

    model: str | None
    provider: ProviderConfig | None
    offline: bool
    timeout: float
    tools: Sequence[Tool | Callable[..., Any]]
    allowed_tools: Collection[str]
    mcp_servers: Mapping[str, MCPServerConfig] | None
    system_message: str | SystemMessageConfig | None
    policy: Policy | None
    limits: Limits | None
    prices: Mapping[str, Price] | None
    output_schema: Mapping[str, Any] | None
    output_type: type[Any] | None
    principal: Principal
    validator: Validator | None
    timer: Callable[[], float]
    ids: Callable[[], str]
    on_kill: OnKill
    working_directory: str | os.PathLike[str] | None
    home: str | os.PathLike[str] | None
    cli_path: str | os.PathLike[str] | None
    env: Mapping[str, str] | None


class CopilotSubstrate(Accepting, Cleaning, Acting, Limiting, Metered):
    """Runs Tasks as sessions of one process of the Copilot CLI, which has no limits of its own.

    The conversation is in the CLI's own log, under the session id in the note ``copilot/session``.
    A pause ends the turn and keeps the session. A resume sends the supplements to the session. A
    run after a crash of the Host or of the CLI enters in the same way. Text in progress is streamed
    as ``run.delta`` events. Every turn records the events of a step of the engine's `Loop`:
    ``plan.made``, ``plan.decided``, ``step.observed``.

    A call of one of our tools is authorized, prepared, run and settled here, and the CLI receives
    the outcome. For its own tools the CLI asks for permission, and the policy decides. If the
    policy requires a person, the Task pauses with the call pending in the session, and goes on with
    that same call.

    The result is the text of the last answer, or the JSON in it if the Task has a schema.

    Args:
        model: The model's name; None for ``COPILOT_MODEL``, or the CLI's own choice.
        provider: The user's own provider in the SDK's form: ``base_url``, ``type``, ``wire_api``,
            ``api_key``, …; None for the provider that ``COPILOT_PROVIDER_BASE_URL`` and the CLI's
            other variables name, or else GitHub.
        offline: True if the CLI may reach only the provider.
        timeout: Seconds that the provider may be silent during a request before it counts as lost.
        tools: Our tools, and typed functions.
        allowed_tools: The tools of the CLI that a session may use, and those of MCP servers as
            ``<server>-<tool>``; none by default. ``builtin:*`` and ``mcp:*`` stand for all.
        mcp_servers: MCP servers by name, in the SDK's form.
        system_message: A text that replaces the CLI's own system message; or the SDK's form of it.
        policy: Decides about every call of our tools and of an MCP server's tools, and every other
            call that the CLI asks about; `AllowAll` by default. A call of an MCP server's tool
            counts as a write, whatever the server declares.
        limits: The limits of a Task: answers, calls, failures, seconds, tokens and cost. The other
            limits are for the Loop only, and are refused.
        prices: Prices by model. The CLI tells no prices, so a Task with a ``max_cost`` fails with
            ``copilot/no_price`` if its model has none here.
        output_schema: The JSON Schema that each result must fit; None for text. An answer that does
            not fit goes back to the model, with the reason, within the limits.
        output_type: The type that each result must become; see `ReadyRuntime.run`.
        principal: The principal of the Tasks whose dispatch names none; see `Host.dispatch`.
        validator: Makes the checks of each of our tools that has no validator of its own.
        timer: Returns seconds, never running backwards, for ``max_seconds``.
        ids: Issues the ids of sessions; each id must be a new UUID.
        on_kill: ``keep`` or ``delete`` the session of a killed Task.
        working_directory: The folder in which the CLI works; None for the current one.
        home: The folder in which the CLI keeps its sessions; None for ``COPILOT_HOME``, or
            ``~/.copilot``. Hosts that take over one another's Tasks must share it.
        cli_path: The CLI's program; see `find_cli`.
        env: Variables that are added to this process's environment for the CLI.

    Raises:
        InvalidValue: An argument is not accepted; the message names it.
    """

    meters = True
    limit_names = INPUTS.limits
    """The limits that a Task may have."""
    principal = NOBODY

    def __init__(
        self,
        *,
        model: str | None = None,
        provider: ProviderConfig | None = None,
        offline: bool = False,
        timeout: float = 120.0,
        tools: Sequence[Tool | Callable[..., Any]] = (),
        allowed_tools: Collection[str] = (),
        mcp_servers: Mapping[str, MCPServerConfig] | None = None,
        system_message: str | SystemMessageConfig | None = None,
        policy: Policy | None = None,
        limits: Limits | None = None,
        prices: Mapping[str, Price] | None = None,
        output_schema: Mapping[str, Any] | None = None,
        output_type: type[Any] | None = None,
        principal: Principal = NOBODY,
        validator: Validator | None = None,
        timer: Callable[[], float] = time.monotonic,
        ids: Callable[[], str] = new_uuid,
        on_kill: OnKill = "keep",
        working_directory: str | os.PathLike[str] | None = None,
        home: str | os.PathLike[str] | None = None,
        cli_path: str | os.PathLike[str] | None = None,
        env: Mapping[str, str] | None = None,
    ) -> None:
        allowed_tools = edges.several(allowed_tools, "allowed_tools", "names")
        for index, each in enumerate(allowed_tools):
            check_name(each, f"allowed_tools[{index}]")
        edges.choice(on_kill, "on_kill", get_args(OnKill))
        check_config(provider, "provider", "bearer_token_provider")
        check_servers(mcp_servers)
        check_message(system_message)
        check_environment(env)
        edges.flag(offline, "offline")
        folder, kept, program = (
            path_of(working_directory, "working_directory"), path_of(home, "home"),
            path_of(cli_path, "cli_path"),
        )  # fmt: skip
        if provider is not None and not provider.get("base_url"):
            raise InvalidValue(
                "provider", "has no base_url; give provider={'base_url': ...}, or leave it out"
            )
        check_seconds(timeout)
        if model is not None:
            check_model(model)
        known = {**os.environ, **(env or {})}
        named = model or known.get(MODEL)
        own = provider is not None
        if provider is None:
            provider = provider_of(known)
        if provider is not None:
            check_provider(provider)
        if provider is not None and own and not (named or provider.get("model_id")):
            raise InvalidValue(
                "model", "is not given, and a provider of your own needs its name; give model="
            )
        failures.keep(keys_of(provider, mcp_servers, known))
        self._lacks = lacking(provider, named, offline)
        self._named = named or (provider or {}).get("model_id") or ""
        self._timeout = timeout
        self._tools = Tools(*edges.several(tools, "tools", "tools"))
        if any(isinstance(each, AgentTool) for each in self._tools.tools()):
            raise InvalidValue("tools", "has an agent; only the engine's Loop delegates")
        edges.part_or_none(policy, "policy", Policy)
        self._policy: Policy = AllowAll() if policy is None else policy
        self._limits = edges.instance(Limits() if limits is None else limits, "limits", Limits)
        check_prices(prices)
        self._price = price_of(prices or {}, self._named)
        refuse_limits(msgspec.to_builtins(self._limits), INPUTS.limits)
        self.principal = edges.instance(principal, "principal", Principal)
        self._validator = None if validator is None else edges.function(validator, "validator")
        make: Validator = self._validator or compile_schema
        self.answer_forms = AnswerForms(output_schema, output_type, make)
        self._timer = edges.function(timer, "timer")
        self._ids = edges.function(ids, "ids")
        self._on_kill = on_kill
        where = None if folder is None else str(folder)
        self.cli = Cli(
            path=program,
            home=default_home(known) if kept is None else kept,
            model=model,
            base_url=None if provider is None else provider.get("base_url"),
            offline=offline,
            working_directory=where,
            env=env or {},
        )
        """The process that serves all Tasks."""
        self._options: dict[str, Any] = {
            "streaming": True,
            "tools": offered(self._tools.tools()),
            "available_tools": [f"custom:{each.name}" for each in self._tools.tools()]
            + [name if ":" in name else _qualified(name, mcp_servers) for name in allowed_tools],
            "working_directory": where or str(Path.cwd()),
        }
        # The CLI does not know what the model of another provider can do, and hides the images of
        # tools from a model that it does not know to see.
        seeing = ModelCapabilitiesOverride(supports=ModelSupportsOverride(vision=True))
        for name, value in (
            ("model", model),
            ("model_capabilities", None if provider is None else seeing),
            ("provider", provider),
            ("mcp_servers", None if mcp_servers is None else dict(mcp_servers)),
            ("system_message", _message(system_message)),
        ):
            if value is not None:
                self._options[name] = value
        if mcp_servers:
            self._options["hooks"] = {"on_pre_tool_use": _asking(mcp_servers)}
        self._live: dict[str, asyncio.Event] = {}

    async def accept(self, task: Task) -> None:
        """Refuse a Task if the CLI cannot start, or if the Task has an input that is not taken.

        Raises:
            CannotStart: The CLI is missing, has another version, or does not start; it has no
                provider that it may reach, or no model; the Task has an input that is not in
                `INPUTS`; or the metadata has a key that only this substrate may note. The message
                says what to do.
        """
        refuse_notes(task, SESSION, STOP_REASON, WAITING_FOR, USED)
        INPUTS.check(task)
        try:
            attachments_of(task)
            self.answer_forms.of(task)
        except InvalidValue as error:
            raise CannotStart(str(error), task.id) from error
        if self._lacks:
            raise CannotStart(self._lacks, task.id)
        await self.cli.open()

    async def execute(self, job: Job) -> Any:
        """Run the Task's session from its present point to its answer.

        If the CLI, its provider or the session is missing on this Host, the Task is paused with
        that reason and not failed, because another Host may go on with it.

        Raises:
            StateUnreadable: Another substrate or another version wrote the state.
            TaskFailed: With a code of `agentic_kernel_copilot.failures`, or ``engine/<limit>``.
        """
        await self._alone(job)
        job.announce(self._named)
        begun = job.state is not None
        try:
            state = load(job.state) if begun else State(VERSION, self._ids())
        except InvalidValue as error:
            raise StateUnreadable(str(error)) from error
        run = SessionRun(
            job, state, self._limits, self._timer, INPUTS.limits,
            price=self._price, form=FinalForm(self.answer_forms.of(job.task)),
        )  # fmt: skip
        if not job.fresh:
            await run.read_text()
        if not begun:
            job.note(SESSION, state.session)
            run.record(
                vocabulary.RUN_STARTED, limits=msgspec.to_builtins(run.limits),
                **named_tools(self._tools.tools()), **on_behalf(job.principal),
            )  # fmt: skip
        over = self._live[job.task.id] = asyncio.Event()
        try:
            if self._lacks:
                raise CannotStart(self._lacks)
            if run.limits.max_cost is not None and self._price is None:
                raise failures.failure(
                    NO_PRICE,
                    f"the run has a max_cost, but {self._named or 'its model'} has no price; give "
                    "one in prices=, or remove max_cost",
                )
            calls = Calls(run, self._tools, self._policy, self._validator)
            turns = SessionTurns(run, calls, self.cli, self._options, self._timeout)
            output = await turns.run(begun)
        except End as end:
            return run.close(end)
        except SessionMissing:
            await run.pause(
                f"the Copilot CLI has no session {state.session} in its home here; resume the Task "
                "on a Host that shares the home in which it was begun"
            )
        except CannotStart as refused:
            await run.pause(str(refused))
        except TaskFailed as fault:
            return run.close(failed(fault))
        except Exception as fault:
            return run.close(run.unhandled(fault))
        else:
            return run.close(End(StopReason.FINAL, output=output))
        finally:
            over.set()
            if self._live.get(job.task.id) is over:
                del self._live[job.task.id]

    async def _alone(self, job: Job) -> None:
        """Wait until an earlier run of the Task has let go of the session.

        Raises:
            RunEnded: The earlier run does not let go in time, so the Task is paused.
        """
        try:
            async with asyncio.timeout(LET_GO_SECONDS):
                while (earlier := self._live.get(job.task.id)) is not None:
                    await earlier.wait()
        except TimeoutError:
            await job.pause(
                job.state,
                reason="an earlier run of this Task still holds its session after "
                f"{LET_GO_SECONDS:g} seconds; resume the Task after the call of that run has ended",
            )

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """After the turn has ended, delete a killed Task's session if ``on_kill`` is ``delete``."""
        id = task.metadata.get(SESSION) if SESSION in task.noted else None
        if self._on_kill != "delete" or not isinstance(id, str):
            return
        over = self._live.get(task.id)
        if over is not None:
            async with asyncio.timeout(LET_GO_SECONDS):
                await over.wait()
        connection = await self.cli.open()
        client = connection.client
        try:
            await connection.call("delete a session", lambda: client.delete_session(id))
        except TaskFailed as refused:
            if not missing(refused):
                raise

    async def close(self) -> None:
        """End the CLI; its sessions stay on disk."""
        await self.cli.close()


def _qualified(name: str, servers: Mapping[str, Any] | None) -> str:
    """The name of a tool with its source, as the CLI's filter needs it."""
    ours = any(name.startswith(f"{server}-") for server in servers or ())
    return f"mcp:{name}" if ours else f"builtin:{name}"


def _asking(servers: Collection[str]) -> PreToolUseHandler:
    """A hook that makes the CLI ask about every call of an MCP server's tools.

    Without the hook the CLI does not ask about tools that the server declares as read-only.
    """
    theirs = tuple(f"{server}-" for server in servers)

    def ask(call: PreToolUseHookInput, _: Mapping[str, str]) -> PreToolUseHookOutput | None:
        return {"permissionDecision": "ask"} if call["toolName"].startswith(theirs) else None

    return ask


def _message(given: str | SystemMessageConfig | None) -> SystemMessageConfig | None:
    return {"mode": "replace", "content": given} if isinstance(given, str) else given
