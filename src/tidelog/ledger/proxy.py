"""What proxies of producers and consumers share: the library of an object, passing on, closing."""

from __future__ import annotations

from enum import Enum
from typing import Any, Final, Self

KNOWN: Final = "confluent-kafka, kafka-python or aiokafka"


class Library(Enum):
    CONFLUENT = "confluent-kafka"
    KAFKA_PYTHON = "kafka-python"
    AIOKAFKA = "aiokafka"


def class_names(given: Any) -> list[str]:
    """Its classes, each with the package that it is of."""
    return [f"{cls.__module__.partition('.')[0]}.{cls.__name__}" for cls in type(given).__mro__]


class Proxy:
    """Everything of the wrapped object, and its class."""

    _wrapped: Any

    def __init__(self, real: Any) -> None:
        object.__setattr__(self, "_wrapped", real)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self._wrapped)


class Closing(Proxy):
    """One that is closed, and its record with it."""

    _recorder: Any

    def close(self, *args: Any, **more: Any) -> Any:
        found = self._wrapped.close(*args, **more)
        self._recorder.close()
        return found

    def __enter__(self) -> Self:
        self._wrapped.__enter__()
        return self

    def __exit__(self, *error: Any) -> Any:
        found = self._wrapped.__exit__(*error)
        self._recorder.close()
        return found


class ClosingLater(Proxy):
    """The same for asyncio."""

    _recorder: Any

    async def stop(self) -> Any:
        found = await self._wrapped.stop()
        self._recorder.close()
        return found

    async def __aenter__(self) -> Self:
        await self._wrapped.__aenter__()
        return self

    async def __aexit__(self, *error: Any) -> Any:
        found = await self._wrapped.__aexit__(*error)
        self._recorder.close()
        return found
