"""The log format of a broker process: `HH:MM:SS.mmm LEVEL message` on stderr, one line per event.

`tidelog up` reads these lines and shows them side by side, so the format is an interface: `LINE` reads it.
"""

from __future__ import annotations

import logging
import re
import sys
from typing import Final

FORMAT: Final = "%(asctime)s.%(msecs)03d %(levelname)s %(message)s"
LINE: Final = re.compile(r"(?P<time>\d\d:\d\d:\d\d\.\d{3}) (?P<level>[A-Z]+) (?P<message>.*)")


def configure(level: str = "info") -> None:
    """Configure logging of the process; `level` is a value of `tidelog.log.level`."""
    logging.basicConfig(level=level.upper(), format=FORMAT, datefmt="%H:%M:%S", stream=sys.stderr, force=True)
    # Kazoo warns about every lost connection; the keeper client logs what matters.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
