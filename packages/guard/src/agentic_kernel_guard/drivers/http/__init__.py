"""HTTPDriver: operations that are requests to an HTTP API. Needs the extra ``http``."""

from .addresses import Resolve
from .answer import HTTPFailed
from .driver import HTTPDriver
from .endpoint import Endpoint

__all__ = ["Endpoint", "HTTPDriver", "HTTPFailed", "Resolve"]
