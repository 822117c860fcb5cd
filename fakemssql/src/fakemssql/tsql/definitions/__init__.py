"""CREATE, ALTER and DROP: PostgreSQL's objects, and the metadata rows of what SQL Server shows."""
