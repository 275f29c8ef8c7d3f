"""The catalogue of known failures: scenario files that are installed with the package, found by name.

``catalogue.txt`` gives their order: a line ``# Section title``, then one name a
line. It is optional, and so is a mention in it: what it does not name comes last, by the alphabet, under
"More". A name in it without a file is passed over.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass, field
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path

from tidelog.errors import Refusal, reason, unknown
from tidelog.scenario.scenario import Scenario, ScenarioError, parse

SUFFIX = ".scenario"
ORDER_FILE = "catalogue.txt"
REST = "More"
FILE_BYTES_MAX = 1_000_000
"""No scenario is this large; a disk image or /dev/zero that is named by mistake is."""


class UnknownScenario(Refusal, LookupError):
    """There is no scenario of that name. The message suggests the nearest ones."""

    def __init__(self, name: str, known: list[str]) -> None:
        super().__init__(str(unknown("scenario", name, known, listed_by="tidelog scenario list")))


@dataclass(slots=True)
class CatalogueSection:
    title: str
    names: list[str] = field(default_factory=list)


def _folder() -> Traversable:
    return files(__name__)


def _present() -> list[str]:
    folder = _folder()
    if not folder.is_dir():
        return []
    return sorted(
        entry.name.removesuffix(SUFFIX) for entry in folder.iterdir() if entry.name.endswith(SUFFIX)
    )


def groups() -> list[CatalogueSection]:
    """All scenarios in the order of the catalogue. Groups without any are left out."""
    order = _folder() / ORDER_FILE
    return arrange(order.read_text("utf-8") if order.is_file() else "", _present())


def arrange(order: str, present: list[str]) -> list[CatalogueSection]:
    """Put the names that are present into the groups that ``order`` describes."""
    found = [CatalogueSection("")]
    left = dict.fromkeys(present)
    for line in map(str.strip, order.splitlines()):
        if line.startswith("#"):
            found.append(CatalogueSection(line.lstrip("#").strip()))
        elif line in left:
            del left[line]
            found[-1].names.append(line)
    found.append(CatalogueSection(REST, sorted(left)))
    return [group for group in found if group.names]


def names() -> list[str]:
    return [name for group in groups() for name in group.names]


def text(name: str) -> str:
    """The file of a scenario, exactly as it is. Raises ``UnknownScenario``."""
    known = _present()
    if name not in known:
        raise UnknownScenario(name, known)
    return _decode((_folder() / f"{name}{SUFFIX}").read_bytes(), name)


def load(name: str) -> Scenario:
    """A scenario of the catalogue. Raises ``UnknownScenario``."""
    return parse(text(name), name)


def file_text(path: Path) -> str:
    """The text of a file. Raises ``ScenarioError`` with the reason if it cannot be read."""
    try:
        with path.open("rb") as file:
            content = file.read(FILE_BYTES_MAX + 1)
    except OSError as error:
        reasons = {errno.ENOENT: "there is no such file", errno.EISDIR: "this is a directory, not a file"}
        raise ScenarioError(f"{path}: {reasons.get(error.errno or 0, reason(error))}") from None
    if len(content) > FILE_BYTES_MAX:
        raise ScenarioError(f"{path}: larger than {FILE_BYTES_MAX} bytes, this is no scenario")
    return _decode(content, str(path))


def _decode(content: bytes, origin: str) -> str:
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{origin}: byte {error.start} is not UTF-8 text") from None
