"""The GitHub Copilot CLI as a Runtime: a Task is a session, and our policy decides its requests.

Each name is loaded when it is first used, because the libraries behind them take long to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .program import CLI_VARIABLE, CLI_VERSION, find_cli
    from .runtime import RUNTIME_KIND, CopilotRuntime
    from .substrate import SESSION, CopilotSubstrate

__all__ = [
    "CLI_VARIABLE",
    "CLI_VERSION",
    "RUNTIME_KIND",
    "SESSION",
    "CopilotRuntime",
    "CopilotSubstrate",
    "find_cli",
]

_NAMES = {
    "program": "CLI_VARIABLE CLI_VERSION find_cli",
    "runtime": "RUNTIME_KIND CopilotRuntime",
    "substrate": "SESSION CopilotSubstrate",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
