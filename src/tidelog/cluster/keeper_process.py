"""``python -m tidelog.cluster.keeper_process HOST PORT FOLDER``: a keeper that ends with its trial.

It says ``serving`` once it does, or why it cannot, and ends at SIGTERM or when its standard input does.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from tidelog.keeper.embedded.data_dir import KeeperStorageError
from tidelog.keeper.embedded.server import EmbeddedKeeper


async def serve(host: str, port: int, folder: Path) -> int:
    loop = asyncio.get_running_loop()
    stopping = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, stopping.set)

    def heard() -> None:
        if not os.read(sys.stdin.fileno(), 4096):
            stopping.set()

    loop.add_reader(sys.stdin.fileno(), heard)
    keeper = EmbeddedKeeper(folder, host=host, port=port)
    try:
        await keeper.start()
    except (OSError, KeeperStorageError) as error:
        print(error, flush=True)
        return 1
    print("serving", flush=True)
    await stopping.wait()
    await keeper.stop()
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(serve(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))))
