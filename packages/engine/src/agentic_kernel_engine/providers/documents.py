"""Documents: PDF files that a model reads, as JSON that every store keeps.

A document is ``{"type": "document", "media_type": "application/pdf", "data": <base64>}`` or
``{"type": "document", "url": "https://…"}``, each also with a ``name``. A Task brings its own in
the metadata `DOCUMENTS`.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentic_kernel import InvalidValue, Task

from ..inputs import DOCUMENTS as DOCUMENTS

PDF: Final = "application/pdf"
"""The one media type of documents that several vendors accept."""
NAME: Final = "document.pdf"
"""The name of a document without one."""
LONGEST_NAME: Final = 255
"""The longest name, in characters."""
_MAGIC: Final = b"%PDF-"
_FORM: Final = (
    'must be a list of {"type": "document", "media_type": "application/pdf", "data": base64} or '
    '{"type": "document", "url": "https://…"}, each also with a "name"'
)


class Document(NamedTuple):
    """A PDF file: by its address, or by its content."""

    url: str
    """An address with ``https:``; empty if the content is here."""
    data: str
    """Base64, with the standard alphabet."""
    name: str
    """For the model."""

    @property
    def address(self) -> str:
        """The address, or the content as a ``data:`` URL."""
        return self.url or f"data:{PDF};base64,{self.data}"


def documents_of(task: Task, *, by_address: bool = True) -> tuple[Document, ...]:
    """The documents that belong to a Task's instructions.

    Args:
        by_address: False if each must be there by its content.

    Raises:
        InvalidValue: The metadata `DOCUMENTS` is not a list of documents, one of them is not a PDF
            file, or one is an address although it must not be.
    """
    given: Any = task.metadata.get(DOCUMENTS, ())
    path = f"Task.metadata[{DOCUMENTS!r}]"
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidValue(path, _FORM)
    return tuple(_document(value, path, by_address) for value in given)


def _document(value: Any, path: str, by_address: bool) -> Document:
    if not isinstance(value, Mapping) or value.get("type") != "document":
        raise InvalidValue(path, _FORM)
    url, data, name = value.get("url"), value.get("data"), value.get("name", NAME)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValue(path, f"has a name that is not a text of 1 to {LONGEST_NAME} characters")
    if isinstance(url, str) and url.startswith("https://") and data is None:
        if not by_address:
            raise InvalidValue(path, "has an address; this API takes the content, so give data")
        return Document(url, "", name)
    if not isinstance(data, str) or value.get("media_type") != PDF or url is not None:
        raise InvalidValue(path, _FORM)
    try:
        content = b64decode(data, validate=True)
    except ValueError:
        raise InvalidValue(path, "has data that is not valid Base64") from None
    if not content.startswith(_MAGIC):
        raise InvalidValue(path, "has data that is not a PDF file; convert it, or give its text")
    return Document("", data, name)
