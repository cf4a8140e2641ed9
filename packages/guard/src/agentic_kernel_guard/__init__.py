"""Capability security between a model and its tools.

Each name is loaded when it is first used, so that a caller pays only for the parts it uses.
"""

from importlib import import_module
from threading import RLock
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .drivers import Driver, DriverCall, NoEffect
    from .errors import GuardError
    from .firewall import Budgets, Cut, Frame, FrameLimits, RawResult, ResponseMode

__all__ = [
    "Budgets", "Cut", "Driver", "DriverCall", "Frame", "FrameLimits", "GuardError", "NoEffect",
    "RawResult", "ResponseMode",
]  # fmt: skip

_NAMES = {
    "drivers": "Driver DriverCall NoEffect",
    "errors": "GuardError",
    "firewall": "Budgets Cut Frame FrameLimits RawResult ResponseMode",
}
_HOMES = {name: module for module, names in _NAMES.items() for name in names.split()}

_LOADING = RLock()
"""Two threads that load a module at once could see half of it."""


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with _LOADING:
        value = globals()[name] = getattr(import_module(f".{_HOMES[name]}", __name__), name)
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
