"""The packages of the round trips. What is known of them is known of these versions."""

PACKAGES = ("duckdb==2.0.1", "pyarrow==26.0.1", "polars==2.1.0", "fastavro==1.13.1", "tzdata==2026.6")
