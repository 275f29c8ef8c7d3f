"""Tables of evidence as Parquet files. Only this package of evidence needs pyarrow."""
