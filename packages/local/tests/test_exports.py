"""The names that this package hands on."""

import agentic_kernel_local


def test_the_public_names_are_these() -> None:
    assert agentic_kernel_local.__all__ == [
        "IMPL",
        "MODEL_PACKAGE",
        "MODEL_VARIABLE",
        "RUNTIME_KIND",
        "Example",
        "LocalLoop",
        "LocalPlanner",
        "LocalRuntime",
        "find_model",
    ]
