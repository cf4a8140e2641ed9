"""Registries of capabilities, each with one mistake that a real author might make."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from agentic_kernel import Agent
from agentic_kernel_engine.seams import (
    InMemoryCapabilities,
    Repertoire,
    Tool,
    UnknownAgent,
    UnknownCapability,
)


class _Registry(InMemoryCapabilities):
    def __init__(self, agents: Sequence[Agent], provided: Mapping[str, Repertoire]) -> None:
        super().__init__(agents, provided)
        self.agents = {agent.name: agent for agent in agents}
        self.provided = dict(provided)

    def names(self, agent: str) -> list[str]:
        if agent not in self.agents:
            raise UnknownAgent(agent, self.agents)
        return [each.name for each in self.agents[agent].capabilities]

    def made(self, agent: str, names: Sequence[str]) -> Repertoire:
        parts = [self.provided[name] for name in names]
        tools = {each.name: each for part in parts for each in part.tools}
        return Repertoire([text for part in parts for text in part.instructions], tools.values())


class InAnyOrder(_Registry):
    """The capabilities are a set, so that none is given twice."""

    async def resolve(self, agent: str) -> Repertoire:
        await super().resolve(agent)
        return self.made(agent, sorted(set(self.names(agent))))


class TheLastTool(_Registry):
    """Of two tools with one name the last one is given."""

    async def resolve(self, agent: str) -> Repertoire:
        names = list(dict.fromkeys(self.names(agent)))
        for name in names:
            if name not in self.provided:
                raise UnknownCapability(agent, name)
        return self.made(agent, names)


class LeavesOut(_Registry):
    """A capability that is not provided is left out."""

    async def resolve(self, agent: str) -> Repertoire:
        names = dict.fromkeys(self.names(agent))
        return self.made(agent, [name for name in names if name in self.provided])


class EmptyForStrangers(_Registry):
    """An Agent that is not known has nothing, and is not refused."""

    async def resolve(self, agent: str) -> Repertoire:
        return await super().resolve(agent) if agent in self.agents else Repertoire()


class KeyErrors(_Registry):
    """The error is that of the dict."""

    async def resolve(self, agent: str) -> Repertoire:
        if agent not in self.agents:
            raise KeyError(agent)
        return await super().resolve(agent)


class Folded(_Registry):
    """Names are found in any letter case."""

    async def resolve(self, agent: str) -> Repertoire:
        known = {name.casefold().strip(): name for name in self.agents}
        return await super().resolve(known.get(agent.casefold().strip(), agent))


class NoTools(_Registry):
    """An Agent without tools is taken for one that is not there."""

    async def resolve(self, agent: str) -> Repertoire:
        found = await super().resolve(agent)
        if not found.tools and not found.instructions:
            raise UnknownAgent(agent, self.agents)
        return found


class OneAgent(_Registry):
    """It keeps the Agent that it works on, for one call at a time."""

    agent = ""

    async def resolve(self, agent: str) -> Repertoire:
        self.agent = agent
        await asyncio.sleep(0)
        return await super().resolve(self.agent)


class TidiesTexts(_Registry):
    """Texts are stripped, and empty ones dropped."""

    async def resolve(self, agent: str) -> Repertoire:
        found = await super().resolve(agent)
        texts = [text.strip() for text in found.instructions if text.strip()]
        return Repertoire(texts, found.tools)


class AddsUp(_Registry):
    """The repertoires of an Agent are collected in a list that is never emptied."""

    def __init__(self, agents: Sequence[Agent], provided: Mapping[str, Repertoire]) -> None:
        super().__init__(agents, provided)
        self.found: dict[str, list[str]] = {}

    async def resolve(self, agent: str) -> Repertoire:
        found = await super().resolve(agent)
        texts = self.found.setdefault(agent, [])
        texts += found.instructions
        return Repertoire(texts, found.tools)


class NewTools(_Registry):
    """Each tool is made anew, by its name and handler alone."""

    async def resolve(self, agent: str) -> Repertoire:
        found = await super().resolve(agent)
        tools = [
            Tool(each.name, each.handler, input_schema=each.input_schema) for each in found.tools
        ]
        return Repertoire(found.instructions, tools)


class WrongNames(_Registry):
    """The refusal names the capability in the place of the Agent."""

    async def resolve(self, agent: str) -> Repertoire:
        try:
            return await super().resolve(agent)
        except UnknownCapability as error:
            raise UnknownCapability(error.capability, agent) from error


class LoadsInTheBackground(_Registry):
    """The next Agent is loaded ahead."""

    async def resolve(self, agent: str) -> Repertoire:
        found = await super().resolve(agent)
        self.ahead: Any = asyncio.ensure_future(asyncio.Event().wait())
        return found
