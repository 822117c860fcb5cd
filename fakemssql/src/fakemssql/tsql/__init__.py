"""T-SQL on PostgreSQL: control flow, translation, and what SQL Server keeps in its system views."""
