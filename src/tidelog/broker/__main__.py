"""``python -m tidelog.broker FILE.properties [--override NAME=VALUE …]``: run one broker.

The command of a broker process in a cluster. It imports no command-line library, so that a broker starts in a
fraction of a second. On a terminal use ``tidelog broker``.
"""

from __future__ import annotations

import logging
import sys
from pathlib import Path

from tidelog.broker import logs
from tidelog.settings.loading import load
from tidelog.settings.table import SettingsError

USAGE = "usage: python -m tidelog.broker FILE.properties [--override NAME=VALUE …]"


def main(arguments: list[str]) -> int:
    files = [argument for argument in arguments if not argument.startswith("--")]
    overrides = arguments[1:]
    if not files or arguments[0] != files[0] or len(overrides) % 2 or set(overrides[::2]) - {"--override"}:
        print(USAGE, file=sys.stderr)
        return 2
    try:
        loaded = load(Path(files[0]), overrides[1::2], option="--override")
    except (SettingsError, OSError) as error:
        print(f"tidelog broker: {error}", file=sys.stderr)
        return 2
    logs.configure(loaded.settings.tidelog_log_level)
    for remark in loaded.remarks:
        logging.getLogger("tidelog").warning("%s", remark.text)
    from tidelog.broker.process import run

    return run(loaded.settings)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
