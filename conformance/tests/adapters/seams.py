"""Compactors, governors, registries of capabilities, schedulers, middleware and validators."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from agentic_kernel import Agent, Capability
from agentic_kernel_conformance import (
    CapabilityRegistryContract,
    CapabilityRegistryFeatures,
    CompactorContract,
    CompactorFeatures,
    MemoryGovernorContract,
    MemoryGovernorFeatures,
    MiddlewareContract,
    MiddlewareFeatures,
    ToolSchedulerContract,
    ToolSchedulerFeatures,
    ValidatorContract,
    ValidatorFeatures,
)
from agentic_kernel_engine.seams import Repertoire

from .. import (
    faulty_capabilities,
    faulty_compactors,
    faulty_governors,
    faulty_middleware,
    faulty_schedulers,
    faulty_validators,
)
from .adapter import FaultyAdapter, adapters

COMPACTORS = {
    "CutsNothing": "compact",
    "OneTooMany": "compact",
    "SaysNothing": "compact",
    "QuotesAll": "compact",
    "EveryOtherTime": "compact",
    "ReadsTheAction": "compact",
    "CutsOnce": "compact",
    "ByLength": "compact",
    "KeepsTheLast": "context",
    "MarksThePlace": "context",
    "AsksLater": "unwind",
}
GOVERNORS = {
    "ProposesAll": "govern",
    "EmptyAnswers": "govern",
    "OnceOnly": "govern",
    "IdsOfItsOwn": "govern",
    "ForgetsFirst": "govern",
    "StopsIfKnown": "govern",
    "NeverFails": "govern",
    "KeepsLater": "govern",
    "ReadsTheText": "govern",
    "CountsInTheProcess": "govern",
    "OneUser": "scopes",
    "NotesInTheContext": "context",
    "TriesOnce": "apart",
    "OneStep": "apart",
}
CAPABILITIES = {
    "InAnyOrder": "repertoire",
    "TheLastTool": "repertoire",
    "LeavesOut": "repertoire",
    "EmptyForStrangers": "repertoire",
    "KeyErrors": "repertoire",
    "Folded": "repertoire",
    "NoTools": "repertoire",
    "TidiesTexts": "repertoire",
    "AddsUp": "repertoire",
    "NewTools": "repertoire",
    "WrongNames": "repertoire",
    "OneAgent": "apart",
    "LoadsInTheBackground": "unwind",
}
SCHEDULERS = {
    "AsTheyEnd": "batch",
    "AllAtOnce": "batch",
    "AloneTogether": "batch",
    "Returns": "batch",
    "Copies": "batch",
    "TriesAgain": "batch",
    "InThreads": "batch",
    "OneAfterTheOther": "batch",
    "Empties": "context",
    "OneBatch": "apart",
    "OneLock": "apart",
    "LeavesThem": "unwind",
    "WaitsOnce": "unwind",
}
MIDDLEWARE = {
    "GivesText": "hooks",
    "TextsOnly": "hooks",
    "ReadsTheWait": "hooks",
    "Bytes": "hooks",
    "CountsCalls": "hooks",
    "Loses": "hooks",
    "Misspelled": "hooks",
    "TrimsInPlace": "context",
    "EditsTheCall": "context",
    "Redacts": "context",
    "DropsTheUsage": "budget",
    "OneContext": "apart",
    "TracesLater": "unwind",
    "CannotBeCancelled": "unwind",
}
VALIDATORS = {
    "TruthyOnly": "fits",
    "PythonsTypes": "fits",
    "Coerces": "fits",
    "Lazily": "fits",
    "RaisesAlways": "fits",
    "QuotesTheValue": "fits",
    "SaysInvalid": "fits",
    "TopLevel": "fits",
    "SwallowsErrors": "fits",
    "ByType": "apart",
    "FillsIn": "context",
    "TheSameSchema": "alias",
    "TheLastValue": "apart",
}


class _CompactorAdapter(FaultyAdapter, CompactorContract):
    features = CompactorFeatures(shortens=True)

    @pytest.fixture
    def compactor(self) -> Any:
        return self.faulty()


class _GovernorAdapter(FaultyAdapter, MemoryGovernorContract):
    features = MemoryGovernorFeatures(deterministic=True, replaces=True, bounds=True)

    @pytest.fixture
    def most(self) -> int:
        return 10

    @pytest.fixture
    def make(self) -> Any:
        return self.faulty


class _CapabilitiesAdapter(FaultyAdapter, CapabilityRegistryContract):
    features = CapabilityRegistryFeatures(registers=True)

    @pytest.fixture
    def agents(self) -> Sequence[str]:
        return "kit/one", "kit/two"

    @pytest.fixture
    def registry(self) -> Any:
        one = Agent("kit/one", (Capability("kit/kind"),))
        two = Agent("kit/two", (Capability("kit/brief"), Capability("kit/kind")))
        given = {"kit/kind": Repertoire("Be kind."), "kit/brief": Repertoire("Be brief.")}
        return self.faulty([one, two], given)

    @pytest.fixture
    def register(self) -> Any:
        return self.faulty


class _SchedulerAdapter(FaultyAdapter, ToolSchedulerContract):
    patience = 0.5
    features = ToolSchedulerFeatures(parallel=True)

    @pytest.fixture
    def scheduler(self) -> Any:
        return self.faulty()


class _MiddlewareAdapter(FaultyAdapter, MiddlewareContract):
    features = MiddlewareFeatures(steady=True, transparent=True)

    @pytest.fixture
    def middleware(self) -> Any:
        return self.faulty()


class _ValidatorAdapter(FaultyAdapter, ValidatorContract):
    features = ValidatorFeatures(exact=True)

    @pytest.fixture
    def validator(self) -> Any:
        return self.faulty()


ADAPTERS = {
    **adapters("Compactor", _CompactorAdapter, faulty_compactors, COMPACTORS),
    **adapters("Governor", _GovernorAdapter, faulty_governors, GOVERNORS),
    **adapters("Capabilities", _CapabilitiesAdapter, faulty_capabilities, CAPABILITIES),
    **adapters("Scheduler", _SchedulerAdapter, faulty_schedulers, SCHEDULERS),
    **adapters("Middleware", _MiddlewareAdapter, faulty_middleware, MIDDLEWARE),
    **adapters("Validator", _ValidatorAdapter, faulty_validators, VALIDATORS),
}
