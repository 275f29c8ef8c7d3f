"""``tidelog keeper``: the embedded keeper alone, for brokers started by ``tidelog broker``."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from tidelog.cli.errors import ExitCode
from tidelog.cli.options import value
from tidelog.cli.paths import absolute
from tidelog.errors import Refusal, reason


def keeper(
    listen: Annotated[
        str, value("H:P", "Address to listen on; port 0 picks a free port.")
    ] = "127.0.0.1:2180",
    data_dir: Annotated[
        Path | None,
        value("D", "Data directory.", "--data-dir", default="in memory only", callback=absolute),
    ] = None,
) -> int:
    """Run the embedded keeper without brokers, until Ctrl-C.

    It is the coordination service that tidelog up starts. It is a single process, and so a single point of
    failure. Use ZooKeeper to avoid that.

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
        raise Refusal(f"{error}: stop that process, or choose another port with --listen") from None
    except OSError as error:
        why = reason(error)
        raise Refusal(f"the keeper cannot start on {host}:{port}: {why}") from None
    write_text(f"serving embedded://{Endpoint(host or '127.0.0.1', served.port)}\n")
    failed = asyncio.ensure_future(served.wait())
    stopped = asyncio.ensure_future(stopping.wait())
    await asyncio.wait((failed, stopped), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    await served.stop()
    await failed
