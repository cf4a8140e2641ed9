"""CapabilityRegistryContract: the duties of a CapabilityRegistry to a Loop. Needs the engine."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Final

import pytest

from agentic_kernel import Agent, Capability
from agentic_kernel_engine import tool
from agentic_kernel_engine.seams import (
    CapabilityRegistry,
    DuplicateTool,
    Repertoire,
    Tool,
    UnknownAgent,
    UnknownCapability,
)

from .contract import Contract, supplied
from .features import CapabilityRegistryFeatures
from .rules import RuleError, broken, expect, in_time, refused
from .unwinding import give_up, nothing_left
from .values import IDS

Register = Callable[[Sequence[Agent], Mapping[str, Repertoire]], CapabilityRegistry]
"""Makes a registry of these Agents, with the repertoire of each capability by its name."""

_AT_ONCE: Final = 20


class CapabilityRegistryContract(Contract):
    """A registry gives each Agent what its capabilities give, and refuses every other name.

    Fixtures: ``registry``; ``agents``, the names of the Agents that it knows, at least one;
    ``register`` for the feature ``registers``. Features: `CapabilityRegistryFeatures`.
    """

    contract: ClassVar[str] = "CapabilityRegistryContract"
    features: ClassVar[CapabilityRegistryFeatures] = CapabilityRegistryFeatures()
    fixtures = frozenset({"registry", "agents", "register"})

    registry: Any = supplied("registry")
    """The `CapabilityRegistry` under test. Supplied by the adapter."""
    agents: Any = supplied("agents")
    """The names of the Agents that it knows. Supplied by the adapter."""
    register: Any = supplied("register", "registers")
    """A `Register`. Supplied by the adapter for the feature ``registers``."""

    @pytest.mark.rule("kit")
    async def test_the_fixtures_are_a_registry_and_its_agents(
        self, registry: CapabilityRegistry, agents: Sequence[str]
    ) -> None:
        """At least one Agent, and the registry knows all of them."""
        found = callable(getattr(registry, "resolve", None)) and not isinstance(registry, type)
        expect(found, "kit", f"{registry!r:.100} has no `resolve`")
        expect(bool(agents) and not isinstance(agents, str), "kit", f"`agents` is {agents!r:.100}")
        for agent in agents:
            try:
                await registry.resolve(agent)
            except UnknownAgent as error:
                raise broken("kit", f"`agents` has {agent!a}, which is unknown") from error

    @pytest.mark.rule("repertoire")
    async def test_an_agent_gets_the_same_each_time(
        self, registry: CapabilityRegistry, agents: Sequence[str]
    ) -> None:
        """A run that goes on elsewhere must find the tools and instructions that it had."""
        first = [await self._resolved(registry, agent) for agent in agents]
        for agent in reversed(agents):
            await self._resolved(registry, agent)
        for agent, before in zip(agents, first, strict=True):
            now = await self._resolved(registry, agent)
            seen = f"{agent!a} had {shown(before)!a:.200}, and then {shown(now)!a:.200}"
            expect(shown(now) == shown(before), "repertoire", seen)

    @pytest.mark.rule("repertoire", "ids")
    async def test_an_unknown_agent_is_refused(
        self, registry: CapabilityRegistry, agents: Sequence[str]
    ) -> None:
        """With `UnknownAgent`, which names it; a name that is nearly known is unknown."""
        near = [f(agent) for agent in agents for f in _NEAR]
        for agent in [*IDS.values(), "", "kit/nobody-has-this-name", *near]:
            if agent not in agents:
                await self._unknown(registry, agent)

    @pytest.mark.rule("apart")
    async def test_agents_at_the_same_time_do_not_mix(
        self, registry: CapabilityRegistry, agents: Sequence[str]
    ) -> None:
        """Each run gets its own Agent's repertoire, beside names that are refused."""
        several = [*agents, "kit/nobody"]
        alone = {agent: await _outcome(registry, agent) for agent in several}
        asked = several * _AT_ONCE
        async with in_time("apart", self.patience, "resolving many at once"):
            told = await asyncio.gather(*(_outcome(registry, agent) for agent in asked))
        for agent, found in zip(asked, told, strict=True):
            seen = f"{agent!a}: {alone[agent]!a:.150} alone, {found!a:.150} beside others"
            expect(found == alone[agent], "apart", seen)

    @pytest.mark.rule("unwind")
    async def test_a_call_that_is_given_up_ends(
        self, registry: CapabilityRegistry, agents: Sequence[str]
    ) -> None:
        """The registry answers the next call as before."""
        before = shown(await self._resolved(registry, agents[0]))
        await give_up(lambda: registry.resolve(agents[0]), self.patience, "a `resolve`")
        async with nothing_left("a `resolve`"):
            now = shown(await self._resolved(registry, agents[0]))
        expect(now == before, "unwind", f"given up, {agents[0]!a} has {now!a:.200}")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_capabilities_are_given_in_the_order_of_the_list(
        self, register: Register
    ) -> None:
        """The Agent's list decides, and neither the alphabet nor the order of registration."""
        parts = {name: _part(name) for name in ("kit/m", "kit/a", "kit/z", "kit/b")}
        orders = [["kit/z", "kit/a", "kit/m"], ["kit/a", "kit/m", "kit/z"], ["kit/b"], []]
        agents = [_agent(f"kit/agent{n}", order) for n, order in enumerate(orders)]
        registry = register(agents, parts)
        for agent, order in zip(agents, orders, strict=True):
            wanted = _joined([parts[name] for name in order])
            await self._expect(registry, agent.name, wanted, f"with the capabilities {order}")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_a_capability_that_is_listed_twice_is_given_once(
        self, register: Register
    ) -> None:
        """At its first place."""
        parts = {"kit/one": _part("kit/one"), "kit/two": _part("kit/two")}
        agent = _agent("kit/agent", ["kit/two", "kit/one", "kit/two", "kit/one"])
        wanted = _joined([parts["kit/two"], parts["kit/one"]])
        await self._expect(register([agent], parts), agent.name, wanted, "listed twice each")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_a_tool_of_two_capabilities_is_given_once(self, register: Register) -> None:
        """It is the same tool, so no call of it is ambiguous; equal instructions both stay."""
        shared, own = _tool("shared"), _tool("own")
        parts = {
            "kit/one": Repertoire(["Be kind.", "One."], [shared]),
            "kit/two": Repertoire(["Two.", "Be brief."], [own, shared]),
        }
        agent = _agent("kit/agent", ["kit/one", "kit/two"])
        wanted = (("Be kind.", "One.", "Two.", "Be brief."), _tools([shared, own]))
        await self._expect(register([agent], parts), agent.name, wanted, "with a shared tool")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_two_tools_of_one_name_are_refused(self, register: Register) -> None:
        """With `DuplicateTool`, each time; other Agents are not concerned."""
        parts = {
            "kit/one": Repertoire("One.", [_tool("find", "in one place")]),
            "kit/two": Repertoire("Two.", [_tool("find", "in another place")]),
        }
        both = _agent("kit/both", ["kit/one", "kit/two"])
        one, two = _agent("kit/first", ["kit/one"]), _agent("kit/second", ["kit/two"])
        registry = register([both, one, two], parts)
        for _ in range(2):
            doing = "an Agent with two tools of one name"
            with refused("repertoire", DuplicateTool, doing) as refusal:
                await registry.resolve(both.name)
            names = (refusal.error.agent, refusal.error.tool)
            expect(names == (both.name, "find"), "repertoire", f"the refusal names {names}")
            for agent, name in ((one, "kit/one"), (two, "kit/two")):
                await self._expect(registry, agent.name, _joined([parts[name]]), "beside it")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_a_capability_that_is_not_provided_is_refused(self, register: Register) -> None:
        """With `UnknownCapability`, wherever it stands in the list; it is not left out."""
        parts = {"kit/one": _part("kit/one")}
        lists = (["kit/gone"], ["kit/one", "kit/gone"], ["kit/gone", "kit/one"], ["kit/One"])
        agents = [_agent(f"kit/agent{n}", names) for n, names in enumerate(lists)]
        whole = _agent("kit/whole", ["kit/one"])
        registry = register([*agents, whole], parts)
        for agent, names in zip(agents, lists, strict=True):
            gone = next(name for name in names if name not in parts)
            doing = f"an Agent with the capabilities {names}"
            with refused("repertoire", UnknownCapability, doing) as refusal:
                await registry.resolve(agent.name)
            told = (refusal.error.agent, refusal.error.capability)
            expect(told == (agent.name, gone), "repertoire", f"the refusal names {told}")
        await self._expect(registry, whole.name, _joined([parts["kit/one"]]), "beside the others")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_an_agent_without_capabilities_has_nothing(self, register: Register) -> None:
        """It is known; so is an Agent whose capabilities give nothing."""
        agents = [_agent("kit/bare", []), _agent("kit/poor", ["kit/nothing"])]
        registry = register(agents, {"kit/nothing": Repertoire()})
        for agent in agents:
            await self._expect(registry, agent.name, ((), ()), "without anything")

    @pytest.mark.rule("repertoire", "ids")
    @pytest.mark.feature("registers")
    async def test_names_that_look_alike_are_different(self, register: Register) -> None:
        """Of Agents and of capabilities; letter case counts, and no form is made another."""
        names = ["kit/a", "kit/A", "Kit/a", "kit/\u00e9", "kit/e\u0301", "kit/a-", "kit/ａ"]
        parts = {name: _part(name) for name in names}
        agents = [_agent(name, [other]) for name, other in zip(names, names[::-1], strict=True)]
        registry = register(agents, parts)
        for agent in agents:
            wanted = _joined([parts[agent.capabilities[0].name]])
            await self._expect(registry, agent.name, wanted, "beside names that look alike")
        await self._unknown(registry, "KIT/A")

    @pytest.mark.rule("repertoire")
    @pytest.mark.feature("registers")
    async def test_texts_and_tools_come_unchanged(self, register: Register) -> None:
        """Also an empty text, line breaks, and the bounds of a tool."""
        texts = ["", " a\n\n b ", "{name} %s ${HOME}", "é e\u0301", "x" * 20_000]
        careful = tool(
            _act, name="act", effect="destructive", idempotent=True, scopes=["kit/act"], timeout=7,
            concurrent=False,
        )  # fmt: skip
        parts = {"kit/all": Repertoire(texts, [careful])}
        registry = register([_agent("kit/agent", ["kit/all"])], parts)
        wanted = (tuple(texts), _tools([careful]))
        await self._expect(registry, "kit/agent", wanted, "with texts of every kind")

    async def _expect(
        self, registry: CapabilityRegistry, agent: str, wanted: tuple[Any, Any], when: str
    ) -> None:
        try:
            found = shown(await self._resolved(registry, agent))
        except (UnknownAgent, UnknownCapability, DuplicateTool) as error:
            raise broken("repertoire", f"{agent!a}, {when}, was refused: {error}") from error
        seen = f"{agent!a}, {when}, has {found!a:.300}, not {wanted!a:.300}"
        expect(found == wanted, "repertoire", seen)

    async def _unknown(self, registry: CapabilityRegistry, agent: str) -> None:
        async with in_time("repertoire", self.patience, f"refusing {agent!a:.100}"):
            with refused("repertoire", UnknownAgent, f"the name {agent!a:.100}") as refusal:
                await registry.resolve(agent)
        named = refusal.error.agent
        expect(named == agent, "repertoire", f"{agent!a:.100} was refused as {named!a:.100}")

    async def _resolved(self, registry: CapabilityRegistry, agent: str) -> Repertoire:
        async with in_time("repertoire", self.patience, f"resolving {agent!a:.100}"):
            try:
                found: Any = await registry.resolve(agent)
            except (RuleError, UnknownAgent, UnknownCapability, DuplicateTool):
                raise
            except Exception as error:
                raise broken("repertoire", f"{agent!a:.100} raised {error!r:.200}") from error
        if not isinstance(found, Repertoire):
            raise broken("repertoire", f"{agent!a:.100} gave {found!r:.100}; give a Repertoire")
        names = [each.name for each in found.tools]
        twice = len(names) != len(set(names))
        expect(not twice, "repertoire", f"{agent!a:.100} has two tools of one name: {names}")
        return found


