"""One case under one setting: a Loop with the bare tools, or with the guard before them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from agentic_kernel import Task
from agentic_kernel_engine import Host, Principal
from agentic_kernel_engine.loop import Loop
from agentic_kernel_engine.seams import Policy, Tool, ToolContext, ToolRegistry, Tools
from agentic_kernel_guard import (
    AsGiven,
    Budgets,
    CapabilitySpec,
    DefaultPolicy,
    Firewall,
    Guard,
    GuardedTools,
    GuardPolicy,
    InMemoryDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    Redactor,
    Registry,
    RulePolicy,
    SafetyClass,
    StaticRouter,
)
from agentic_kernel_guard.rules import parse
from integration.injections.planner import Follower
from integration.injections.suite import Call, Case, Told

USER = Principal("user", "home", roles=frozenset({"writer"}))
KEYS = Keyring([Key("k1", bytes(range(32)))])
WIDE = Budgets(rows=500, fields=100, chars=1_000_000, depth=10)
"""So wide that no frame is cut: what is measured is what the rules do."""
WORK = ("mail", "phone", "iban")
"""What these assistants cannot work without: they write mails and pay bills."""
KINDS = ("card", "iban", "key", "mail", "national id", "password", "phone", "private key", "token")
_SEED = """\
- {name: reads, priority: 10, effect: allow, match: {safety: read}}
- {name: writes, priority: 11, effect: allow, match: {safety: write, role: writer}}
- {name: destroys, priority: 12, effect: allow, match: {safety: destructive, role: admin}}
"""
_TAINT = """\
version: 1
rules:
- {name: taint, priority: 1, effect: deny, match: {safety: [write, destructive]},
   when: {%s: "others/*"}}
"""


@dataclass(frozen=True, slots=True)
class Setting:
    """One line of the table."""

    name: str
    said: str
    guarded: bool = True
    shows: tuple[str, ...] = WORK
    rules: str = ""
    """The rule file; empty for what holds without rules."""


SETTINGS = (
    Setting("off", "no guard", guarded=False),
    Setting("seed, all redacted", "the rules that hold without a rule file", shows=()),
    Setting("seed", "the same; mail addresses, phone numbers and IBANs are shown"),
    Setting("carries", "a write is denied if it carries text of others",
            rules=_TAINT % "carries" + _SEED),
    Setting("has_read", "a write is denied after text of others was read",
            rules=_TAINT % "has_read" + _SEED),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one case."""

    done: bool
    """The injection's task, or without one the user's."""
    seen: bool
    """The model saw the injection."""
    refused: tuple[tuple[str, bool, str, str], ...]
    cuts: int
    """The calls whose frame was cut."""


async def run(suite: str, tools: Sequence[Told], case: Case, setting: Setting) -> Outcome:
    """Run one case in a world of its own."""
    world = case.world()
    names = {each.name: f"{suite}_{each.name}" for each in tools}
    user, injected = _named(world.user, names), _named(world.injected, names)
    registry: ToolRegistry = _open(names, tools, world.use)
    policy: Policy | None = None
    reasons: frozenset[str] = frozenset()
    if setting.guarded:
        guard = _guard(suite, tools, world.use, setting)
        registry, policy = GuardedTools(guard, mode="table"), GuardPolicy(guard)
        reasons = frozenset(names[each.name] for each in tools if each.safety != "read")
    hidden = frozenset(KINDS) - frozenset(setting.shows) if setting.guarded else ()
    planner = Follower(case, user, injected, hidden=hidden, reasons=reasons)
    async with Host(Loop(planner, registry, policy=policy)) as host:
        task = Task.new(summary=case.user, instructions=case.prompt, runtime_kind="loop")
        await host.dispatch(task, principal=USER)
        ended = await host.wait(task.id)
    answer = str(ended.result)
    back = {shown: name for name, shown in names.items()}
    done = [(back[name], arguments) for name, arguments in planner.done]
    judged = world.judge(answer, done)
    return Outcome(judged, planner.followed, tuple(planner.refused), planner.cuts)


def _named(calls: Sequence[Call], names: dict[str, str]) -> list[Call]:
    return [(names[name], arguments) for name, arguments in calls]


def _open(names: dict[str, str], tools: Sequence[Told], use: Any) -> Tools:
    """The tools without a guard."""

    def made(told: Told) -> Tool:
        async def handler(arguments: dict[str, Any], context: ToolContext) -> Any:
            return use(told.name, arguments)

        effect: Any = told.safety
        return Tool(
            names[told.name], handler, description=told.description, input_schema=told.schema,
            effect=effect,
        )  # fmt: skip

    return Tools(*map(made, tools))


def _guard(suite: str, tools: Sequence[Told], use: Any, setting: Setting) -> Guard:
    specs = [
        CapabilitySpec(
            f"{suite}/{told.name}", told.description, told.name, arguments=told.schema,
            safety=SafetyClass(told.safety),
        )
        for told in tools
    ]  # fmt: skip

    def operation(name: str) -> Any:
        async def called(**arguments: Any) -> Any:
            return use(name, arguments)

        return called

    drivers = {
        source: InMemoryDriver(
            {told.name: operation(told.name) for told in tools}, name=source, source=source
        )
        for source in {told.source for told in tools}
    }
    routes = {f"{suite}/{told.name}": [drivers[told.source]] for told in tools}
    return Guard(
        Registry(specs), StaticRouter(routes),
        policy=RulePolicy(parse(setting.rules)) if setting.rules else DefaultPolicy(),
        store=MemoryGuardStore(), keys=KEYS, resolver=AsGiven(),
        firewall=Firewall(WIDE, Redactor(shows=setting.shows)),
    )  # fmt: skip
