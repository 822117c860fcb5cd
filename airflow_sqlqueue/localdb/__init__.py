"""A local stand-in for SQL Server: TDS in front, PostgreSQL behind."""
