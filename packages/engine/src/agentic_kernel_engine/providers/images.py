"""Images: pictures that a model is shown, as JSON that every store keeps.

An image is ``{"type": "image", "media_type": "image/png", "data": <base64>}`` or ``{"type":
"image", "url": "https://…"}``. A Task brings its own in the metadata `IMAGES`; a tool may return
one, or a list that has some.
"""

from __future__ import annotations

from base64 import b64decode
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from agentic_kernel import InvalidValue, Task

from ..inputs import IMAGES as IMAGES

MEDIA_TYPES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""The types that every vendor accepts."""


class Image(NamedTuple):
    """A picture: by its address, or by its content."""

    url: str
    """An address with ``https:``; empty if the content is here."""
    media_type: str
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


def image_of(value: Any) -> Image | None:
    """The image of a JSON value; None if the value is not an image."""
    if not isinstance(value, Mapping) or value.get("type") != "image":
        return None
    url, kind, data = value.get("url"), value.get("media_type"), value.get("data")
    if isinstance(url, str) and url.startswith("https://") and data is None:
        return Image(url, "", "")
    if isinstance(data, str) and kind in MEDIA_TYPES and url is None:
        return Image("", str(kind), data)
    return None


def images_of(task: Task) -> tuple[Image, ...]:
    """The images that belong to a Task's instructions.

    Raises:
        InvalidValue: The metadata `IMAGES` is not a list of images.
    """
    given: Any = task.metadata.get(IMAGES, ())
    found: list[Image] = []
    for value in given if isinstance(given, Sequence) and not isinstance(given, str) else [given]:
        image = image_of(value)
        if image is None:
            raise InvalidValue(
                f"Task.metadata[{IMAGES!r}]",
                'must be a list of {"type": "image", "media_type": …, "data": base64} or '
                f'{{"type": "image", "url": "https://…"}}; media types: {", ".join(MEDIA_TYPES)}',
            )
        found.append(image)
    return tuple(found)


def images_in(output: Any) -> tuple[Any, tuple[Image, ...]]:
    """A tool's output without its images, and the images; None if the output was only images."""
    image = image_of(output)
    if image is not None:
        return None, (image,)
    if not isinstance(output, list | tuple):
        return output, ()
    images = [image_of(value) for value in output]
    if not any(images):
        return output, ()
    rest = [value for value, image in zip(output, images, strict=True) if image is None]
    return rest or None, tuple(image for image in images if image is not None)
