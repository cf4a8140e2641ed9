"""Attachments: images and PDF files that a model is shown, as JSON that every store keeps.

Each comes by its content or by its address: an image is ``{"type": "image", "media_type":
"image/png", "data": <base64>}`` or ``{"type": "image", "url": "https://…"}``, and a document has
the type ``document``, the media type ``application/pdf``, and also a ``name``. A Task brings its
own in the metadata `IMAGES` and `DOCUMENTS`; a tool may return an image, or a list that has some.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentic_kernel import InvalidValue, Task

from ..inputs import DOCUMENTS as DOCUMENTS
from ..inputs import IMAGES as IMAGES

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types of images that every vendor accepts."""
PDF: Final = "application/pdf"
"""The one media type of documents that several vendors accept."""
NAME: Final = "document.pdf"
"""The name of a document without one."""
LONGEST_NAME: Final = 255
"""The longest name, in characters."""
_BASE64: Final = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_NO_BASE64: Final = (
    "has data that is empty or not valid Base64; encode the bytes of the file with the standard "
    "alphabet and padding, without line breaks"
)
_BARE: Final = (str, int, float)
"""The types of JSON values that are no image and have none."""
_ADDRESS: Final = re.compile(
    r"https://(?:[^\s\x00-\x1f\x7f/?#@]*@)?[^\s\x00-\x1f\x7f/?#@:][^\s\x00-\x1f\x7f]*"
)
"""An address with a host, and without spaces and control characters."""
_MAGIC: Final = b"%PDF-"
_IMAGES: Final = (
    'must be a list of {"type": "image", "media_type": …, "data": base64} or '
    f'{{"type": "image", "url": "https://…"}}; media types: {", ".join(MEDIA_TYPES)}'
)
_DOCUMENTS: Final = (
    'must be a list of {"type": "document", "media_type": "application/pdf", "data": base64} or '
    '{"type": "document", "url": "https://…"}, each also with a "name"'
)


class Image(NamedTuple):
    """A picture: by its address, or by its content."""

    url: str
    """An address with ``https:``; empty if the content is here."""
    media_type: str
    """Empty if the address is here."""
    data: str
    """Base64, with the standard alphabet."""

    @property
    def address(self) -> str:
        """The address, or the content as a ``data:`` URL."""
        return self.url or f"data:{self.media_type};base64,{self.data}"

    @property
    def content(self) -> bytes:
        """The bytes of the picture; empty if it is an address or not valid Base64."""
        try:
            return b64decode(self.data, validate=True)
        except ValueError:
            return b""


class Document(NamedTuple):
    """A PDF file: by its address, or by its content."""

    url: str
    """As for an `Image`."""
    data: str
    name: str
    """For the model."""
    media_type: str = PDF

    @property
    def address(self) -> str:
        """The address, or the content as a ``data:`` URL."""
        return self.url or f"data:{self.media_type};base64,{self.data}"


def images_of(task: Task, *, by_address: bool = True, decoded: bool = False) -> tuple[Image, ...]:
    """The images that belong to a Task's instructions.

    Args:
        by_address: False if each must be there by its content.
        decoded: True to decode each content, before the Task begins. Otherwise only the form of
            its beginning, its end and its length are checked, because a turn reads them again.

    Raises:
        InvalidValue: The metadata `IMAGES` is not a list of images, an address or a content is not
            valid, or one is not there by its content although it must be.
    """
    if IMAGES not in task.metadata:
        return ()
    path = f"Task.metadata[{IMAGES!r}]"
    given: Any = task.metadata[IMAGES]
    listed = isinstance(given, Sequence) and not isinstance(given, str)
    found = [_read(value, "image", MEDIA_TYPES) for value in (given if listed else [given])]
    if None in found:
        raise InvalidValue(path, _IMAGES)
    images = tuple(Image(*read) for read in found if read is not None)
    for index, image in enumerate(images):
        place = f"{path}[{index}]" if listed else path
        if image.url and not by_address:
            raise InvalidValue(
                place, "must have the content of the image as Base64; this API takes no addresses"
            )
        _check(image.url, image.data, place)
        if decoded and not image.url and not image.content:
            raise InvalidValue(place, _NO_BASE64)
    return images


