"""Fields: checks of the fields that a user gives by a vendor's own names.

A vendor's API refuses a field of the wrong kind only at the first call. A field that is not listed
here is the vendor's to check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final

from agentic_kernel import InvalidValue

from .. import edges
from .edges import check_name

LARGEST: Final = 2**31 - 1
"""The largest number that all servers take: that of a C ``int``."""


def check_fields(given: Mapping[str, Any], path: str) -> None:
    """Refuse a field whose kind is known, and that has another one.

    Args:
        given: The fields; None is the vendor's default for each.
        path: The name of the keyword that has them.

    Raises:
        InvalidValue: A field is of the wrong kind or out of range; its path is named.
    """
    for name, value in given.items():
        check = _CHECKS.get(name)
        if check is not None and value is not None:
            check(value, f"{path}.{name}")


def _whole(value: Any, path: str, least: int = 0) -> None:
    edges.whole(value, path, least, LARGEST)


def _number(value: Any, path: str) -> None:
    if type(value) not in (int, float) or not abs(value) <= LARGEST:
        most = f"{LARGEST:,}"
        raise InvalidValue(path, f"is {edges.came(value)}; use a number from -{most} to {most}")


def _url(value: Any, path: str) -> None:
    check_name(value, path)
    if not value.startswith(("https://", "http://")):
        raise InvalidValue(path, "must begin with https:// or http://")


def _secret(value: Any, path: str) -> None:
    # The message does not repeat it.
    if not isinstance(value, str) or not value.strip() or not _sent(value):
        raise InvalidValue(path, "must be a text of printable ASCII characters")


def _sent(text: str) -> bool:
    """True if a text can be sent in an HTTP header."""
    return text.isprintable() and text.isascii()


def _texts(value: Any, path: str) -> None:
    if isinstance(value, str) or not isinstance(value, Sequence) or not value:
        raise InvalidValue(path, f"is {edges.came(value)}; give a list of texts")
    for index, each in enumerate(value):
        check_name(each, f"{path}[{index}]")


def _stops(value: Any, path: str) -> None:
    if not isinstance(value, list) or not all(isinstance(each, str) and each for each in value):
        raise InvalidValue(path, f"is {edges.came(value)}; give a list of texts")


def _mapping(value: Any, path: str, beside: type[Any] | None = None) -> None:
    if not isinstance(value, Mapping | (beside or Mapping)) or value == "":
        other = f", or a {beside.__name__}" if beside else ""
        raise InvalidValue(path, f"is {edges.came(value)}; give a mapping{other}")


def _headers(value: Any, path: str) -> None:
    if not isinstance(value, Mapping):
        raise InvalidValue(path, f"is {edges.came(value)}; give a mapping of texts")
    for name, each in value.items():
        check_name(name, f"a key of {path}")
        if not isinstance(each, str) or not _sent(each):
            raise InvalidValue(f"{path}.{name}", "must be a text of printable ASCII characters")


def _by(check: Callable[[Any, str], object], names: str) -> dict[str, Callable[[Any, str], object]]:
    return dict.fromkeys(names.split(), check)


_CHECKS: Final[Mapping[str, Callable[[Any, str], object]]] = {
    **_by(
        check_name,
        "type effort summary display thinkingLevel name server_label connector_id "
        "search_context_size",
    ),
    **_by(_url, "server_url"),
    **_by(_secret, "authorization authorization_token"),
    **_by(_texts, "vector_store_ids fileSearchStoreNames file_ids allowed_domains blocked_domains"),
    **_by(_headers, "headers"),
    **_by(_stops, "stop"),
    **_by(_mapping, "filters user_location ranking_options"),
    **_by(partial(_mapping, beside=str), "container require_approval"),
    **_by(partial(_mapping, beside=list), "allowed_tools"),
    **_by(partial(_whole, least=1), "num_ctx num_batch budget_tokens max_uses"),
    **_by(partial(_whole, least=-1), "thinkingBudget num_keep num_gpu repeat_last_n seed"),
    **_by(_whole, "top_k mirostat main_gpu num_thread max_num_results"),
    **_by(
        _number,
        "top_p min_p typical_p tfs_z repeat_penalty presence_penalty frequency_penalty "
        "mirostat_tau mirostat_eta",
    ),
    **_by(
        edges.flag,
        "numa low_vram use_mmap use_mlock penalize_newline includeThoughts",
    ),
}
"""The check of each field, by its name in the vendors' APIs."""
