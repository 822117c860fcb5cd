"""T-SQL engine on PostgreSQL: parser, compiler, catalog, definitions, procedures and sessions."""
