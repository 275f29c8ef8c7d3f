"""The version, apart from the package itself, which imports what it offers."""

__version__ = "0.1.0"
