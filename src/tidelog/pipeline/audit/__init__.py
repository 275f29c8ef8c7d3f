"""The audit: evidence in, findings with causes and a verdict out."""
