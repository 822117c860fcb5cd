"""The settings of the embedded PostgreSQL."""

from __future__ import annotations

from collections.abc import Mapping

SETTINGS: Mapping[str, str] = {
    "listen_addresses": "''",
    "max_connections": "200",
    "shared_buffers": "'128MB'",
    # Survives the death of processes, not of the machine: this server is for trying and testing.
    "fsync": "off",
    "full_page_writes": "off",
    "synchronous_commit": "on",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "max_wal_size": "'2GB'",
    "deadlock_timeout": "'200ms'",
    "client_connection_check_interval": "'500ms'",
    # Queue tables are all inserts and deletes.
    "autovacuum_naptime": "'1s'",
    "autovacuum_vacuum_threshold": "200",
    "autovacuum_vacuum_scale_factor": "0.05",
    "autovacuum_analyze_threshold": "200",
    "autovacuum_analyze_scale_factor": "0.05",
    "autovacuum_vacuum_cost_delay": "0",
    # Giving pages back locks the whole table for a moment, which whoever does not wait for locks would meet.
    "vacuum_truncate": "off",
    "jit": "off",
    "logging_collector": "off",
    "log_destination": "'stderr'",
    # An ERROR's text can quote data; statements and parameters do so always.
    "log_min_messages": "log",
    "log_min_error_statement": "panic",
    "log_checkpoints": "off",
    "log_autovacuum_min_duration": "-1",
    "log_parameter_max_length": "0",
    "timezone": "'UTC'",
    "datestyle": "'ISO, MDY'",
    "client_min_messages": "'error'",
    "lc_messages": "'C'",
    "dynamic_shared_memory_type": "mmap",
}
