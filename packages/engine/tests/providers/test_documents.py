"""Documents of a Task: checked at the edge, placed beside the Task's own instructions."""

from __future__ import annotations

from base64 import b64encode
from typing import Any

import pytest

from agentic_kernel import InvalidValue
from agentic_kernel_engine.plans.transcript import UserMessage
from agentic_kernel_engine.providers import (
    DOCUMENTS,
    Document,
    Heard,
    conversation,
    documents_of,
    input_bound,
)

from .seen import seen

DATA = b64encode(b"%PDF-1.4 the bill").decode()
BILL = {"type": "document", "media_type": "application/pdf", "data": DATA, "name": "bill.pdf"}
FAR = {"type": "document", "url": "https://example.org/a.pdf"}


def test_a_document_is_its_content_or_its_address() -> None:
    one, other = documents_of(seen(metadata={DOCUMENTS: [BILL, FAR]}).task)
    assert one == Document("", DATA, "bill.pdf")
    assert one.address == f"data:application/pdf;base64,{DATA}"
    assert other == Document("https://example.org/a.pdf", "", "document.pdf")
    assert other.address == "https://example.org/a.pdf"
    assert documents_of(seen().task) == ()


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a.pdf", "must be a list"),
        (BILL, "must be a list"),
        (["a.pdf"], "must be a list"),
        ([{**BILL, "type": "image"}], "must be a list"),
        ([{**BILL, "media_type": "text/html"}], "must be a list"),
        ([{**BILL, "url": "https://example.org"}], "must be a list"),
        ([{**FAR, "url": "http://example.org"}], "must be a list"),
        ([{**FAR, "url": "file:///etc/passwd"}], "must be a list"),
        ([{**BILL, "data": "?"}], "not valid Base64"),
        ([{**BILL, "data": b64encode(b"PK").decode()}], "is not a PDF file"),
        ([{**BILL, "name": ""}], "a name that is not a text of 1 to 255"),
        ([{**BILL, "name": "a" * 256}], "a name that is not a text of 1 to 255"),
        ([{**BILL, "name": 5}], "a name that is not a text of 1 to 255"),
    ],
)
def test_what_is_no_document_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InvalidValue, match=said) as caught:
        documents_of(seen(metadata={DOCUMENTS: given}).task)
    assert DOCUMENTS in str(caught.value)


def test_an_address_is_refused_where_only_content_is_taken() -> None:
    task = seen(metadata={DOCUMENTS: [BILL, FAR]}).task
    with pytest.raises(InvalidValue, match="takes the content, so give data"):
        documents_of(task, by_address=False)


def test_documents_stand_with_the_tasks_own_instructions() -> None:
    context = seen(metadata={DOCUMENTS: [BILL]})
    context.transcript = [UserMessage("before"), UserMessage("do it")]
    [heard] = conversation(context, "test")
    assert isinstance(heard, Heard)
    assert [each.name for each in heard.documents] == ["bill.pdf"]


def test_the_bound_of_a_prompt_has_room_for_many_pages() -> None:
    with_one = input_bound(seen(metadata={DOCUMENTS: [BILL]}), (), "")
    assert with_one - input_bound(seen(), (), "") == 1_000_000
