"""Security: who may call, how much, and how large."""

from .bounds import Most, TenantBounds
from .credentials import KeyCredentials, LoopbackCredentials, is_loopback
from .keys import Key, KeyFile, KeyFileError, Keys
from .revocation import Revocable
from .sizes import Sized, Sizes

__all__ = [
    "Key",
    "KeyCredentials",
    "KeyFile",
    "KeyFileError",
    "Keys",
    "LoopbackCredentials",
    "Most",
    "Revocable",
    "Sized",
    "Sizes",
    "TenantBounds",
    "is_loopback",
]
