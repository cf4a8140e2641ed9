"""Providers: the common parts of all planners that use a vendor's API.

A sibling package translates its vendor's wire format, errors and prices. The form of a
conversation, the names of failures and the highest cost of an answer are defined here, once.
"""

from .answers import (
    Asked,
    Doubled,
    Malformed,
    actions_of,
    final_answer,
    json_of,
)
from .connection import (
    sent,
    unsent,
)
from .conversation import Call, Heard, Message, Result, Said, conversation, provider
from .edges import (
    address_problem,
    check_address,
    check_flag,
    check_key,
    check_model,
    check_prices,
    check_seconds,
    key_problem,
)
from .failures import Failures, retry_after_ms
from .forecast import input_bound
from .images import (
    IMAGES,
    Image,
    images_of,
)
from .instructions import instructions
from .logs import (
    mask,
)
from .offers import OFFERS, Function, Offer, functions, offered
from .options import AnswerOptions, loop_inputs
from .pricing import Long, Price, price_of
from .runtime import (
    ProviderPlanner,
    ProviderRuntime,
    RuntimeOptions,
    Toolset,
    patient,
)
from .secrets import (
    Redactor,
    Secrets,
    keys_in,
    secrets_of,
)

__all__ = [
    "IMAGES", "OFFERS", "AnswerOptions", "Asked", "Call", "Doubled", "Failures", "Function",
    "Heard", "Image", "Long", "Malformed", "Message", "Offer", "Price", "ProviderPlanner",
    "ProviderRuntime", "Redactor", "Result", "RuntimeOptions", "Said", "Secrets", "Toolset",
    "actions_of", "address_problem", "check_address", "check_flag", "check_key", "check_model",
    "check_prices", "check_seconds", "conversation", "final_answer", "functions", "images_of",
    "input_bound", "instructions", "json_of", "key_problem", "keys_in", "loop_inputs", "mask",
    "offered",
    "patient", "price_of", "provider", "retry_after_ms", "secrets_of", "sent",
    "unsent",
]  # fmt: skip
