"""Shared by the tests of the peers."""

from .fixtures import aimock, aimock_process, llama

__all__ = ["aimock", "aimock_process", "llama"]
