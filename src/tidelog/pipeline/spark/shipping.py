"""tidelog for Spark's workers: the package of this process goes to a cluster with the job.

It is what `spark-submit --py-files` does. So a cluster needs no tidelog, and one that has another version
judges with this one. The packages that kernels import besides (numpy, pandas, pyarrow, crc32c, cramjam) are
compiled, and must be there.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipfile
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import tidelog
from tidelog.pipeline.errors import PipelineError, first_line

_LEFT_OUT: Final = ("web", "cli")
"""Packages that no worker imports."""


def ship(spark: Any) -> None:
    """Raises `PipelineError`."""
    try:
        if hasattr(spark, "_jsparkSession"):
            spark.sparkContext.addPyFile(_archive())
        else:
            spark.addArtifacts(_archive(), pyfile=True)
    except Exception as error:  # Spark's errors share no class: Java's, py4j's, gRPC's and its own
        raise PipelineError(f"Spark does not take tidelog for its workers: {first_line(error)}") from None


@lru_cache(maxsize=1)
def _archive() -> str:
    """Modules and the files beside them. It stays as long as this process, since workers fetch it late."""
    package, folder = Path(tidelog.__file__).parent, Path(tempfile.mkdtemp(prefix="tidelog-ship-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = folder / "tidelog.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        for file in sorted(package.rglob("*")):
            name = file.relative_to(package)
            if file.is_file() and name.parts[0] not in _LEFT_OUT and file.suffix != ".pyc":
                archive.write(file, Path("tidelog") / name)
    return str(path)
