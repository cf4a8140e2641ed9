"""PagedServer: a server with pages beside its model's wire, such as a list of models."""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from .exchange import Exchange, Request
from .faulty import FaultyServer
from .wires import WIRES


class PagedServer(FaultyServer):
    """Answers each of its pages with JSON, and each request to a model well.

    Args:
        pages: The JSON of each page, by its path; an integer for an error of this status.
        **more: See `FaultyServer`.
    """

    def __init__(self, pages: Mapping[str, Any], **more: Any) -> None:
        super().__init__(more.pop("fault", "closed"), **({"times": 0} | more))
        self.pages = pages
        self.asked: list[Request] = []
        """The requests for pages, in order."""

    def _answer(self, request: Request, connection: socket.socket) -> None:
        path = urlsplit(request.path).path
        if path not in self.pages:
            super()._answer(request, connection)
            return
        with self._changed:
            self.asked.append(request)
        page = self.pages[path]
        exchange = Exchange(request, WIRES[0], connection, self._hold)
        if isinstance(page, int):
            exchange.answer([b'{"error": {"message": "no"}}'], page, "application/json")
        else:
            exchange.answer([json.dumps(page).encode()], 200, "application/json")
