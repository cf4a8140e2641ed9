"""Forwarding: a request goes straight to the process that owns its Task."""

from .forwarder import Forwarder
from .link import Lost

__all__ = ["Forwarder", "Lost"]
