"""Provider: the user's own model server, as the CLI's environment variables name it.

The CLI reads these variables only in an interactive session. A session that a program begins is
given its provider, or asks GitHub. ``copilot help providers`` explains the variables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, cast

from copilot.session import ProviderConfig

from agentic_kernel import InvalidValue
from agentic_kernel_engine.providers import check_address, check_key, keys_in

BASE_URL: Final = "COPILOT_PROVIDER_BASE_URL"
MODEL: Final = "COPILOT_MODEL"
MODEL_ID: Final = "COPILOT_PROVIDER_MODEL_ID"
_TEXTS: Final = {
    "type": "COPILOT_PROVIDER_TYPE",
    "wire_api": "COPILOT_PROVIDER_WIRE_API",
    "transport": "COPILOT_PROVIDER_TRANSPORT",
    "api_key": "COPILOT_PROVIDER_API_KEY",
    "api_key_command": "COPILOT_PROVIDER_API_KEY_COMMAND",
    "bearer_token": "COPILOT_PROVIDER_BEARER_TOKEN",
    "model_id": MODEL_ID,
    "wire_model": "COPILOT_PROVIDER_WIRE_MODEL",
}
_COUNTS: Final = {
    "max_prompt_tokens": "COPILOT_PROVIDER_MAX_PROMPT_TOKENS",
    "max_output_tokens": "COPILOT_PROVIDER_MAX_OUTPUT_TOKENS",
}
_TOKENS: Final = (
    _TEXTS["api_key"], _TEXTS["bearer_token"], "COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN",
)  # fmt: skip
_AZURE: Final = "COPILOT_PROVIDER_AZURE_API_VERSION"
_HEADERS: Final = "COPILOT_PROVIDER_HEADERS"


def provider_of(env: Mapping[str, str]) -> ProviderConfig | None:
    """The provider that an environment names; None if it names none.

    Raises:
        InvalidValue: One of its variables is not valid; the message names it.
    """
    base_url = env.get(BASE_URL)
    if not base_url:
        return None
    found: dict[str, Any] = {"type": "openai", "base_url": base_url}
    found |= {name: env[variable] for name, variable in _TEXTS.items() if env.get(variable)}
    for name, variable in _COUNTS.items():
        if given := env.get(variable):
            if not given.isdecimal():
                raise InvalidValue(variable, f"is {given!r}; use a whole number of tokens")
            found[name] = int(given)
    if version := env.get(_AZURE):
        found["azure"] = {"api_version": version}
    if lines := env.get(_HEADERS):
        found["headers"] = dict(map(_header, lines.replace("\\n", "\n").splitlines()))
    return cast(ProviderConfig, found)


def check_provider(provider: ProviderConfig) -> None:
    """Refuse a provider whose address or key cannot be used in a request.

    Raises:
        InvalidValue: The address or a key cannot be used; the message names it.
    """
    check_address(provider.get("base_url"), "provider.base_url")
    for name in ("api_key", "bearer_token"):
        key = provider.get(name)
        if key is not None:
            check_key(key, f"provider.{name}")


def keys_of(
    provider: Mapping[str, Any] | None,
    servers: Mapping[str, Any] | None,
    env: Mapping[str, str],
) -> set[str]:
    """The secrets that the CLI is given: keys, tokens and secret headers.

    Args:
        servers: MCP servers, by name.
        env: The CLI's environment.
    """
    given = provider or {}
    keys = {given.get("api_key"), given.get("bearer_token")}
    keys.update(env.get(name) for name in _TOKENS)
    for holder in (given, *(servers or {}).values()):
        for part in ("headers", "env"):
            held = holder.get(part) if isinstance(holder, Mapping) else None
            if isinstance(held, Mapping):
                keys.update(keys_in(held))
    return {key for key in keys if isinstance(key, str) and key}


def lacking(provider: ProviderConfig | None, model: str | None, offline: bool) -> str:
    """The message about a setting that a session needs and does not have; "" if none is missing."""
    if provider is None and offline:
        return (
            f"the Copilot CLI is to be offline and has no provider: set {BASE_URL} and {MODEL}, or "
            "give a provider and a model"
        )
    if provider is not None and not (model or provider.get("model_id")):
        return f"the provider of {BASE_URL} needs the name of a model: set {MODEL}, or give a model"
    return ""


def _header(line: str) -> tuple[str, str]:
    name, colon, value = line.partition(":")
    if not colon or not name.strip():
        raise InvalidValue(_HEADERS, 'has a line that is not of the form "Name: Value"')
    return name.strip(), value.strip()
