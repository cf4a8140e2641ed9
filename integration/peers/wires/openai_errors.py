"""Errors as OpenAI's servers put them, for Responses and Chat Completions alike.

See https://platform.openai.com/docs/guides/error-codes.
"""

from __future__ import annotations

from typing import Any, Final

_KINDS: Final[dict[int, tuple[str, str | None]]] = {
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
    500: ("server_error", None),
    503: ("server_error", None),
    529: ("server_error", "overloaded"),
}
_REASONS: Final = {
    "context_length": ("invalid_request_error", "context_length_exceeded"),
    "quota": ("insufficient_quota", "insufficient_quota"),
    "model": ("invalid_request_error", "model_not_found"),
}


def openai_error(status: int, message: str, code: str | None) -> dict[str, Any]:
    """The JSON of an error response."""
    if code == "model":
        message = f"The model `{message}` does not exist or you do not have access to it."
    kind, reason = _REASONS[code] if code else _KINDS.get(status, ("invalid_request_error", None))
    return {"error": {"message": message, "type": kind, "param": None, "code": reason}}
