"""AcmeStore is a Store."""

import pytest
from acme_store import AcmeStore

from agentic_kernel_conformance import StoreContract


class TestAcmeStore(StoreContract):
    @pytest.fixture
    def store(self) -> AcmeStore:
        return AcmeStore()
