"""Providers: the common parts of all planners that use a vendor's API.

A sibling package translates its vendor's wire format, errors and prices. The form of a
conversation, the names of failures and the highest cost of an answer are defined here, once.
"""

from .answers import Asked, Malformed, actions_of, final_answer
from .conversation import Call, Heard, Message, Result, Said, conversation, provider
from .failures import Failures, retry_after_ms
from .forecast import input_bound
from .images import IMAGES, Image
from .instructions import instructions
from .offers import OFFERS, Function, Offer, functions, offered
from .options import AnswerOptions
from .pricing import Long, Price, price_of
from .runtime import ProviderPlanner, ProviderRuntime, RuntimeOptions, Toolset
from .secrets import Redactor, Secrets

__all__ = [
    "IMAGES",
    "OFFERS",
    "AnswerOptions",
    "Asked",
    "Call",
    "Failures",
    "Function",
    "Heard",
    "Image",
    "Long",
    "Malformed",
    "Message",
    "Offer",
    "Price",
    "ProviderPlanner",
    "ProviderRuntime",
    "Redactor",
    "Result",
    "RuntimeOptions",
    "Said",
    "Secrets",
    "Toolset",
    "actions_of",
    "conversation",
    "final_answer",
    "functions",
    "input_bound",
    "instructions",
    "offered",
    "price_of",
    "provider",
    "retry_after_ms",
]
