"""Memories that come with the engine, and what another Memory needs to behave as they do."""

from .embedding import EmbeddingMemory
from .hashing import HashingEmbedder
from .in_memory import InMemoryMemory, check_query
from .item_ledger import ItemLedger, read_export
from .none import NoMemory
from .vectors import BadVector, Embedder, Vectors, unit

__all__ = [
    "BadVector",
    "Embedder",
    "EmbeddingMemory",
    "HashingEmbedder",
    "InMemoryMemory",
    "ItemLedger",
    "NoMemory",
    "Vectors",
    "check_query",
    "read_export",
    "unit",
]