def shown(found: Repertoire) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    """The content of a repertoire; two are equal if a planner and a policy see the same."""
    return tuple(found.instructions), _tools(found.tools)


def _tools(given: Sequence[Tool]) -> tuple[Any, ...]:
    return tuple(
        (
            each.name, each.description, each.input_schema, each.output_schema, each.effect,
            each.idempotent, each.scopes, each.timeout, each.concurrent,
        )
        for each in given
    )  # fmt: skip


def _joined(parts: Sequence[Repertoire]) -> tuple[tuple[str, ...], tuple[Any, ...]]:
    return (
        tuple(text for part in parts for text in part.instructions),
        _tools([each for part in parts for each in part.tools]),
    )


async def _outcome(registry: CapabilityRegistry, agent: str) -> object:
    """The answer of the registry about an Agent: the content of a repertoire, or the refusal."""
    try:
        return shown(await registry.resolve(agent))
    except UnknownAgent as error:
        return f"unknown: {error.agent}"


def _act(text: str = "") -> str:
    """Do something."""
    return text


def _tool(name: str, description: str = "") -> Tool:
    return tool(_act, name=name, description=description or f"Do {name}.", effect="none")


def _part(name: str) -> Repertoire:
    letters = name.encode().hex()
    return Repertoire(
        [f"First {name}.", f"Then {name}."], [_tool(f"t{letters}"), _tool(f"s{letters}")]
    )


def _agent(name: str, capabilities: Sequence[str]) -> Agent:
    return Agent(name, tuple(map(Capability, capabilities)))


_NEAR: Final[tuple[Callable[[str], str], ...]] = (
    str.upper,
    str.title,
    lambda name: f"{name} ",
    lambda name: f" {name}",
    lambda name: f"{name}/",
    lambda name: name[:-1],
    lambda name: name.rpartition("/")[2],
    lambda name: f"{name}\0",
)
"""Changes of a known name that make it unknown."""
