"""Client: the SDK's client, made when the planner first needs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any, ClassVar

from agentic_kernel import CannotStart, InvalidValue
from agentic_kernel_engine.providers import SDKClient, key_problem


class Client(SDKClient):
    """Holds an ``anthropic.AsyncAnthropic``, or the user's own client for any platform."""

    sdk = "anthropic"
    kind = "AsyncAnthropic"
    http = "httpx2"
    address_variable = "ANTHROPIC_BASE_URL"
    usual = "https://api.anthropic.com"
    key_variables = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
    needs_key = False  # The SDK finds credentials in other places, too.
    key_headers: ClassVar = {
        "ANTHROPIC_API_KEY": "x-api-key: {}",
        "ANTHROPIC_AUTH_TOKEN": "Authorization: Bearer {}",
    }
    models = "/v1/models?limit=100"
    models_headers: ClassVar = {"anthropic-version": "2023-06-01"}

    def check(self, own: Any) -> None:
        """See `SDKClient`."""
        if isinstance(own, import_module(self.sdk).Anthropic):
            raise InvalidValue("client", "is synchronous; give an AsyncAnthropic")
        if not hasattr(own, "messages") or not hasattr(own, "with_options"):
            raise InvalidValue("client", f"is a {type(own).__name__}; give an AsyncAnthropic")

    def make(self) -> Any:
        """See `SDKClient`."""
        from anthropic import AnthropicError

        try:
            client = super().make()
        except AnthropicError as error:
            raise CannotStart(
                f"the SDK finds no key: {error} Set {self.key_variables[0]}, or give api_key="
            ) from error
        if client.api_key is None and client.auth_token is None and client.credentials is None:
            raise self.no_key()
        problem = next(filter(None, map(key_problem, filter(None, self.keys_of(client)))), "")
        if problem:
            raise CannotStart(f"the environment variable {self.key_variables[0]} {problem}")
        return client
