"""Kernels."""

from __future__ import annotations

from typing import Any

import pytest

from agentic_kernel_conformance import KernelContract

from .. import faulty_kernels
from .adapter import FaultyAdapter, adapters

KERNELS = {
    "CopiesNoOps": "table",
    "CompletesThePaused": "table",
    "RestartsTheClock": "time",
    "LegalisesAll": "table",
    "NotesTheEnded": "edges",
}


class _KernelAdapter(FaultyAdapter, KernelContract):
    @pytest.fixture
    def kernel(self) -> Any:
        return self.faulty()


ADAPTERS = adapters("Kernel", _KernelAdapter, faulty_kernels, KERNELS)
