"""``tidelog lab``: scenarios on a web page, to step through, change and compare."""

from __future__ import annotations

import errno
import sys
from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli import completion
from tidelog.cli.errors import ExitCode
from tidelog.cli.options import flag, generation_named, scenario_named, scenario_text, value
from tidelog.cli.show.output import write_text
from tidelog.errors import Refusal, reason
from tidelog.narrate.numbers import counted
from tidelog.storage.durable import write_file

EXAMPLES = """\b
Examples:
  tidelog lab                           open the catalogue
  tidelog lab hw-loss -g hw             open one scenario
  tidelog lab found.scenario            open a file, for example one from explore
  tidelog lab --export lab.html         write one file that works offline
  tidelog lab --export lab.html --with-python
                                        the same, and stories can be changed in it
  tidelog lab --site public             write a folder for any web server
"""

PORT = 8484
"""Always the same, so that links and bookmarks of yesterday open today."""

Named = Annotated[
    str | None,
    typer.Argument(
        metavar="[SCENARIO|FILE]",
        help="Scenario to open: a name from 'tidelog scenario list', or a file.",
        show_default=False,
        autocompletion=completion.scenarios,
    ),
]
Generation = Annotated[
    str | None,
    value(
        "G",
        "Replication rules: hw, kip101, epoch, elr or majority.",
        "--generation",
        "-g",
        default=False,
        autocompletion=completion.generations,
    ),
]
Host = Annotated[str, value("H", "Address to listen on.")]
Port = Annotated[int, value("P", "Port to listen on; 0 picks a free port.", min=0, max=65_535)]
NoBrowser = Annotated[bool, flag("Do not open a browser.", "--no-browser")]
Export = Annotated[
    Path | None,
    value("FILE", "Write a self-contained HTML file and exit.", default=False),
]
WithPython = Annotated[
    bool,
    flag(
        "With --export: include Python, so that stories can be changed there (8 MB; needs npm).",
        "--with-python",
    ),
]
Site = Annotated[
    Path | None,
    value("DIR", "Write a static site with Python for browsers and exit (needs npm).", default=False),
]
Chosen = Annotated[
    list[str] | None,
    value(
        "NAME",
        "With --export: scenario to include (a name or a file); repeatable.",
        "--scenario",
        default="the whole catalogue",
        autocompletion=completion.scenarios,
    ),
]


def lab(
    named: Named = None,
    *,
    generation: Generation = None,
    host: Host = "127.0.0.1",
    port: Port = PORT,
    no_browser: NoBrowser = False,
    export: Export = None,
    scenario: Chosen = None,
    with_python: WithPython = False,
    site: Site = None,
) -> int:
    """Open scenarios on a web page, to step through and change.

    The page shows every log, every message and every acknowledgement.
    """
    if generation is not None:
        generation_named(generation)
    if site is not None:
        if named or scenario or generation or export or with_python:
            raise Refusal("--site takes the whole catalogue: leave out scenarios, --generation and --export")
        return _site(site)
    if export is not None:
        names = [*([named] if named else []), *(scenario or [])]
        return _export(export, names, generation, with_python=with_python)
    if scenario:
        raise Refusal("--scenario needs --export; to open one scenario: tidelog lab NAME")
    if with_python:
        raise Refusal("--with-python needs --export")
    return _serve(_fragment(named, generation), host, port, browser=not no_browser)


def _fragment(named: str | None, generation: str | None) -> str:
    """The fragment of the URL that selects what the page shows."""
    from tidelog.scenario import catalogue
    from tidelog.scenario.links import catalogue_fragment, fragment

    if named is None:
        return ""
    if named in catalogue.names():
        return catalogue_fragment(named, generation)
    scenario_named(named, generation)  # refuses a bad file here, with the line that is wrong
    return fragment(scenario_text(named), generation)


def _serve(fragment: str, host: str, port: int, *, browser: bool) -> int:
    from tidelog.web.server import address, listen, serve

    try:
        listener = listen(host, port)
    except OSError as error:
        raise Refusal(_why_not(error, host, port)) from None
    url = address(host, listener) + fragment

    def ready() -> None:
        write_text(f"{url}\n")
        if sys.stderr.isatty():
            print("Press Ctrl-C to stop.", file=sys.stderr)
        if browser:
            _open(url)

    with listener:
        serve(listener, host, ready)
    return ExitCode.HELD


def _why_not(error: OSError, host: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} is in use, perhaps by another tidelog lab: choose one with --port (0: a free one)"
        )
    if error.errno == errno.EACCES:
        return f"no permission for port {port}: choose one above 1023"
    return f"cannot listen on {host}: {reason(error)}"


def _open(url: str) -> None:
    import contextlib
    import os
    import webbrowser

    screens = ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "WSL_DISTRO_NAME")
    if sys.platform == "linux" and not any(os.environ.get(name) for name in screens):
        return  # a text browser would take over the terminal
    # Not fatal: the URL is printed, and the user can open it elsewhere.
    with contextlib.suppress(webbrowser.Error):
        webbrowser.open(url)


def _export(path: Path, names: list[str], generation: str | None, *, with_python: bool) -> int:
    from tidelog.web.export import GENERATIONS, page, whole_catalogue
    from tidelog.web.play.watched_world import PlayTooLong
    from tidelog.web.pyodide import python_files

    scenarios = [scenario_named(name) for name in names] if names else whole_catalogue()
    generations = list(dict.fromkeys([*GENERATIONS, *([generation] if generation else [])]))
    python = python_files() if with_python else None
    try:
        html = page(scenarios, generations, python)
    except PlayTooLong as limit:
        raise Refusal(f"the export was stopped: {limit}") from None
    write_file(path, html)
    write_text(f"{path}: {counted(len(scenarios), 'scenario')}, {len(html) / 1000:.0f} KB\n")
    return ExitCode.HELD


def _site(folder: Path) -> int:
    from tidelog.web.pyodide import python_files
    from tidelog.web.site import write_site

    python = python_files()
    try:
        size = write_site(folder, python)
    except OSError as error:
        raise Refusal(f"{error.filename or folder}: {reason(error)}") from None
    write_text(
        f"{folder}: {size / 1e6:.1f} MB; to look at it: python3 -m http.server -b 127.0.0.1 -d {folder}\n"
    )
    return ExitCode.HELD
