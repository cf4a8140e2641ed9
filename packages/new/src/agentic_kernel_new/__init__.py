"""New siblings: complete packages with a runtime, store, provider or observer, made by templates.

`create` writes one, and `recopy` brings a newer template into one. The templates are in the folder
``templates`` of this package, and Copier renders them.
"""

from .errors import FolderTaken, NewerTemplate, NoAnswers
from .projects import ANSWERS, Recopied, create, recopy
from .rendering import template_version
from .sibling import KINDS, Kind, Sibling

__all__ = [
    "ANSWERS",
    "KINDS",
    "FolderTaken",
    "Kind",
    "NewerTemplate",
    "NoAnswers",
    "Recopied",
    "Sibling",
    "create",
    "recopy",
    "template_version",
]
