"""``python -m tidelog.broker.supervised FILE.properties``: a broker that does not outlive who started it.

Its standard input is a pipe that nothing is ever written to. When that ends, the process at the other end is
gone, however it went, and with it the cluster's keeper: the broker shuts down too. Otherwise it is exactly
``python -m tidelog.broker``.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
import time

from tidelog.broker.__main__ import main

_PATIENCE_SECONDS = 10.0


def follow_supervisor() -> None:
    """Shut down in order when standard input ends; and at once if that takes too long."""
    while os.read(0, 4096):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(_PATIENCE_SECONDS)
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    threading.Thread(target=follow_supervisor, name="supervisor", daemon=True).start()
    sys.exit(main(sys.argv[1:]))
