"""Which columns a reader of a source wants: by names that the source has, with the types that it has."""

from __future__ import annotations

from pyspark.sql.types import StructType

from tidelog.pipeline.errors import PipelineError
from tidelog.pipeline.segments.columns import BY_NAME


def chosen_columns(schema: StructType, source: str, known: tuple[str, ...] = tuple(BY_NAME)) -> list[str]:
    """The names of the schema's columns, in its order; `PipelineError` for one that cannot be given."""
    for field in schema.fields:
        if field.name not in known:
            raise PipelineError(f"{source} has no column {field.name}; it has {', '.join(known)}")
        own, asked = BY_NAME[field.name].spark, field.dataType.simpleString()
        if asked != own:
            raise PipelineError(f"the column {field.name} of {source} is {own}, not {asked}")
    return list(schema.names)
