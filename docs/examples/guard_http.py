"""A guard in front of an HTTP API: where arguments go, and what a model sees of the answer."""

from __future__ import annotations

import asyncio
import json
import secrets
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

from agentic_kernel_engine import Principal
from agentic_kernel_guard import (
    CapabilityRequest,
    CapabilitySpec,
    DefaultPolicy,
    Endpoint,
    Guard,
    HTTPDriver,
    Key,
    Keyring,
    MemoryGuardStore,
    Principals,
    Registry,
    SafetyClass,
    StaticRouter,
)


class Shop(BaseHTTPRequestHandler):
    """An API on this machine."""

    def do_GET(self) -> None:
        body = json.dumps({"path": self.path, "mail": "eva@example.com"}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:
        """Be silent."""


async def main(place: str) -> None:
    # --8<-- [start:http]
    driver = HTTPDriver(
        {
            "get": Endpoint(
                "GET",
                f"http://{place}/customers/{{customer}}/orders",
                query=("page",),
                headers={"Authorization": "Bearer the-operator's-own"},
            )
        },
        loopback=[place],  # For a public API: https, and hosts=["api.example.com"].
        source="shop",
    )
    # --8<-- [end:http]
    spec = CapabilitySpec("shop/orders", "orders of a customer", "get", safety=SafetyClass.READ)
    ann = Principal("ann", "acme")
    guard = Guard(
        Registry([spec]),
        StaticRouter({spec.name: [driver]}),
        policy=DefaultPolicy(),
        store=MemoryGuardStore(),
        keys=Keyring([Key("k1", secrets.token_bytes(32))]),
        resolver=Principals([ann]),
    )
    arguments = {"customer": "eva/son", "page": 2}
    token = await guard.grant_capability(CapabilityRequest("shop/orders", arguments), ann)
    frame = await guard.invoke(token, ann, arguments, "table")
    assert frame is not None
    print(frame.rows)


if __name__ == "__main__":
    with HTTPServer(("127.0.0.1", 0), Shop) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        asyncio.run(main(f"127.0.0.1:{server.server_port}"))
        server.shutdown()
