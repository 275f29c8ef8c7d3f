"""``tidelog keeper``: the embedded keeper alone, for brokers that somebody else starts."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tidelog.cli.errors import ExitCode, Refusal
from tidelog.cli.paths import absolute


def keeper(
    listen: Annotated[
        str, typer.Option(metavar="H:P", help="Where it listens; port 0: any.")
    ] = "127.0.0.1:2180",
    data_dir: Annotated[
        Path | None,
        typer.Option(
            "--data-dir",
            metavar="D",
            callback=absolute,
            help="Its log.",
            show_default="none, it forgets all at the end",
        ),
    ] = None,
) -> int:
    """Run the embedded keeper alone, until Ctrl-C.

    It is the one that tidelog up brings along. Its one process is a single point of failure: clusters that
    must not have one use ZooKeeper.

    Example: tidelog keeper --listen 10.0.0.1:2180 --data-dir ./keeper
    """
    import asyncio

    from tidelog.broker import logs
    from tidelog.settings.kinds import parse_endpoint

    try:
        host, port = parse_endpoint(listen)
    except ValueError as error:
        raise Refusal(f"--listen {listen}: {error}") from None
    logs.configure()
    asyncio.run(_serve(host, port, data_dir))
    return ExitCode.HELD


async def _serve(host: str, port: int, data_dir: Path | None) -> None:
    import asyncio
    import signal

    from tidelog.cli.show.output import write_text
    from tidelog.cluster.ports import PortTaken, require_free
    from tidelog.keeper.embedded.data_dir import KeeperStorageError
    from tidelog.keeper.embedded.server import EmbeddedKeeper
    from tidelog.settings.kinds import Endpoint

    stopping = asyncio.Event()
    for signum in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(signum, stopping.set)
    served = EmbeddedKeeper(data_dir, host=host, port=port)
    try:
        require_free(host, [port])
        await served.start()
    except PortTaken as error:
        raise Refusal(f"{error}: stop that, or choose another port with --listen") from None
    except OSError as error:
        why = (error.strerror or str(error)).lower()
        raise Refusal(f"the keeper cannot start on {host}:{port}: {why}") from None
    except KeeperStorageError as error:
        raise Refusal(str(error)) from None
    write_text(f"serving embedded://{Endpoint(host or '127.0.0.1', served.port)}\n")
    failed = asyncio.ensure_future(served.wait())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((failed, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    await served.stop()
    await failed
