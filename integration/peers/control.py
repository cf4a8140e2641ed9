"""Control: what this process asks a peer itself, past any proxy of the environment."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Mapping
from typing import Any, Final

REPLY_SECONDS: Final = 10.0

_open: Final = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


def ask(method: str, url: str, body: Any = None, headers: Mapping[str, str] | None = None) -> Any:
    """The JSON that a peer answers with; the connection is closed with the answer.

    Raises:
        HTTPError: It refuses.
    """
    request = urllib.request.Request(
        url,
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json", "Connection": "close", **(headers or {})},
    )
    with _open(request, timeout=REPLY_SECONDS) as reply:
        return json.load(reply)
