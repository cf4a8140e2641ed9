"""The client that MCP's conformance kit starts: a Loop that calls every tool of the server once.

    MCP_CONFORMANCE_SCENARIO=tools_call python -m integration.mcp_conformance_client URL

The kit is a server. It watches what `MCPTools` sends, and says in MCP_CONFORMANCE_CONTEXT which
client the authorization server knows already.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.extensions.client_credentials import (
    ClientCredentialsOAuthProvider,
    PrivateKeyJWTOAuthProvider,
    SignedJWTParameters,
)
from mcp.shared.auth import (
    AuthorizationCodeResult,
    OAuthClientInformationFull,
    OAuthClientMetadata,
    OAuthToken,
)
from pydantic import AnyUrl

from agentic_kernel import Task, TaskStatus
from agentic_kernel_engine import Host, Loop, MemoryStore
from agentic_kernel_engine.loop import FinalAnswer, ToolCall
from agentic_kernel_engine.seams import ScriptedPlanner
from agentic_kernel_mcp import HTTPServer, MCPTools

REDIRECT = "http://localhost:3000/callback"
RESTING = (TaskStatus.PAUSED, TaskStatus.SUCCESS, TaskStatus.FAILURE, TaskStatus.CANCELLED)
METADATA = "https://conformance-test.local/client-metadata.json"
"""The address that the kit knows for a client which is named by its metadata."""


class Tokens:
    """Tokens and the client's registration, in memory."""

    def __init__(self, client: OAuthClientInformationFull | None = None) -> None:
        self._tokens: OAuthToken | None = None
        self._client = client

    async def get_tokens(self) -> OAuthToken | None:
        return self._tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self._tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self._client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self._client = client_info


class Browser:
    """A person who opens the authorization page, which the kit sends straight back."""

    def __init__(self) -> None:
        self._back: dict[str, list[str]] = {}

    async def open(self, url: str) -> None:
        async with httpx2.AsyncClient(trust_env=False) as client:
            answer = await client.get(url, follow_redirects=False)
        self._back = parse_qs(urlsplit(answer.headers["location"]).query)

    async def come_back(self) -> AuthorizationCodeResult:
        found = {name: values[0] for name, values in self._back.items()}
        return AuthorizationCodeResult(
            code=found["code"], state=found.get("state"), iss=found.get("iss")
        )


def authentication(scenario: str, url: str, given: dict[str, Any]) -> Any:
    """The SDK's authentication for a scenario; None if it needs none."""
    if not scenario.startswith("auth/"):
        return None
    if scenario == "auth/client-credentials-basic":
        return ClientCredentialsOAuthProvider(
            url, Tokens(), given["client_id"], given["client_secret"]
        )
    if scenario == "auth/client-credentials-jwt":
        signed = SignedJWTParameters(
            issuer=given["client_id"],
            subject=given["client_id"],
            signing_key=given["private_key_pem"],
            signing_algorithm=given["signing_algorithm"],
        )
        return PrivateKeyJWTOAuthProvider(
            url, Tokens(), given["client_id"], signed.create_assertion_provider()
        )
    known = None
    if "client_secret" in given:
        known = OAuthClientInformationFull(
            client_id=given["client_id"],
            client_secret=given["client_secret"],
            redirect_uris=[AnyUrl(REDIRECT)],
            token_endpoint_auth_method="client_secret_basic",
        )
    browser = Browser()
    return OAuthClientProvider(
        url,
        OAuthClientMetadata(
            client_name="agentic-kernel",
            redirect_uris=[AnyUrl(REDIRECT)],
            grant_types=["authorization_code", "refresh_token"],
        ),
        Tokens(known),
        browser.open,
        browser.come_back,
        client_metadata_url=METADATA,
    )


async def main(url: str) -> None:
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    given = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT", "{}"))
    server = HTTPServer(url, auth=authentication(scenario, url, given))
    async with MCPTools({"kit": server}, timeout=20) as tools:
        calls = [ToolCall(each.name, arguments(each.input_schema)) for each in tools.tools()]
        print([each.tool for each in calls], file=sys.stderr)
        loop = Loop(ScriptedPlanner(calls, FinalAnswer("called")) if calls else nothing(), tools)
        async with Host(loop, MemoryStore(), interval=0.05) as host:
            task = Task.new(summary="", instructions="call", runtime_kind="loop")
            await host.dispatch(task)
            ended = await host.wait(task.id, *RESTING)
            while ended.status is TaskStatus.PAUSED and "question" in waiting_for(ended):
                print(waiting_for(ended)["question"], file=sys.stderr)
                await host.answer(task.id, "{}")
                ended = await host.wait(task.id, *RESTING)
            for event in (await host.outcome(task.id)).events:
                print(event.type, event.data, file=sys.stderr)


def waiting_for(task: Task) -> dict[str, Any]:
    found: Any = task.metadata.get("engine/waiting_for")
    return found or {}


def arguments(schema: Any) -> dict[str, Any]:
    """Arguments that fit a schema of the kit: a number for each number that it wants."""
    fields = schema.get("properties", {})
    return {name: 3 for name, each in fields.items() if each.get("type") in ("number", "integer")}


def nothing() -> ScriptedPlanner:
    return ScriptedPlanner(FinalAnswer("there is no tool"))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
