"""An embedded keeper in a process of its own, to be killed: prints its port and serves until its end."""

import asyncio
import sys
from pathlib import Path

import uvloop

from tidelog.keeper.embedded.server import EmbeddedKeeper


async def main(data_dir: str) -> None:
    keeper = EmbeddedKeeper(Path(data_dir), snapshot_after_bytes=20_000)
    await keeper.start()
    print(keeper.port, flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    uvloop.run(main(sys.argv[1]))
