"""The peers that the tests ask."""

from integration.peers.fixtures import aimock, aimock_process, llama

__all__ = ["aimock", "aimock_process", "llama"]
