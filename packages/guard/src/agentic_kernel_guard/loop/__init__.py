"""The guard in a Loop: `GuardedTools` is its registry of tools, `GuardPolicy` its policy."""

from .policy import GuardPolicy
from .tools import GuardedTools

__all__ = ["GuardPolicy", "GuardedTools"]
