"""Completion in shells: the scripts, and what they offer after Tab."""

import os
import shutil
import subprocess
import sys
from inspect import unwrap
from pathlib import Path

import pytest
from bench.processes import PATIENCE_SECONDS
from tests.cli.calling import call, environment, refused

from tidelog.cli import app, completion, main

# What the user typed, and what Tab offers among other things.
TYPED = {
    "scen": ["scenario"],
    "scenario run hw-lo": ["hw-loss", "hw-loss-chain"],
    "scenario run hw-loss -g ": ["hw", "kip101", "epoch", "elr", "majority"],
    "trial --faults kill,po": ["kill,power"],
    "up --set log.segment.b": ["log.segment.bytes="],
    "trial --no-a": ["--no-audit"],
}

_BASH = """
eval "$(tidelog completion bash)"
complete -p tidelog >&2
while read -r line; do
    COMP_LINE="tidelog $line"
    IFS=' ' read -ra COMP_WORDS <<< "$COMP_LINE"
    [[ $line == *'|' ]] && { unset 'COMP_WORDS[-1]'; COMP_WORDS+=(""); }
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    COMPREPLY=()
    _tidelog_completion tidelog
    echo "${COMPREPLY[*]}"
done
"""


@pytest.fixture
def command(tmp_path: Path) -> dict[str, str]:
    """An environment whose PATH has the `tidelog` of this source, as an installation would."""
    script = tmp_path / "bin" / "tidelog"
    script.parent.mkdir()
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m tidelog "$@"\n')
    script.chmod(0o755)
    return environment(PATH=f"{script.parent}{os.pathsep}{os.environ['PATH']}", HOME=str(tmp_path))


def _shell(words: list[str], env: dict[str, str], typed: str = "") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        words, input=typed, capture_output=True, text=True, env=env, check=False, timeout=PATIENCE_SECONDS
    )


def test_bash_completes_commands_options_and_names(command: dict[str, str]):
    # A word that is still empty is written as |, because `read` takes spaces away.
    lines = list(TYPED)[1:4]
    typed = "".join(f"{line}|\n" if line.endswith(" ") else f"{line}\n" for line in lines)
    done = _shell(["bash", "--norc", "-c", _BASH], command, typed)
    assert done.stderr == "complete -o default -F _tidelog_completion tidelog\n"
    offered = [line.split() for line in done.stdout.splitlines()]
    assert offered == [TYPED[line] for line in lines]


@pytest.mark.skipif(shutil.which("fish") is None, reason="fish is not installed")
def test_fish_completes_with_whole_summaries(command: dict[str, str]):
    program = "tidelog completion fish | source; complete -C 'tidelog scen'"
    done = _shell(["fish", "--no-config", "-c", program], command)
    assert "scenario\tKnown failures by name: list, show, run, compare.\n" in done.stdout
    assert done.stderr == ""


@pytest.mark.skipif(shutil.which("zsh") is None, reason="zsh is not installed")
def test_zsh_takes_the_script(command: dict[str, str]):
    program = (
        'autoload -Uz compinit; compinit -u -D; eval "$(tidelog completion zsh)"; echo ${_comps[tidelog]}'
    )
    done = _shell(["zsh", "-f", "-c", program], command)
    assert (done.stdout, done.stderr) == ("_tidelog_completion\n", "")


@pytest.mark.parametrize("shell", ["zsh", "fish"])
def test_the_answer_to_a_shell_names_what_fits(
    shell: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    """What the scripts of both ask for, whether they are installed here or not."""
    for typed, offered in TYPED.items():
        monkeypatch.setenv("_TYPER_COMPLETE_ARGS", f"tidelog {typed}")
        monkeypatch.setenv("_TYPER_COMPLETE_FISH_ACTION", "get-args")
        monkeypatch.setenv(completion.VARIABLE, f"complete_{shell}")
        with pytest.raises(SystemExit) as end:
            main([])
        assert end.value.code == 0
        answer = capsys.readouterr().out
        assert all(word in answer for word in offered)


def test_every_completer_answers_and_none_offers_what_does_not_fit():
    """A completer that fails would be silent in a shell."""
    found = 0
    for name, complete in _completers():
        found += 1
        everything = complete("")
        assert everything, name
        assert [word for word in complete(everything[0]) if not word.startswith(everything[0])] == []
        assert complete("no such word") == [], name
    assert found > 20


def _completers():
    import typer

    def commands(group):
        for found in group.commands.values():
            if hasattr(found, "commands"):
                yield from commands(found)
            else:
                yield unwrap(found.callback)

    for callback in commands(app.command()):
        for parameter in typer.utils.get_params_from_function(callback).values():
            if complete := getattr(parameter.default, "autocompletion", None):
                yield f"{callback.__name__} {parameter.name}", complete


def test_a_list_does_not_offer_what_it_holds():
    complete = completion.lists(lambda: ("0", "1", "all"))
    assert complete("1,") == ["1,0", "1,all"]
    assert complete("1,a") == ["1,all"]


def test_an_unknown_shell_is_refused():
    assert refused(call("completion", "ksh")).startswith("unknown shell 'ksh': ")
    assert refused(call("completion")).startswith("SHELL is missing")
