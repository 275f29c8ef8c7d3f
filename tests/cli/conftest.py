"""Scenario files of our own: the catalogue may change, these do not."""

from pathlib import Path

import pytest
from tests.cli.calling import CALM, LOSS


@pytest.fixture
def loss(tmp_path: Path) -> Path:
    path = tmp_path / "small-loss.scenario"
    path.write_text(LOSS, "utf-8")
    return path


@pytest.fixture
def calm(tmp_path: Path) -> Path:
    path = tmp_path / "calm.scenario"
    path.write_text(CALM, "utf-8")
    return path
