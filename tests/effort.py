"""How hard tests look: ``TIDELOG_EFFORT=20 make test`` searches and draws twenty times as long."""

import os

EFFORT = int(os.environ.get("TIDELOG_EFFORT", "1"))
