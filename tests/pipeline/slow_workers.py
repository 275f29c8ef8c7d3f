"""What Spark says where a Python worker did not start in time."""

from typing import Final

TOO_SLOW: Final = RuntimeError(
    "Job aborted due to stage failure: Task 0 in stage 1.0 failed 1 times: Lost task 0.0\n"
    "org.apache.spark.SparkException: Python worker failed to connect back.\n"
    "\tat org.apache.spark.api.python.PythonWorkerFactory.createSimpleWorker(PythonWorkerFactory.scala:294)"
)
