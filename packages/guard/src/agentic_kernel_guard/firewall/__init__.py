"""The firewall: what a driver returned, made into what a model may see."""

from .frame import Budgets, Cut, Frame, FrameLimits, ResponseMode
from .raw import RawResult

__all__ = ["Budgets", "Cut", "Frame", "FrameLimits", "RawResult", "ResponseMode"]
