"""Redaction: secrets and personal data are replaced by markers, in time linear to the text."""

from .finding import Span, spans
from .redactor import SECRET_FIELDS, Redactor
from .stream import RedactorStream

__all__ = ["SECRET_FIELDS", "Redactor", "RedactorStream", "Span", "spans"]
