"""``tidelog completion``: the script that lets a shell complete commands, options and names."""

from __future__ import annotations

from typing import Annotated

import typer

from tidelog.cli.completion import VARIABLE, words
from tidelog.cli.errors import ExitCode
from tidelog.cli.options import one_of
from tidelog.cli.show.output import write_text

EXAMPLES = """\b
Where to put it:
  bash  eval "$(tidelog completion bash)"    in ~/.bashrc
  zsh   eval "$(tidelog completion zsh)"     in ~/.zshrc, after compinit
  fish  tidelog completion fish > ~/.config/fish/completions/tidelog.fish
"""

SHELLS = ("bash", "zsh", "fish")

ShellArgument = Annotated[
    str,
    typer.Argument(
        metavar="SHELL", help="bash, zsh or fish.", show_default=False, autocompletion=words(*SHELLS)
    ),
]


def completion(shell: ShellArgument) -> int:
    """Print the script that completes tidelog in bash, zsh or fish.

    Completes commands, options, and the names of scenarios, generations, faults and settings.
    """
    from typer._completion_shared import get_completion_script

    one_of("shell", shell, SHELLS)
    write_text(get_completion_script(prog_name="tidelog", complete_var=VARIABLE, shell=shell) + "\n")
    return ExitCode.HELD
