"""CapabilityRegistry: the instructions and tools behind the capability names of an Agent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from agentic_kernel import Agent, Capability, InvalidValue

from .. import edges, values
from ..errors import TaskFailed
from ..tools.registry import ToolRegistry
from ..tools.tool import Tool, Tools
from .planner import TakesOptions


class Repertoire:
    """The instructions, tools and options of one capability, or of all capabilities of an Agent.

    Args:
        instructions: For the planner, beside the Task's own; one text, or several in their order.
        tools: Tools, and typed functions, which become tools as by `tool`.
        options: Options of the planner's answers by name, e.g. ``{"temperature": 0.2}``; the
            planner says which it has. A Task's own options count before these.

    Raises:
        InvalidValue: Two tools have the same name, a function cannot become a tool, a text cannot
            be stored, or the options are not valid JSON.
    """

    __slots__ = ("instructions", "options", "tools")

    def __init__(
        self,
        instructions: str | Iterable[str] = (),
        tools: Iterable[Tool | Callable[..., Any]] = (),
        options: Mapping[str, Any] | None = None,
    ) -> None:
        given = [instructions]
        if not isinstance(instructions, str):
            given = edges.several(instructions, "instructions", "texts")
        self.instructions = tuple(
            edges.text(each, f"instructions[{index}]") for index, each in enumerate(given)
        )
        found = edges.several(tools, "tools", "tools")
        self.tools: tuple[Tool, ...] = tuple(Tools(*found).tools())
        self.options: dict[str, Any] = dict(edges.entries(options or {}, "options"))
        values.check(self.options, "options")


class CapabilityRegistry(Protocol):
    """Knows the Agents of a Loop, and the instructions and tools of their capabilities.

    The Loop asks it once when a Task is dispatched, before anything is written, and once at every
    entry of a run. So a change takes effect at the next entry, never in the middle of one.
    """

    async def resolve(self, agent: str) -> Repertoire:
        """The instructions and tools of this Agent's capabilities, in the order of its list.

        The same name gives the same repertoire for as long as the registry does not change. A
        capability that is listed twice is given once.

        Args:
            agent: The name of an Agent, ``<scope>/<name>``.

        Raises:
            UnknownAgent: There is no such Agent.
            UnknownCapability: The Agent has a capability that the registry does not provide.
            DuplicateTool: Two different tools of the Agent have the same name.
            ClashingOption: Two capabilities give one option different values.
        """
        ...


class UnknownAgent(TaskFailed):
    """A Task names an Agent that the registry does not have.

    Attributes:
        agent: The name.
    """

    def __init__(self, agent: str, known: Iterable[str]) -> None:
        self.agent = agent
        super().__init__(
            "engine/unknown_agent",
            f"there is no Agent {agent[:80]!r}; known are: {', '.join(sorted(known)) or 'none'}",
            {"agent": agent},
        )


class UnknownCapability(TaskFailed):
    """An Agent has a capability that the registry does not provide.

    Attributes:
        agent: Name of the Agent.
        capability: Name of the capability.
    """

    def __init__(self, agent: str, capability: str) -> None:
        self.agent = agent
        self.capability = capability
        super().__init__(
            "engine/unknown_capability",
            f"the capability {capability!r} of the Agent {agent!r} is not registered; register "
            "it, or remove it from the Agent",
            {"agent": agent, "capability": capability},
        )


class DuplicateTool(TaskFailed):
    """Two different tools have the same name, so a call would be ambiguous.

    Attributes:
        agent: Name of the Agent that would have both tools.
        tool: Name of the tools.
    """

    def __init__(self, agent: str, tool: str) -> None:
        self.agent = agent
        self.tool = tool
        super().__init__(
            "engine/duplicate_tool",
            f"the Agent {agent!r} would have two tools called {tool!r}; rename one",
            {"agent": agent, "tool": tool},
        )


class ClashingOption(TaskFailed):
    """Two capabilities of an Agent give one option different values.

    Attributes:
        agent: Name of the Agent.
        option: Name of the option.
    """

    def __init__(self, agent: str, option: str) -> None:
        self.agent = agent
        self.option = option
        super().__init__(
            "engine/clashing_option",
            f"two capabilities of the Agent {agent!r} give the option {option!r} different values; "
            "remove one",
            {"agent": agent, "option": option},
        )


class OptionRefused(TaskFailed):
    """The planner does not have an option that an Agent's capabilities give, or not this value.

    Attributes:
        agent: Name of the Agent.
    """

    def __init__(self, agent: str, reason: str) -> None:
        self.agent = agent
        super().__init__(
            "engine/option_refused", f"the Agent {agent!r} has {reason}", {"agent": agent}
        )


class InMemoryCapabilities:
    """A registry that never changes.

    Args:
        agents: The Agents, each with its capabilities.
        provided: The repertoire of each capability, by its name.

    Raises:
        InvalidValue: Two Agents have the same name, or a name is not ``<scope>/<name>``.
    """

    def __init__(self, agents: Iterable[Agent], provided: Mapping[str, Repertoire]) -> None:
        self._agents: dict[str, Agent] = {}
        for index, agent in enumerate(edges.several(agents, "agents", "Agents")):
            edges.instance(agent, f"agents[{index}]", Agent)
            if agent.name in self._agents:
                raise InvalidValue("agents", f"has two Agents called {agent.name!r}; rename one")
            self._agents[agent.name] = agent
        self._provided = {
            Capability(name).name: edges.instance(
                gives, f"provided[{edges.came(name)}]", Repertoire
            )
            for name, gives in edges.entries(provided, "provided")
        }

    async def resolve(self, agent: str) -> Repertoire:
        found = self._agents.get(agent)
        if found is None:
            raise UnknownAgent(agent, self._agents)
        parts = []
        for name in dict.fromkeys(capability.name for capability in found.capabilities):
            if name not in self._provided:
                raise UnknownCapability(agent, name)
            parts.append(self._provided[name])
        tools: tuple[Tool, ...] = ()
        options: dict[str, Any] = {}
        for part in parts:
            tools = joined(agent, tools, part.tools)
            for option, value in part.options.items():
                if options.setdefault(option, value) != value:
                    raise ClashingOption(agent, option)
        return Repertoire([text for part in parts for text in part.instructions], tools, options)


class AgentTools:
    """A registry of a Loop's own tools and of those that an Agent's capabilities give.

    The Loop's own tools are looked up each time, because they may change while a run goes on.

    Args:
        agent: Name of the Agent.
        own: The Loop's own tools.
        given: The tools of the Agent's capabilities.

    Raises:
        DuplicateTool: Two of them have the same name; from `tools` as well.
    """

    def __init__(self, agent: str, own: ToolRegistry, given: Sequence[Tool]) -> None:
        self._agent = agent
        self._own = own
        self._given = tuple(given)
        self._named = {tool.name: tool for tool in given}
        self.tools()

    def tools(self) -> Sequence[Tool]:
        return joined(self._agent, self._own.tools(), self._given)

    def find(self, name: str) -> Tool | None:
        return self._named.get(name) or self._own.find(name)


def check_options(agent: str, options: Mapping[str, Any], planner: TakesOptions | None) -> None:
    """Refuse options of an Agent that the planner does not have.

    Args:
        agent: Name of the Agent.
        options: The options that its capabilities give.
        planner: The planner; None if it has no options.

    Raises:
        OptionRefused: The message names the option.
    """
    if planner is None:
        names = ", ".join(options)
        raise OptionRefused(agent, f"the options {names}, and the planner has none; remove them")
    try:
        planner.check_options(options)
    except InvalidValue as error:
        raise OptionRefused(agent, str(error)) from error


def joined(agent: str, some: Sequence[Tool], more: Sequence[Tool]) -> tuple[Tool, ...]:
    """The tools of both sequences, in their order; a tool of both is there only once.

    Raises:
        DuplicateTool: Two different tools have the same name.
    """
    named = {tool.name: tool for tool in some}
    for tool in more:
        if named.setdefault(tool.name, tool) is not tool:
            raise DuplicateTool(agent, tool.name)
    return tuple(named.values())
