"""The engine's registry of capabilities passes the contract of such registries."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from agentic_kernel import Agent, Capability
from agentic_kernel_conformance import CapabilityRegistryContract, CapabilityRegistryFeatures
from agentic_kernel_conformance.capabilities import Register
from agentic_kernel_engine.seams import InMemoryCapabilities, Repertoire


class TestInMemoryCapabilities(CapabilityRegistryContract):
    features = CapabilityRegistryFeatures(registers=True)

    @pytest.fixture
    def agents(self) -> Sequence[str]:
        return "acme/clerk", "acme/guest"

    @pytest.fixture
    def registry(self) -> InMemoryCapabilities:
        clerk = Agent("acme/clerk", (Capability("acme/kind"), Capability("acme/brief")))
        given = {"acme/kind": Repertoire("Be kind."), "acme/brief": Repertoire("Be brief.")}
        return InMemoryCapabilities([clerk, Agent("acme/guest", ())], given)

    @pytest.fixture
    def register(self) -> Register:
        return InMemoryCapabilities
