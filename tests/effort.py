"""How hard tests look: ``TIDELOG_EFFORT=20 make test`` searches and draws twenty times as long, and from 2 on
also runs what takes longer than it mostly tells."""

import os

import pytest

EFFORT = int(os.environ.get("TIDELOG_EFFORT", "1"))
takes_long = pytest.mark.skipif(EFFORT < 2, reason="takes long: set TIDELOG_EFFORT=2")
