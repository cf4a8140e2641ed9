"""Drivers: what carries a call out, after the guard has allowed it."""

from .port import Driver, DriverCall, Indeterminate, NoEffect

__all__ = ["Driver", "DriverCall", "Indeterminate", "NoEffect"]
