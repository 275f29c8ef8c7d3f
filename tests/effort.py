"""How hard tests look: ``pytest --effort 4`` searches and draws four times as long (``make test-all``)."""

_times = 1


def set_effort(times: int) -> None:
    """Once, before test modules are imported: some ask while they are."""
    global _times  # noqa: PLW0603
    _times = times


def tries(usual: int) -> int:
    """How many: the usual number, times the effort."""
    return usual * _times
