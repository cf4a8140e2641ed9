"""Tokens: signed proofs of a grant."""

from .claims import Claims
from .keyring import Key, Keyring
from .token import TokenRefused, mint, opened

__all__ = ["Claims", "Key", "Keyring", "TokenRefused", "mint", "opened"]
