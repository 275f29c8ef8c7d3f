"""What all tests share: reproducible properties, and the switch that rewrites golden transcripts."""

import pytest
from hypothesis import settings

# No deadline: a loaded machine is slow, not wrong. Derandomized: a red build is red for everybody.
settings.register_profile("tidelog", deadline=None, derandomize=True)
settings.load_profile("tidelog")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write the golden transcripts anew; commit the diff only if you understand it",
    )


@pytest.fixture
def rewrite(pytestconfig: pytest.Config) -> bool:
    return bool(pytestconfig.getoption("--rewrite"))
