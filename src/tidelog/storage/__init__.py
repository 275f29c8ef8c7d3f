"""Where records are kept: implementations of the log port of ``tidelog.core.log_port``."""
