"""How a broker's process logs: `HH:MM:SS.mmm LEVEL message` on stderr, one line for each event.

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
    """For the whole process; `level` is one of the setting `tidelog.log.level`."""
    logging.basicConfig(level=level.upper(), format=FORMAT, datefmt="%H:%M:%S", stream=sys.stderr, force=True)
    # Kazoo warns about every lost connection; the keeper's own lines say what matters about them.
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
