"""``python -m tidelog.cli`` is ``tidelog``."""

import sys

from tidelog.cli import main

if __name__ == "__main__":
    sys.exit(main())
