"""Policy: which tools an agent may invoke, by the rules of `agentic_kernel_guard.rules`."""

from .files import Policies, PolicyError
from .gate import Gate, Policy
from .rates import Rates, Spent

__all__ = ["Gate", "Policies", "Policy", "PolicyError", "Rates", "Spent"]
