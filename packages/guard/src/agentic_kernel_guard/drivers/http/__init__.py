"""HTTPDriver: operations that are requests to an HTTP API. Needs the extra ``http``."""

from .addresses import Resolve
from .driver import HTTPDriver, HTTPFailed
from .endpoint import Endpoint

__all__ = ["Endpoint", "HTTPDriver", "HTTPFailed", "Resolve"]
