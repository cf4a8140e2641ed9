"""Drivers: what carries a call out, after the guard has allowed it."""

from .port import Driver, DriverCall, NoEffect

__all__ = ["Driver", "DriverCall", "NoEffect"]
