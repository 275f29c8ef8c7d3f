"""One Spark for all tests of the pipeline: starting it costs more than most of them."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.pipeline.spark.session import open_session

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Any of them may be the first, which waits for Spark to start, or wait for a job that judges for many of
    them: a busy machine takes a while."""
    for item in items:
        if item.path.is_relative_to(HERE) and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(1200))


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    # Compiling code for plans that see ten rows takes longer than doing without.
    plain = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
    session = open_session(master="local[2]", memory_mb=768, app="tests", quick=True, settings=plain)
    yield session
    session.stop()