def images_in(output: Any) -> tuple[Any, tuple[Image, ...]]:
    """A tool's output without its images, and the images; None if the output was only images.

    An image whose address or content is not valid stays in the output, so the model reads it as
    JSON and no vendor refuses the request.
    """
    if output is None or isinstance(output, _BARE):
        return output, ()
    if not isinstance(output, (list, tuple)):
        alone = _shown(output)
        return (output, ()) if alone is None else (None, (Image(*alone),))
    found = [_shown(value) for value in output]
    if not any(found):
        return output, ()
    rest = [value for value, read in zip(output, found, strict=True) if read is None]
    return rest or None, tuple(Image(*read) for read in found if read is not None)


def documents_of(task: Task, *, by_address: bool = True) -> tuple[Document, ...]:
    """The documents that belong to a Task's instructions.

    Args:
        by_address: False if each must be there by its content.

    Raises:
        InvalidValue: The metadata `DOCUMENTS` is not a list of documents, one of them is not a PDF
            file, or one is an address although it must not be.
    """
    if DOCUMENTS not in task.metadata:
        return ()
    given: Any = task.metadata[DOCUMENTS]
    path = f"Task.metadata[{DOCUMENTS!r}]"
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise InvalidValue(path, _DOCUMENTS)
    return tuple(_document(value, path, by_address) for value in given)


def _document(value: Any, path: str, by_address: bool) -> Document:
    read = _read(value, "document", (PDF,))
    if read is None:
        raise InvalidValue(path, _DOCUMENTS)
    (url, _, data), name = read, value.get("name", NAME)
    if not isinstance(name, str) or not 0 < len(name) <= LONGEST_NAME:
        raise InvalidValue(path, f"has a name that is not a text of 1 to {LONGEST_NAME} characters")
    if url:
        if not by_address:
            raise InvalidValue(path, "has an address; this API takes the content, so give data")
        _check(url, "", path)
        return Document(url, "", name)
    try:
        content = b64decode(data, validate=True)
    except ValueError:
        raise InvalidValue(path, "has data that is not valid Base64") from None
    if not content.startswith(_MAGIC):
        raise InvalidValue(path, "has data that is not a PDF file; convert it, or give its text")
    return Document("", data, name)


def _shown(value: Any) -> tuple[str, str, str] | None:
    """Return what `_read` returns for an image of a tool that a vendor can take."""
    read = _read(value, "image", MEDIA_TYPES)
    try:
        if read is not None:
            _check(read[0], read[2], "image")
    except InvalidValue:
        return None
    return read


def _check(url: str, data: str, path: str) -> None:
    """Refuse an address or a content of the wrong form; a long content is not read as a whole.

    Raises:
        InvalidValue: It has the wrong form.
    """
    if url:
        if not _ADDRESS.fullmatch(url):
            raise InvalidValue(
                path,
                f"has the address {url!a:.80}, which has no host, or has a space or a control "
                "character; percent-encode it",
            )
    elif (
        not data
        or len(data) % 4
        or not _BASE64.fullmatch(data[: max(min(64, len(data) - 64), 0)] + data[-64:])
    ):
        raise InvalidValue(path, _NO_BASE64)


def _read(value: Any, kind: str, types: Sequence[str]) -> tuple[str, str, str] | None:
    """Return the address, the media type and the content of a JSON value; None if it has no form.

    Args:
        value: The value.
        kind: Its ``type``.
        types: The media types of a content.
    """
    if not isinstance(value, Mapping) or value.get("type") != kind:
        return None
    url, media_type, data = value.get("url"), value.get("media_type"), value.get("data")
    if isinstance(url, str) and url.startswith("https://") and data is None:
        return url, "", ""
    if isinstance(data, str) and media_type in types and url is None:
        return "", str(media_type), data
    return None
