"""The part of tidelog that runs in a browser, as a zip that Python imports from.

Which modules those are is read from their import statements, beginning with the module that answers the page.
Imports inside of functions do not count: what runs in a browser has none. An import contract holds that these
modules need the standard library only.
"""

from __future__ import annotations

import ast
import io
import zipfile
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable

ENTRY = "tidelog.web.play.questions"
_DATED = (1980, 1, 1, 0, 0, 0)
"""The same modules make the same zip, whenever it is made."""


def bundle() -> bytes:
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name, data in sorted(_members()):
            made.writestr(zipfile.ZipInfo(name, _DATED), data, zipfile.ZIP_DEFLATED)
    return content.getvalue()


def _members() -> Iterator[tuple[str, bytes]]:
    """Each module, and what its package has beside its modules: scenarios, words."""
    packages: set[str] = set()
    for module in modules():
        path = _path(module)
        yield path, _file(path).read_bytes()
        if path.endswith("/__init__.py"):
            packages.add(path.removesuffix("/__init__.py"))
    for package in packages:
        for entry in _file(package).iterdir():
            if entry.is_file() and not entry.name.endswith((".py", ".pyc")):
                yield f"{package}/{entry.name}", entry.read_bytes()


def modules() -> set[str]:
    """Every module that the entry imports, directly or not."""
    found: set[str] = set()
    left = [ENTRY]
    while left:
        module = left.pop()
        if module in found or not _exists(module):
            continue
        found.add(module)
        package, _, _ = module.rpartition(".")
        left += [package] if package else []
        left += _imported(_file(_path(module)).read_text("utf-8"))
    return found


def _imported(source: str) -> Iterator[str]:
    """What may be a module of ours: of ``from a import b`` both ``a`` and ``a.b``."""
    for node in ast.parse(source).body:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        else:
            continue
        yield from (name for name in names if name.partition(".")[0] == "tidelog")


def _file(path: str) -> Traversable:
    found: Traversable = files("tidelog")
    for name in path.split("/")[1:]:
        found = found / name
    return found


def _path(module: str) -> str:
    base = module.replace(".", "/")
    return f"{base}/__init__.py" if _file(f"{base}/__init__.py").is_file() else f"{base}.py"


def _exists(module: str) -> bool:
    return _file(_path(module)).is_file()
