"""Asynchronous tests, on the loop that brokers use, and the keepers they are run against."""

import asyncio
import inspect
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import pytest
import uvloop
from tests.keeper.stages import EmbeddedStage, LocalStage, NetworkedStage, Stage, ZooKeeperStage

WITHIN_S = 100.0


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run ``async def`` tests, inside those of their arguments that are asynchronous contexts."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}

    async def run() -> None:
        async with AsyncExitStack() as contexts:
            for argument in arguments.values():
                if isinstance(argument, AbstractAsyncContextManager):
                    await contexts.enter_async_context(argument)
            async with asyncio.timeout(WITHIN_S):  # an alarm from outside does not get into uvloop
                await pyfuncitem.obj(**arguments)

    uvloop.run(run())
    return True


@pytest.fixture(params=["local", "embedded", "zookeeper"])
def stage(request: pytest.FixtureRequest) -> Stage:
    """Every kind of keeper."""
    return LocalStage() if request.param == "local" else _networked(request)


@pytest.fixture(params=["embedded", "zookeeper"])
def networked(request: pytest.FixtureRequest) -> NetworkedStage:
    """Those with a wire."""
    return _networked(request)


def _networked(request: pytest.FixtureRequest) -> NetworkedStage:
    if request.param == "embedded":
        return EmbeddedStage(request.getfixturevalue("tmp_path") / "keeper")
    return ZooKeeperStage(request.getfixturevalue("zookeeper").url())
