"""Translation: from the CLI's events to the engine's types, fit to be stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from copilot.rpc import ExternalToolTextResultForLlmBinaryResultsForLlm as BinaryResult
from copilot.rpc import ExternalToolTextResultForLlmBinaryResultsForLlmType as BinaryType
from copilot.session import BlobAttachment
from copilot.session_events import (
    AssistantUsageData,
    RawSessionEventData,
    ToolExecutionCompleteData,
)
from msgspec.structs import replace

from agentic_kernel import InvalidValue, Task
from agentic_kernel_engine import values
from agentic_kernel_engine.loop import (
    HANDLER_ERROR,
    INDETERMINATE,
    POLICY_DENIED,
    SKIPPED,
    TIMEOUT,
    Observation,
    ToolCall,
    Usage,
)
from agentic_kernel_engine.providers import IMAGES, Price, images_in, images_of

from . import failures
from .state import Call

_ERRORS: Final[Mapping[str, str]] = {
    "denied": POLICY_DENIED,
    "rejected": POLICY_DENIED,
    "interrupted": INDETERMINATE,
    "timeout": TIMEOUT,
}
"""The error of an observation, by the CLI's code for its own call; else `HANDLER_ERROR`."""


def call_said(action: ToolCall) -> str:
    """The first sentence of every message to a session about this call."""
    arguments = values.encode(action.arguments).decode()
    return f"Before you were interrupted you called {action.tool} with {arguments}."


def reminder(action: ToolCall, found: Observation | None) -> str:
    """The message to a session about a call whose end it does not know.

    Args:
        action: The call.
        found: Its outcome; None if it is not known.
    """
    asked = call_said(action)
    if found is None:
        return f"{asked} Whether it took effect is not known; find out before you repeat it."
    if found.error:
        return f"{asked} It came to this: {found.error}: {found.message}"
    return f"{asked} It is done, do not repeat it. It gave: {values.encode(found.output).decode()}"


def action_of(id: str, name: str, arguments: Any) -> ToolCall:
    """The call that a session requests; arguments that cannot be stored are left out."""
    try:
        values.check(arguments, "arguments")
    except InvalidValue:
        arguments = None
    arguments = failures.secrets().value(arguments)
    return ToolCall(
        cleaned(name)[:200], arguments if isinstance(arguments, dict) else {}, cleaned(id)
    )


def attachments_of(task: Task) -> list[BlobAttachment]:
    """The images of a Task as the CLI takes them, with its first message.

    Raises:
        InvalidValue: An image is an address, or not valid Base64.
    """
    images = images_of(task)
    if not all(image.content for image in images):
        raise InvalidValue(
            f"Task.metadata[{IMAGES!r}]",
            "must have the content of each image as Base64; the CLI takes no addresses",
        )
    return [{"type": "blob", "data": each.data, "mimeType": each.media_type} for each in images]


def result_of(observation: Observation) -> tuple[str, list[BinaryResult]]:
    """The text and the images that the model gets for a call of one of our tools."""
    if observation.error:
        return f"{observation.error}: {observation.message}", []
    output, images = images_in(observation.output)
    text = output if isinstance(output, str) else values.encode(output).decode()
    if images and output is None:
        text = "an image" if len(images) == 1 else f"{len(images)} images"
    elsewhere = [image.url or "not valid" for image in images if not image.content]
    if elsewhere:
        text += f" (not here: {', '.join(elsewhere)})"
    return text, [
        BinaryResult(data=image.data, mime_type=image.media_type, type=BinaryType.IMAGE)
        for image in images
        if image.content
    ]


def observation_of(call: Call, data: ToolExecutionCompleteData) -> Observation:
    """The observation of a call of the CLI's own tools, from the CLI's report."""
    action = call.action
    if data.success:
        said = cleaned(data.result.content) if data.result is not None else ""
        return Observation(said, call=action.id, tool=action.tool)
    fault = data.error
    code = _ERRORS.get(fault.code or "", HANDLER_ERROR) if fault else HANDLER_ERROR
    if code == INDETERMINATE and not call.key:
        code = SKIPPED
    message = failures.clean(fault.message) if fault else "it failed and did not say why"
    return Observation(error=code, message=message, call=action.id, tool=action.tool)


def refusal_in(data: RawSessionEventData) -> str:
    """The model's text if it refuses, from the provider's own event; "" if it does not refuse.

    The CLI's own event of the answer leaves this text out.
    """
    message = data.raw.get("message") if isinstance(data.raw, dict) else None
    refusal = message.get("refusal") if isinstance(message, dict) else None
    return cleaned(refusal) if isinstance(refusal, str) else ""


def usage_of(data: AssistantUsageData, price: Price | None) -> Usage:
    """The usage of one call of a model.

    The CLI's ``cost`` is not money: it is the multiplier of the model for a quota of requests.

    Args:
        data: The CLI's counts of the call.
        price: The price of the model; None if it is not known.
    """
    call = Usage(
        _count(data.input_tokens),
        _count(data.output_tokens),
        _count(data.cache_read_tokens),
        _count(data.reasoning_tokens),
    )
    if price is None:
        return call
    return replace(call, cost=price.cost(call, _count(data.cache_write_tokens)))


def _count(tokens: Any) -> int:
    return max(int(tokens), 0) if isinstance(tokens, int | float) else 0


def cleaned(text: str) -> str:
    """A text from outside in full, without keys and fit to be stored."""
    text = failures.secrets().clean(text)
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode()
