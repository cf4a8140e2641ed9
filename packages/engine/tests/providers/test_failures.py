"""Failures of vendors: one vocabulary, how long to wait, and no secret in any of them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from agentic_kernel_engine.loop import NOTHING_USED, Usage
from agentic_kernel_engine.providers import Failures, retry_after_ms, sent, unsent
from agentic_kernel_engine.providers.failures import MAX_MESSAGE, MAX_TEXT

KEY = "a-secret-of-no-known-form"
NOON = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture
def failures() -> Failures:
    return Failures("acme", {"too_long": "context_length"}, [KEY])


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "invalid_request"), (401, "authentication"), (402, "quota"), (403, "permission"),
        (404, "not_found"), (408, "timeout"), (409, "server_error"), (413, "request_too_large"),
        (418, "invalid_request"), (422, "invalid_request"), (429, "rate_limit"),
        (500, "server_error"), (502, "server_error"), (503, "overloaded"), (504, "timeout"),
        (529, "overloaded"), (302, "bad_response"), (None, "bad_response"),
    ],
)  # fmt: skip
def test_every_status_has_a_code(failures: Failures, status: int | None, code: str) -> None:
    assert failures.answered(status, [None, "unheard_of"], "no").code == f"acme/{code}"


def test_the_vendors_own_code_says_more_than_the_status(failures: Failures) -> None:
    failure = failures.answered(
        400, ["too_long"], "", headers={"retry-after": "2"}, request_id="req_1"
    )
    assert failure.code == "acme/context_length"
    assert failure.message == "the server answered with status 400, and gave no message"
    assert failure.metadata == {"status": 400, "retry_after_ms": 2000, "request_id": "req_1"}


@pytest.mark.parametrize(
    "message",
    ["", " ", "{}", "[]", "null", '""', '{"error":{}}', "Error code: 418 - {'error': None}",
     "418 None. {'message': ''}", "Error code: 418"],
)  # fmt: skip
def test_a_server_that_gives_no_message_is_named_with_its_status(
    failures: Failures, message: str
) -> None:
    said = "the server answered with status 418, and gave no message"
    assert failures.answered(418, [], message).message == said
    assert failures.answered(None, [], message).message.endswith("an error, and gave no message")
    for told in ("no", "{'code': 5}", "null pointer"):
        assert failures.answered(418, [], told).message == told


@pytest.mark.parametrize(
    ("status", "codes", "code"),
    [
        (400, ["api_error"], "invalid_request"),
        (None, ["api_error"], "server_error"),
        (None, ["api_error", "too_long"], "context_length"),
        (None, ["429", "api_error"], "rate_limit"),
        (None, ["600"], "bad_response"),
    ],
)
def test_a_vague_code_and_a_code_that_is_a_status_count_only_without_a_status(
    status: int | None, codes: list[str], code: str
) -> None:
    failures = Failures("acme", {"too_long": "context_length"}, (), {"api_error": "server_error"})
    failure = failures.answered(status, codes, "no")
    assert failure.code == f"acme/{code}"
    assert (failure.usage is None) == (status is None)


@pytest.mark.parametrize(
    "said",
    [
        f"the key {KEY} is not valid",
        "Incorrect API key provided: sk-proj-abcdef*******wxyz.",
        "header Authorization: Bearer abc.def-ghi was refused",
        "sk-ant-api03-ABCDEFGHIJKL is disabled",
    ],
)
def test_no_secret_is_repeated(failures: Failures, said: str) -> None:
    failure = failures.failure("authentication", said, text=said)
    for told in (failure.message, str(failure.metadata), repr(failure.args)):
        assert "[redacted]" in told
        assert not any(part in told for part in (KEY, "wxyz", "abc.def", "ABCDEFG"))


def test_nothing_is_said_that_a_terminal_or_a_store_would_choke_on(failures: Failures) -> None:
    failure = failures.failure("server_error", "a\x1b[31m\r\nb\0\ud800\tc")
    assert failure.message == "a [31m \nb ?\tc"


def test_a_long_message_is_cut(failures: Failures) -> None:
    failure = failures.failure("server_error", "x" * 10_000, text="y" * 10_000, absent=None)
    assert len(failure.message) == MAX_MESSAGE
    assert failure.metadata == {"text": "y" * MAX_TEXT}


@pytest.mark.parametrize(
    ("headers", "wait"),
    [
        ({}, None),
        ({"retry-after": "1.5"}, 1500),
        ({"retry-after-ms": "20", "retry-after": "7"}, 20),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:10 GMT"}, 10_000),
        ({"retry-after": "Thu, 01 Jan 2026 11:00:00 GMT"}, 0),
        ({"retry-after": "-5"}, 0),
        ({"retry-after": "1e300"}, 86_400_000),
        ({"retry-after": "inf"}, 86_400_000),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after-ms": "soon", "retry-after": "1"}, 1000),
        ({"retry-after": "Thu, 01 Jan 2026 12:00:10"}, None),
    ],
)
def test_how_long_to_wait(headers: dict[str, str], wait: int | None) -> None:
    assert retry_after_ms(headers, lambda: NOON) == wait


@pytest.mark.parametrize(
    ("status", "codes", "begun", "used"),
    [
        (400, [], False, NOTHING_USED),
        (401, [], False, NOTHING_USED),
        (403, [], False, NOTHING_USED),
        (404, [], False, NOTHING_USED),
        (429, [], False, NOTHING_USED),
        (429, [], True, None),
        (400, ["too_long"], False, None),
        (408, [], False, None),
        (409, [], False, None),
        (499, [], False, None),
        (500, [], False, None),
        (503, [], False, None),
        (302, [], False, None),
        (None, [], False, None),
    ],
)
def test_only_a_refusal_before_any_work_is_known_to_use_nothing(
    failures: Failures, status: int | None, codes: list[str], begun: bool, used: Usage | None
) -> None:
    assert failures.answered(status, codes, "no", begun=begun).usage == used


class Unmade(Exception):
    """A connection that was not made."""


class Lost(Exception):
    """A connection that was lost."""


class Request:
    """The part of an httpx request that `sent` uses."""

    def __init__(self) -> None:
        self.extensions: dict[str, Any] = {}


@pytest.mark.parametrize("lost", [(Lost,), (Lost, Unmade)])
async def test_a_request_that_was_lost_unwritten_and_then_found_no_server_used_nothing(
    lost: tuple[type[Exception], ...],
) -> None:
    request, tries = Request(), 0

    async def send() -> None:
        nonlocal tries
        tries += 1
        if tries == 1:
            raise Lost
        await request.extensions["trace"]("connection.connect_tcp.started", {})
        raise Unmade

    with pytest.raises(Unmade) as caught:
        await sent(request, send, lost)
    assert tries == 2
    assert unsent(caught.value, (Unmade,))
    assert unsent(Unmade(), (Unmade,))
    around = OSError("the SDK's own")
    around.__cause__ = Unmade()
    assert unsent(around, (Unmade,))
    assert not unsent(OSError(), (Unmade,))
