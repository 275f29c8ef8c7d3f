"""Python for a browser: Pyodide, fetched once from the npm registry, and tidelog's own modules beside it.

`npm` knows where the registry is, so no address is written here. What it brings must be the very package
that was tested: its hash is. Pyodide is under the Mozilla Public License 2.0, Python under its own.
"""

from __future__ import annotations

import base64
import hashlib
import io
import json
import os
import shutil
import subprocess
import tarfile
import tempfile
import zlib
from pathlib import Path

from tidelog.errors import Refusal, reason
from tidelog.web.bundle import bundle

VERSION = "0.28.3"
INTEGRITY = "rtCsyTU55oNGpLzSVuAd55ZvruJDEX8o6keSdWKN9jPeBVSNlynaKFG7eRqkiIgU7i2M6HEgYtm0atCEQX3u4A=="
"""SHA-512 of the package."""
NOTICE = (
    f"Pyodide {VERSION} (package pyodide on the npm registry) is under the Mozilla Public License 2.0; its "
    "source is in the repository that the package names. The Python standard library in it is under the "
    "Python Software Foundation License.\n"
)
FETCH_SECONDS_MAX = 300.0
_LOCK = "pyodide-lock.json"
_PARTS = ("pyodide.js", "pyodide.asm.js", "pyodide.asm.wasm", "python_stdlib.zip", _LOCK)


class NoPyodide(Refusal):
    """Pyodide cannot be had. The message says what to do."""


def python_files() -> dict[str, bytes]:
    """Everything that a browser needs to run the lab, by name, each deflated without a header: a file server
    that compresses nothing then still sends half."""
    parts = {name: _deflated(content) for name, content in _unpacked(_package()).items()}
    return {**parts, "tidelog.zip": _deflated(bundle())}


def fetched() -> Path:
    """The package as a file, from the cache or the registry. Raises ``NoPyodide``."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    kept = Path(base) / "tidelog" / f"pyodide-{VERSION}.tgz"
    if kept.is_file() and _is_right(kept.read_bytes()):
        return kept
    npm = shutil.which("npm")
    if npm is None:
        raise NoPyodide(
            "npm not found: install Node.js with npm, which fetches Python for browsers (Pyodide)"
        )
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent, prefix="pyodide-") as scratch:
            _pack(npm, scratch)
            found = next(Path(scratch).glob("*.tgz"), None)
            if found is None or not _is_right(found.read_bytes()):
                raise NoPyodide(f"npm brought another package than pyodide {VERSION} as it was tested")
            found.replace(kept)
    except OSError as error:
        raise NoPyodide(f"{kept.parent}: {reason(error)}") from None
    return kept


def _pack(npm: str, folder: str) -> None:
    command = [npm, "pack", "--silent", f"pyodide@{VERSION}"]
    try:
        done = subprocess.run(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=FETCH_SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        raise NoPyodide(f"npm was stopped after {FETCH_SECONDS_MAX:g} s without pyodide") from None
    if done.returncode:
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        what = errors[0].strip() if errors else f"exit code {done.returncode}"
        raise NoPyodide(f"npm cannot fetch pyodide {VERSION}: {what}")


def _is_right(content: bytes) -> bool:
    return base64.b64encode(hashlib.sha512(content).digest()).decode() == INTEGRITY


def _package() -> bytes:
    return fetched().read_bytes()


def _unpacked(package: bytes) -> dict[str, bytes]:
    """The parts that are used. The list of Pyodide's own packages is emptied: nothing is loaded later."""
    found = {}
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        for name in _PARTS:
            member = archive.extractfile(f"package/{name}")
            assert member is not None
            found[name] = member.read()
    lock = json.loads(found[_LOCK])
    found[_LOCK] = json.dumps({**lock, "packages": {}}).encode()
    return found


def _deflated(content: bytes) -> bytes:
    # A higher level takes five times as long for two bytes in a hundred.
    return zlib.compress(content, level=6, wbits=-15)
