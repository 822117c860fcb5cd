-- headers: make Headers nvarchar
-- Without COLLATE the column gets the collation of the database. Its old collation does not matter, because no
-- statement of endpoints or of this package compares headers. ONLINE has no effect on a system-versioned table.
ALTER TABLE {table} ALTER COLUMN [Headers] nvarchar(max) NOT NULL{options};

-- rebuild_index: rebuild the index
ALTER INDEX {index} ON {table} REBUILD{options};

-- reorganize_index: reorganize the index
ALTER INDEX {index} ON {table} REORGANIZE;

-- filter_index: filter the index on Expires
CREATE NONCLUSTERED INDEX {index} ON {table} ([Expires] ASC)
INCLUDE ([Id], [RowVersion]) WHERE [Expires] IS NOT NULL{options};

-- rebuild: rebuild the table
ALTER TABLE {table} REBUILD{options};

-- lock_escalation: disable lock escalation
ALTER TABLE {table} SET (LOCK_ESCALATION = DISABLE);

-- trigger: disable the trigger
ALTER TABLE {table} DISABLE TRIGGER {trigger};

-- legacy_columns: add the legacy columns
ALTER TABLE {table} ADD {columns};

-- system_versioning: end system versioning
ALTER TABLE {table} SET (SYSTEM_VERSIONING = OFF);
