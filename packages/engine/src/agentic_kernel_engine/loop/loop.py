"""Loop: a substrate that plans, authorizes, executes and observes within bounds.

`Loop.step` shows the whole order. The parts that vary are seams. The part that ends a run raises
`End`, and one place handles it.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from agentic_kernel import CannotStart, InvalidValue, Task
from agentic_kernel.ids import new_id

from .. import edges
from ..errors import StateUnreadable, TaskFailed
from ..events import Event
from ..faults import is_a, is_unwinding
from ..host.job import Job
from ..plans import vocabulary
from ..plans.accounts import USED
from ..plans.action import CompleteGoal, PushGoal, Thought, ToolCall
from ..plans.ending import End, failed
from ..plans.limits import Limits
from ..plans.observation import Observation
from ..plans.plan import Plan
from ..plans.reasons import STOP_REASON, WAITING_FOR, StopReason, refuse_notes
from ..plans.transcript import Turn
from ..principal import NOBODY, Principal
from ..seams.capabilities import AgentTools, CapabilityRegistry, check_options
from ..seams.child_tasks import ChildTasks
from ..seams.compactor import Compactor
from ..seams.delegation import Delegation, Metering
from ..seams.memory import Memory
from ..seams.memory_governor import MemoryGovernor
from ..seams.middleware import Hooks
from ..seams.planner import AsksModel, Context, Planner, TakesOptions, model_of
from ..seams.policy import Hiding, Policy
from ..substrate import Accepting, Acting, Cleaning, Limiting, Metered, Reading
from ..tools.registry import ToolRegistry, named_tools
from ..tools.scheduler import ParallelScheduler, SequentialScheduler, ToolScheduler
from ..tools.schema import Validator, compile_schema
from ..tools.threads import SHARED, ToolThreads
from ..tools.tool import Tool, Tools
from . import actions, approvals, budget_cuts, children, continuation
from .compaction import compact
from .final_answer import AnswerForms, tell_refused
from .ledger import Clock
from .middleware import ask_planner
from .planner_calls import PlannerCalls, take_up
from .remembering import Remembering, seeds, session_of
from .run import LoopRun
from .state import FORM, load

_NO_OPTIONS: Final[Mapping[str, Any]] = {}
_EMPTY: Final = "Your answer had no action. Call a tool, or give the final answer."
_encode = msgspec.json.Encoder(order="sorted").encode


class Loop(Accepting, Cleaning, Acting, Limiting, Metered, Reading):
    """A bounded agent, as a `Substrate`: ``Host(Loop(planner, tools), store)`` is a Runtime.

    A run goes on from its last commit, in the same way after a pause, a crash and a take-over.
    Limits hold exactly, over all of these; a tool call that a crash makes the Loop repeat counts
    once. Only the time after a run's last commit is not known if the run is cut: ``max_seconds``
    leaves it out, and ``max_attempts`` of the Host bounds such runs. An effect is recorded before
    it begins and settled after it. If a crash hides the outcome of a call, the Loop makes the call
    again only if its tool may be repeated; otherwise the outcome is `indeterminate`, and a person
    or the planner decides.

    Args:
        planner: Decides about the next step.
        tools: A registry, or tools and typed functions.
        policy: Allows or denies each action; by default every action is allowed.
        limits: The limits of a run.
        middleware: May change what goes to the planner and to tools, and what comes back.
        scheduler: Runs the tool calls of a batch.
        parallel_tools: True if the calls of a batch may run in parallel, if no scheduler is given.
        threads: The threads for tools that are plain functions; by default all Loops of the
            process share them.
        on_deny: ``observe`` tells the planner of a denied action; ``end`` ends the run.
        on_non_progress: ``reflect`` gives a stalled run a corrective message first; ``stop`` ends
            it.
        capabilities: Supplies, for the Agent that a Task names, its instructions and its tools
            beside those of the Loop. Without it an Agent is only a name.
        memory: The memory to recall from at every step: the items of the Loop's principal in the
            session that the Task names.
        governor: Decides which facts of a run go into the memory; without one, none does.
        seed_memory: Texts that every context shows before the recalled ones.
        compactor: Keeps the transcript short; by default the planner sees all of it.
        delegation: Decides which Task may delegate to which Agent, and where children run;
            `ChildTasks` by default.
        output_schema: The JSON Schema that a final answer must fit. The metadata
            ``engine/output_schema`` of a Task replaces it.
        output_type: In place of the schema, the Python type that a final answer must become: a
            pydantic model, a dataclass, a TypedDict or another type with a JSON form. The result
            stays JSON.
        validator: Makes the checks of final answers, and of each tool that has no validator of its
            own; `compile_schema` by default.
        principal: The principal of the Tasks whose dispatch names none; see `Host.dispatch`.
        should_cancel: Is asked before every step; if it returns True, the Task is paused.
        clock: Returns seconds, never running backwards, for ``max_seconds``.
        ids: Issues the ids of children; each id must be unique.
    """

    meters = True
    reads = (FORM,)
    """The forms of states that this Loop reads, beside those without a form."""
    limit_names = Limits.__struct_fields__
    """The limits that a Task may have: all."""
    principal = NOBODY

    def __init__(
        self,
        planner: Planner,
        tools: ToolRegistry | Sequence[Tool | Callable[..., Any]] = (),
        policy: Policy | None = None,
        *,
        limits: Limits | None = None,
        middleware: Sequence[Any] = (),
        scheduler: ToolScheduler | None = None,
        parallel_tools: bool = True,
        threads: ToolThreads = SHARED,
        on_deny: str = "observe",
        on_non_progress: str = "reflect",
        capabilities: CapabilityRegistry | None = None,
        delegation: Delegation | None = None,
        compactor: Compactor | None = None,
        memory: Memory | None = None,
        governor: MemoryGovernor | None = None,
        seed_memory: Sequence[str] = (),
        output_schema: Mapping[str, Any] | None = None,
        output_type: Any = None,
        validator: Validator | None = None,
        principal: Principal = NOBODY,
        should_cancel: Callable[[], bool] | None = None,
        clock: Clock = time.monotonic,
        ids: Callable[[], str] = new_id,
    ) -> None:
        edges.part(planner, "planner", Planner)
        edges.part_or_none(policy, "policy", Policy)
        edges.part_or_none(scheduler, "scheduler", ToolScheduler)
        edges.part_or_none(capabilities, "capabilities", CapabilityRegistry)
        edges.part_or_none(delegation, "delegation", Delegation)
        edges.part_or_none(compactor, "compactor", Compactor)
        edges.part_or_none(memory, "memory", Memory)
        edges.part_or_none(governor, "governor", MemoryGovernor)
        self.limits = edges.instance(Limits() if limits is None else limits, "limits", Limits)
        self.principal = edges.instance(principal, "principal", Principal)
        self.threads = edges.instance(threads, "threads", ToolThreads)
        if not isinstance(tools, (ToolRegistry, Sequence)) or isinstance(tools, (str, type)):
            raise InvalidValue(
                "tools", f"is {edges.came(tools)}; give a registry or a list of tools"
            )
        self.on_deny = edges.choice(on_deny, "on_deny", ("observe", "end"))
        self.on_non_progress = edges.choice(on_non_progress, "on_non_progress", ("reflect", "stop"))
        if governor is not None and memory is None:
            raise InvalidValue("governor", "has no memory to govern; give the Loop one as well")
        self.planner = planner
        self.tools: ToolRegistry = (
            tools
            if isinstance(tools, ToolRegistry)
            else Tools(*edges.several(tools, "tools", "tools"))
        )
        self._offered: Sequence[Tool] | None = None
        self._named: Mapping[str, Any] = {}
        """The tools ``_offered`` as ``run.started`` records them."""
        self.policy = policy
        hiding: Hiding | None = None if policy is None else edges.optional(policy, "policy", Hiding)
        self._visible = None if hiding is None else hiding.visible
        self.hooks = Hooks(middleware)
        self.single_at_once = scheduler is None
        self.scheduler = scheduler or (
            ParallelScheduler()
            if edges.flag(parallel_tools, "parallel_tools")
            else SequentialScheduler()
        )
        self.capabilities = capabilities
        self.delegation: Delegation = delegation or ChildTasks()
        self._metering: Metering | None = edges.optional(self.delegation, "delegation", Metering)
        self.compactor = compactor
        self.validator = None if validator is None else edges.function(validator, "validator")
        make: Validator = self.validator or partial(compile_schema, checked=True)
        self.answer_forms = AnswerForms(output_schema, output_type, make)
        self._remembering = None if memory is None else Remembering(memory, governor)
        self._seeds = seeds(seed_memory)
        self._should_cancel = (
            None if should_cancel is None else edges.predicate(should_cancel, "should_cancel")
        )
        self._clock = edges.function(clock, "clock")
        self.ids = edges.function(ids, "ids")
        self._calls = PlannerCalls(planner, self.hooks)
        hooked = self.hooks.before_model or self.hooks.after_model
        self._ask = partial(ask_planner, self._calls, self.hooks) if hooked else self._calls.ask
        accepting: Accepting | None = edges.optional(planner, "planner", Accepting)
        self._accepts = None if accepting is None else accepting.accept
        self._asks: AsksModel | None = edges.optional(planner, "planner", AsksModel)
        self._takes: TakesOptions | None = edges.optional(planner, "planner", TakesOptions)

    async def accept(self, task: Task) -> None:
        """Refuse a Task that cannot be worked on here, before anything is written.

        Raises:
            CannotStart: The Agent or one of its capabilities is unknown, two tools have the same
                name, the name of the Task's session or the schema of its result is not valid, the
                metadata has a key that only the Loop may note, or the planner refuses the Task.
        """
        refuse_notes(task, STOP_REASON, WAITING_FOR, USED)
        try:
            await self._equipped(task)
            self.answer_forms.of(task)
            if self._remembering is not None or continuation.SESSION in task.metadata:
                session_of(task)
        except (TaskFailed, InvalidValue) as refused:
            raise CannotStart(str(refused), task.id) from refused
        if self._accepts is not None:
            await self._accepts(task)

    async def on_killed(self, task: Task, state: Any, events: Sequence[Event]) -> None:
        """End the children of a killed Task that the sweep of its store does not reach."""
        if state is not None:
            tools, _, _ = await self._equipped(task)
            await children.on_killed(self.delegation, tools, task, load(state), events)

    async def execute(self, job: Job) -> Any:
        """Run the Task from its last commit, step by step, to its end."""
        try:
            run = LoopRun(job, self.limits, self._clock, compacts=self.compactor is not None)
        except InvalidValue as fault:
            raise StateUnreadable(str(fault)) from fault
        if self._asks is not None or job.task.agent_name is not None:
            job.announce(model_of(self.planner))
        try:
            if await run.enter():
                tools = self.tools.tools()
                if tools is not self._offered:  # Most registries give the same tuple always.
                    self._offered = tools if isinstance(tools, tuple) else None
                    self._named = named_tools(tools)
                run.record(
                    vocabulary.RUN_STARTED,
                    limits=run.limits,
                    **self._named,
                    **continuation.on_behalf(job.principal),
                )
                if continuation.CONTINUES in run.task.metadata:
                    await continuation.carry_over(run, job.principal, self.compactor)
                for hook in self.hooks.on_run_start:
                    await hook(run.state)
            if run.state.ended is not None:
                raise run.state.ended.end()
            run.answer = self.answer_forms.of(run.task)
            run.tools, run.instructions, run.options = await self._equipped(run.task)
            run.delegation = self._metering
            await self._ready(run)
            while True:
                await self.step(run)
        except End as fault:
            return await self._end(run, fault)
        except TaskFailed as fault:
            return await self._end(run, failed(fault))
        except GeneratorExit:
            raise  # The event loop destroys this coroutine, so it must not wait any more.
        except BaseException as fault:
            if is_a(fault, KeyboardInterrupt) or is_unwinding(fault):
                raise
            return await self._end(run, run.unhandled(fault))

    async def step(self, run: LoopRun) -> None:
        """Do one step: decisions, limits, plan, authorization, actions, and one durable write.

        Raises:
            End: The run is over.
            RunEnded: The Task is paused, or this run no longer owns it.
        """
        if run.job.inbox or self._should_cancel is not None:
            await self._apply_decisions(run)
        if run.state.shares is not None:
            await budget_cuts.attend(run)
        self._reflect(run)
        at_hand = run.state.at_hand
        if at_hand is None and (reached := run.exceeded()) is not None:
            raise run.end_at(reached)
        if self.compactor is not None:
            compact(self.compactor, run)
        context = self._context(run)
        if self._remembering is not None:
            await self._remembering.inject(run, context)
        if at_hand is None:
            await self._calls.reserve(run, context)
            answer = await self._ask(run, context)
            if answer is None:
                return  # A pause that was withdrawn meanwhile cut it short.
            at_hand = take_up(run, *answer)
        if await actions.authorize(self.policy, run, at_hand, context) or run.job.inbox:
            await approvals.wait_for_people(run, at_hand)
        observations = await actions.carry_out(self, run, at_hand, context)
        _observe(run, at_hand.plan, observations)
        if self._remembering is not None:
            await self._remembering.note(run, context, at_hand.plan, observations)
        await self._commit(run, context)

    async def _equipped(self, task: Task) -> tuple[ToolRegistry, Sequence[str], Mapping[str, Any]]:
        """The tools that a Task may call, and the rest of its Agent's capabilities.

        Raises:
            UnknownAgent, UnknownCapability, DuplicateTool, ClashingOption: As
                `CapabilityRegistry.resolve`.
            OptionRefused: The planner does not have an option of the Agent.
        """
        agent = task.agent_name
        if self.capabilities is None or agent is None:
            return self.tools, (), _NO_OPTIONS
        given = await self.capabilities.resolve(agent)
        if given.options:
            check_options(agent, given.options, self._takes)
        return AgentTools(agent, self.tools, given.tools), given.instructions, given.options

    async def _ready(self, run: LoopRun) -> None:
        """Pause a Task that the planner refuses on this Host; another Host may go on with it."""
        if self._accepts is None:
            return
        try:
            await self._accepts(run.task)
        except CannotStart as refused:
            await run.pause(str(refused))

    async def _apply_decisions(self, run: LoopRun) -> None:
        """Act on the decisions that wait in the inbox, and pause if `should_cancel` is True."""
        if run.job.inbox:
            approvals.apply_decisions(run)
        if self._should_cancel is not None and self._should_cancel():
            await run.pause(StopReason.CANCELLED.value, note=StopReason.CANCELLED)

    def _reflect(self, run: LoopRun) -> None:
        """Give a stalled run a corrective message, or end it; each message allows one step more."""
        state, limits = run.state, run.limits
        if state.repeats >= limits.max_repeats:
            raise End(
                StopReason.LOOP,
                f"max_repeats {limits.max_repeats}: the same actions gave the same observations "
                f"{state.repeats} times in a row; change the instructions, or raise max_repeats",
            )
        if state.non_progress < limits.max_non_progress + state.reflections:
            return
        if self.on_non_progress == "stop" or state.reflections >= limits.max_reflections:
            raise End(
                StopReason.NO_PROGRESS,
                f"max_non_progress {limits.max_non_progress}: {state.non_progress} steps in a row "
                f"brought nothing new, after {state.reflections} corrective messages; change the "
                "instructions, or raise max_non_progress or max_reflections",
            )
        state.reflections += 1
        text = (
            f"The last {state.non_progress} steps brought nothing new. Say what is missing, then "
            "try another way, or give the final answer with what is known."
        )
        state.non_progress = 0
        run.tell(vocabulary.RUN_REFLECTED, text, round=state.reflections)

    def _context(self, run: LoopRun) -> Context:
        state = run.state
        context = Context(
            run.task, state.step, run.transcript, run.tools.tools(), state.goals, run.remaining,
            run.job.principal, state.variables, run.instructions, self._seeds, run.answer.schema,
            state.said, options=run.options,
        )  # fmt: skip
        if self._visible is not None:
            context.tools = _visible_tools(self._visible, context)
        return context

    async def _commit(self, run: LoopRun, context: Context) -> None:
        """One durable write, with the reservation for the next call; then a safe point."""
        run.state.step += 1
        run.state.waiting = None
        if run.ending is not None:
            raise run.ending
        if run.after is not None:
            after, run.after = run.after, None
            await after()
        if run.one_step:
            run.one_step = False
            await run.pause("step")
        run.state.reserved = self._calls.next(run, context)
        await run.checkpoint()

    async def _end(self, run: LoopRun, end: End) -> Any:
        """The one exit: run the last hooks, settle memory, and end the Task."""
        if not run.state.ended:
            tell_refused(run.transcript, end)
        for hook in () if run.state.ended else self.hooks.on_run_end:
            try:
                await hook(run.state, end)
            except End as instead:
                end = instead
        run.log(end)
        if self._remembering is not None:
            await self._remembering.conclude(run, end)
        elif run.state.remembering:  # An earlier host had a memory.
            items = [item.id for item in run.state.remembering]
            run.record(vocabulary.MEMORY_LOST, items=items)
        run.ending = None  # Its traceback refers to the run: break the cycle.
        return run.close(end)


def _visible_tools(visible: Callable[[Tool, Context], bool], context: Context) -> list[Tool]:
    """The tools that a policy lets a planner see."""
    return [tool for tool in context.tools if visible(tool, context)]


def _observe(run: LoopRun, plan: Plan, observations: Sequence[Observation]) -> None:
    """Record the step, and count the steps without progress and the repeated ones."""
    state = run.state
    news = goals = False
    seen: list[Any] = []
    for action, observation in zip(plan.actions, observations, strict=True):
        if type(action) is ToolCall:
            # The provider's id of a call is left out, because it is new each time.
            seen.append((action.tool, action.arguments))
            news = news or not observation.error
        else:
            seen.append(action)
            kind = type(action)
            goals = goals or kind is PushGoal or kind is CompleteGoal
            news = news or (kind is not Thought and not observation.error)
        seen += observation.output, observation.error, observation.message
    if goals:
        run.record(vocabulary.STEP_OBSERVED, observations=observations, goals=state.goals)
    else:
        run.record(vocabulary.STEP_OBSERVED, observations=observations)
    run.transcript.append(Turn(plan, tuple(observations)))
    if not plan.actions:
        run.tell(vocabulary.RUN_REFLECTED, run.refused or _EMPTY, round=state.reflections)
        state.non_progress += 1
        state.last, state.repeats = "", 0
        return
    fingerprint = hex(zlib.crc32(_encode(seen)))
    same = fingerprint == state.last
    state.last = fingerprint
    state.repeats = state.repeats + 1 if same else 1
    state.non_progress = 0 if news and not same else state.non_progress + 1
