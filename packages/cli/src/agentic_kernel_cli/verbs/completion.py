"""The verb ``completion``: the script by which a shell completes the command."""

from __future__ import annotations

from typing import Annotated, Final, Literal

import typer

from ..shells import SCRIPTS

EPILOG: Final = """Install it for new shells:

bash:  agentic-kernel completion bash > ~/.local/share/bash-completion/completions/agentic-kernel

zsh:  agentic-kernel completion zsh > "${fpath[1]}/_agentic-kernel"

fish:  agentic-kernel completion fish > ~/.config/fish/completions/agentic-kernel.fish

Or for this shell only:  eval "$(agentic-kernel completion bash)"  (or zsh);  agentic-kernel
completion fish | source"""

completion = typer.Typer(add_completion=False)


@completion.command("completion", epilog=EPILOG)
def script(
    shell: Annotated[
        Literal["bash", "zsh", "fish"], typer.Argument(metavar="SHELL", help="bash, zsh or fish.")
    ],
) -> int:
    """Print a script that completes verbs, options, ids, runtimes and files."""
    typer.echo(SCRIPTS[shell], nl=False)
    return 0
