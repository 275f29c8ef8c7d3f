"""``tidelog lab``: scenarios on a web page, to step through, change and compare."""

from __future__ import annotations

import sys
from pathlib import Path

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import generation_named, scenario_named, scenario_text
from tidelog.cli.parameters import lab as given
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


def lab(
    named: given.Named = None,
    *,
    generation: given.Generation = None,
    host: given.Host = "127.0.0.1",
    port: given.Port = given.PORT,
    no_browser: given.NoBrowser = False,
    export: given.Export = None,
    scenario: given.Chosen = None,
    with_python: given.WithPython = False,
    site: given.Site = None,
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
    from tidelog.web.browser import open_url
    from tidelog.web.server import address, listen, serve

    listener = listen(host, port)
    url = address(host, listener) + fragment

    def ready() -> None:
        write_text(f"{url}\n")
        if sys.stderr.isatty():
            print("Press Ctrl-C to stop.", file=sys.stderr)
        if browser:
            open_url(url)

    with listener:
        serve(listener, host, ready)
    return ExitCode.HELD


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
