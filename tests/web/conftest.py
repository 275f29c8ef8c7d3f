"""One server for all tests of the page that a process runs."""

from collections.abc import Iterator
from typing import Any

import pytest
from tests.web.browsing import Opened, lab_server


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where ``tidelog lab`` serves the page."""
    with lab_server() as url:
        yield url


@pytest.fixture
def opened(browser: Any, address: str) -> Iterator[Opened]:
    page = Opened(browser, address)
    yield page
    page.close()
