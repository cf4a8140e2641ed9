"""What planners on a vendor's API have in common, whoever the vendor is.

A sibling translates: its vendor's wire, errors and prices. What a conversation is, what a failure
is called, what an answer may cost at most, is said here, once.
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
