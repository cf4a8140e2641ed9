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
from .attachments import (
    DOCUMENTS,
    IMAGES,
    PDF,
    Document,
    Image,
    documents_of,
    images_in,
    images_of,
)
from .client import SDKClient
from .connection import Refused, sent, unsent
from .conversation import (
    GO_ON,
    Call,
    Heard,
    Message,
    Result,
    Said,
    conversation,
    images_apart,
    provider,
    wired,
)
from .edges import (
    address_problem,
    check_address,
    check_flag,
    check_key,
    check_model,
    check_name,
    check_once,
    check_prices,
    check_seconds,
    key_problem,
)
from .events import Events
from .failures import Failures, codes_of, retry_after_ms
from .forecast import input_bound
from .hosted import Citations, HostedTool, citations_of, hosted_tools
from .instructions import instructions
from .keywords import UnknownKeyword, check_keywords
from .logs import (
    mask,
)
from .offers import OFFERS, Function, Offer, functions, offered
from .options import FURTHER, AnswerOptions, loop_inputs
from .planner import APIPlanner, json_mapping, present
from .planner_options import PlannerOptions, SDKOptions
from .pricing import Long, Price, price_of
from .provider_planner import ProviderPlanner
from .reader import Answer, Counted, Reader, Unusable, plan_of
from .runtime import (
    APIRuntime,
    ProviderRuntime,
    ReadyOptions,
    RuntimeOptions,
    Toolset,
    parted,
    patient,
)
from .secrets import (
    Redactor,
    Secrets,
    keys_in,
    secrets_of,
)
from .strict import in_words, is_strict
from .transport import certificates, http_client, http_options

__all__ = [
    "DOCUMENTS",
    "FURTHER",
    "GO_ON",
    "IMAGES",
    "OFFERS",
    "PDF",
    "APIPlanner",
    "APIRuntime",
    "Answer",
    "AnswerOptions",
    "Asked",
    "Call",
    "Citations",
    "Counted",
    "Document",
    "Doubled",
    "Events",
    "Failures",
    "Function",
    "Heard",
    "HostedTool",
    "Image",
    "Long",
    "Malformed",
    "Message",
    "Offer",
    "PlannerOptions",
    "Price",
    "ProviderPlanner",
    "ProviderRuntime",
    "Reader",
    "ReadyOptions",
    "Redactor",
    "Refused",
    "Result",
    "RuntimeOptions",
    "SDKClient",
    "SDKOptions",
    "Said",
    "Secrets",
    "Toolset",
    "UnknownKeyword",
    "Unusable",
    "actions_of",
    "address_problem",
    "certificates",
    "check_address",
    "check_flag",
    "check_key",
    "check_keywords",
    "check_model",
    "check_name",
    "check_once",
    "check_prices",
    "check_seconds",
    "citations_of",
    "codes_of",
    "conversation",
    "documents_of",
    "final_answer",
    "functions",
    "hosted_tools",
    "http_client",
    "http_options",
    "images_apart",
    "images_in",
    "images_of",
    "in_words",
    "input_bound",
    "instructions",
    "is_strict",
    "json_mapping",
    "json_of",
    "key_problem",
    "keys_in",
    "loop_inputs",
    "mask",
    "offered",
    "parted",
    "patient",
    "plan_of",
    "present",
    "price_of",
    "provider",
    "retry_after_ms",
    "secrets_of",
    "sent",
    "unsent",
    "wired",
]  # fmt: skip
