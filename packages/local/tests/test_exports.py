"""The names that this package hands on."""

import agentic_kernel_local


def test_the_public_names_are_these() -> None:
    assert agentic_kernel_local.__all__ == [
        "MODEL_PACKAGE",
        "MODEL_VARIABLE",
        "RUNTIME_KIND",
        "AnswerOptions",
        "Example",
        "LocalPlanner",
        "LocalRuntime",
        "LocalSubstrate",
        "find_model",
    ]
