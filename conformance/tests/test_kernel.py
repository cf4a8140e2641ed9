"""The kernel itself passes the contract that any `apply` has to pass."""

from __future__ import annotations

from agentic_kernel_conformance import KernelContract


class TestKernel(KernelContract):
    pass
