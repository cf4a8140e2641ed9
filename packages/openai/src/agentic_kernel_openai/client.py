"""Client: the SDK's client, made when the planner first needs it."""

from __future__ import annotations

from typing import ClassVar

from agentic_kernel_engine.providers import SDKClient


class Client(SDKClient):
    """Holds an ``openai.AsyncOpenAI``."""

    sdk = "openai"
    kind = "AsyncOpenAI"
    http = "httpx2"
    keywords = ("api_key", "base_url", "organization", "project")
    address_variable = "OPENAI_BASE_URL"
    usual = "https://api.openai.com/v1"
    key_variables = ("OPENAI_API_KEY",)
    key_headers: ClassVar = {"OPENAI_API_KEY": "Authorization: Bearer {}"}
    models = "/models"
