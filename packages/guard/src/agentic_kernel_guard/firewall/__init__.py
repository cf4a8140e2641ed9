"""The firewall: what a driver returned, made into what a model may see."""

from .firewall import Firewall, RawRefused
from .frame import Budgets, Cut, Frame, FrameLimits, ResponseMode
from .raw import RawResult
from .redact import Redactor, RedactorStream

__all__ = [
    "Budgets", "Cut", "Firewall", "Frame", "FrameLimits", "RawRefused", "RawResult", "Redactor",
    "RedactorStream", "ResponseMode",
]  # fmt: skip
