"""Vendor: a Subject whose model is behind a wire, played by a peer that follows the script."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import cached_property
from typing import Any, Final

from agentic_kernel_engine import Host

from ..peers.aimock import Aimock
from ..peers.exchange import Exchange
from ..peers.faults import Fault
from ..peers.faulty import FaultyServer
from .script import Answer, Calls, Refuses, Says, fixtures
from .setting import Setting
from .shown import pictures, received
from .trace import Trace

KEY: Final = "sk-peer-0123456789abcdef"
"""What the peers are sent; it must never be seen anywhere else."""
MODEL: Final = "scripted"
SECONDS: Final = 30.0
"""How long the peer may be silent in a scenario."""


class Vendor(ABC):
    """See `Subject`; a vendor says how its runtime is made for a server.

    Args:
        keep: Keeps the peer for all scenarios.
    """

    name: str
    kind: str
    closed: Mapping[str, str] = {}
    unseen: Mapping[str, str] = {"refusal": "the server that refuses knows no such form"}
    otherwise: Sequence[str] = ()

    def __init__(self, keep: ExitStack) -> None:
        self._keep = keep

    @cached_property
    def peer(self) -> Aimock:
        """Started when the first scenario needs it."""
        return self._keep.enter_context(Aimock())

    def comparable(self, traced: Trace) -> Trace:
        return traced

    @abstractmethod
    def host(self, url: str, setting: Setting, timeout: float) -> Host:
        """A Host whose model is at this server, not yet entered.

        Args:
            url: Without ``/v1``.
            timeout: Seconds that the server may be silent.
        """

    @asynccontextmanager
    async def runtime(self, setting: Setting) -> AsyncIterator[Host]:
        if any(isinstance(answer, Refuses) for answer in setting.script):
            # Aimock does not know how to refuse.
            with FaultyServer("refused") as peer:
                async with self.host(peer.url, setting, SECONDS) as host:
                    yield host
            return
        if setting.picture:
            with FaultyServer(_following(setting.script)) as peer:
                async with self.host(peer.url, setting, SECONDS) as host:
                    yield host
                setting.shown.extend(pictures(each, setting.picture) for each in peer.requests)
            return
        self.peer.load(fixtures(setting.script))
        async with self.host(self.peer.url, setting, SECONDS) as host:
            yield host
        setting.shown.extend(received(request) for request in self.peer.requests())


def _following(script: Sequence[Answer]) -> Fault:
    """A server that answers on any wire as the script says, and keeps the requests as they are."""
    answers = iter(script)

    def act(exchange: Exchange) -> None:
        match next(answers):
            case Says() as answer:
                exchange.answer(exchange.wire.text(exchange.model, [answer.text]))
            case Calls([call]):
                told = json.dumps(dict(call.arguments))
                exchange.answer(exchange.wire.call(exchange.model, call.tool, [told]))
            case other:
                raise ValueError(f"{other} is in no scenario with a picture")

    return Fault("answers as the script says", act)


def options(setting: Setting) -> dict[str, Any]:
    """What every ready runtime is told of a setting, beside its tools."""
    return {
        "offers": setting.offers,
        "observer": setting.observer,
        "interval": setting.interval,
        "store": setting.store,
        **setting.options,
    }
