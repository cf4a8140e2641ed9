"""What the tests of the peers share."""

from .fixtures import aimock, aimock_process, llama

__all__ = ["aimock", "aimock_process", "llama"]
