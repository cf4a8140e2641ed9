"""Our substrates pass `SubstrateContract`, in processes that are killed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from agentic_kernel_conformance import SubstrateContract, SubstrateFactory, SubstrateFeatures

from . import substrates
from .peers.faulty import FaultyServer
from .substrates import following, vendors
from .substrates.copilot_factory import CopilotWork
from .substrates.model import FOLLOWS

FEATURES = SubstrateFeatures(
    marks=True, pauses=True, keeps_output=True, hears=True, fails=True, refuses=True
)


class TestLoop(SubstrateContract):
    """The engine's Loop, with a tool that has an effect and a planner that streams."""

    features = FEATURES

    @pytest.fixture
    def factory(self) -> str:
        return f"{following.__name__}:make"

    @pytest.fixture
    def work(self) -> following.LoopWork:
        return following.LoopWork()


@pytest.fixture(scope="module")
def model() -> Iterator[FaultyServer]:
    """A server that speaks every vendor's wire, and follows the script in each request."""
    with FaultyServer(FOLLOWS) as server:
        yield server


@pytest.mark.torture
class TestOpenAIOverResponses(SubstrateContract):
    features = FEATURES

    @pytest.fixture
    def factory(self, model: FaultyServer) -> SubstrateFactory:
        return SubstrateFactory(f"{substrates.__name__}.openai_factory:responses", (model.url,))

    @pytest.fixture
    def work(self) -> vendors.VendorWork:
        return vendors.VendorWork("openai")


@pytest.mark.torture
class TestOpenAIOverChat(SubstrateContract):
    features = FEATURES

    @pytest.fixture
    def factory(self, model: FaultyServer) -> SubstrateFactory:
        return SubstrateFactory(f"{substrates.__name__}.openai_factory:chat", (model.url,))

    @pytest.fixture
    def work(self) -> vendors.VendorWork:
        return vendors.VendorWork("openai")


class TestClaude(SubstrateContract):
    features = FEATURES

    @pytest.fixture
    def factory(self, model: FaultyServer) -> SubstrateFactory:
        return SubstrateFactory(f"{substrates.__name__}.claude_factory:make", (model.url,))

    @pytest.fixture
    def work(self) -> vendors.VendorWork:
        return vendors.VendorWork("claude")


@pytest.mark.torture
class TestOllama(SubstrateContract):
    features = FEATURES

    @pytest.fixture
    def factory(self, model: FaultyServer) -> SubstrateFactory:
        return SubstrateFactory(f"{substrates.__name__}.ollama_factory:make", (model.url,))

    @pytest.fixture
    def work(self) -> vendors.VendorWork:
        return vendors.VendorWork("ollama")


@pytest.mark.torture
class TestGemini(SubstrateContract):
    features = FEATURES

    @pytest.fixture
    def factory(self, model: FaultyServer) -> SubstrateFactory:
        return SubstrateFactory(f"{substrates.__name__}.gemini_factory:make", (model.url,))

    @pytest.fixture
    def work(self) -> vendors.VendorWork:
        return vendors.VendorWork("gemini")


@pytest.fixture(scope="module")
def copilot_home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the CLI's sessions; the CLI unpacks itself into it when it first starts."""
    return tmp_path_factory.mktemp("copilot")


@pytest.mark.torture
class TestCopilot(SubstrateContract):
    """The real CLI, one process of it for each worker."""

    features = FEATURES

    @pytest.fixture
    def factory(self, model: FaultyServer, copilot_home: Path) -> SubstrateFactory:
        place = f"{substrates.__name__}.copilot_factory:make"
        return SubstrateFactory(place, (model.url, str(copilot_home)))

    @pytest.fixture
    def work(self) -> CopilotWork:
        return CopilotWork()
