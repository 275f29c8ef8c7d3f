"""How Kafka names the folders and files of logs."""

from __future__ import annotations

import re
from typing import Final

PARTITION_FOLDER: Final = re.compile(r"(?P<topic>[a-zA-Z0-9._-]+)-(?P<partition>0|[1-9][0-9]{0,9})")
LEAVING_FOLDER: Final = re.compile(r".+-(?:delete|future|stray)")
"""Of a partition that was deleted, that moves here from another disk, or that the broker does not host."""
SEGMENT: Final = re.compile(r"\d{20}\.log")
