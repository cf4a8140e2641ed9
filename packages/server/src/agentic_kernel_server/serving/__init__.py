"""Serving: a server of its own, in one process or several behind one port."""

from .options import Options, listening
from .processes import serve

__all__ = ["Options", "listening", "serve"]
