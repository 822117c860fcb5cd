-- Metadata tables: facts of SQL Server objects that PostgreSQL does not store. The transaction of the DDL writes them.
CREATE DOMAIN mssql.sysname AS text;
CREATE DOMAIN mssql.bit AS smallint;
CREATE DOMAIN mssql.tinyint AS smallint;
CREATE DOMAIN mssql.char2 AS text;
CREATE DOMAIN mssql.nmax AS text;
CREATE DOMAIN mssql.n60 AS text;
CREATE DOMAIN mssql.n260 AS text;
CREATE DOMAIN mssql.datetime AS timestamp;

CREATE TABLE mssql.databases (
  database_id int PRIMARY KEY, name text NOT NULL, folded text NOT NULL UNIQUE, created timestamp NOT NULL DEFAULT mssql.utcnow_dt(),
  read_committed_snapshot smallint NOT NULL DEFAULT 0, snapshot_isolation smallint NOT NULL DEFAULT 0,
  delayed_durability smallint NOT NULL DEFAULT 0);

CREATE TABLE mssql.schemas (
  database_id int NOT NULL REFERENCES mssql.databases ON DELETE CASCADE, schema_id int NOT NULL, name text NOT NULL,
  folded text NOT NULL, pg_name text NOT NULL, principal_id int NOT NULL DEFAULT 1, PRIMARY KEY (database_id, schema_id),
  UNIQUE (database_id, folded));

CREATE SEQUENCE mssql.object_ids START 901578250 INCREMENT 16;
CREATE SEQUENCE mssql.database_ids START 5;

CREATE TABLE mssql.objects (
  object_id int PRIMARY KEY DEFAULT nextval('mssql.object_ids'), database_id int NOT NULL, schema_id int NOT NULL,
  name text NOT NULL, folded text NOT NULL, type text NOT NULL, parent_object_id int NOT NULL DEFAULT 0,
  created timestamp NOT NULL DEFAULT mssql.utcnow_dt(), modified timestamp NOT NULL DEFAULT mssql.utcnow_dt(),
  pg_name text, definition text, system_named smallint NOT NULL DEFAULT 0, disabled smallint NOT NULL DEFAULT 0,
  extra jsonb NOT NULL DEFAULT '{}',
  CONSTRAINT objects_name UNIQUE (database_id, schema_id, folded));
CREATE INDEX ON mssql.objects (parent_object_id);
CREATE INDEX ON mssql.objects ((extra->>'target')) WHERE type = 'F';

CREATE TABLE mssql.columns (
  object_id int NOT NULL REFERENCES mssql.objects ON DELETE CASCADE, column_id int NOT NULL, name text NOT NULL,
  folded text NOT NULL, pg_name text NOT NULL, type_name text NOT NULL, length int, num_precision int, num_scale int,
  nullable smallint NOT NULL, identity smallint NOT NULL DEFAULT 0, seed bigint, increment bigint,
  computed text, persisted smallint NOT NULL DEFAULT 0, collation_name text, default_object_id int NOT NULL DEFAULT 0,
  rowguid smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (object_id, column_id), CONSTRAINT columns_name UNIQUE (object_id, folded));

CREATE TABLE mssql.indexes (
  object_id int NOT NULL REFERENCES mssql.objects ON DELETE CASCADE, index_id int NOT NULL, name text, folded text,
  type int NOT NULL, is_unique smallint NOT NULL DEFAULT 0, is_primary_key smallint NOT NULL DEFAULT 0,
  is_unique_constraint smallint NOT NULL DEFAULT 0, filter text, disabled smallint NOT NULL DEFAULT 0,
  pg_name text, fill_factor int NOT NULL DEFAULT 0, options jsonb NOT NULL DEFAULT '{}',
  PRIMARY KEY (object_id, index_id), CONSTRAINT indexes_name UNIQUE (object_id, folded));

CREATE TABLE mssql.index_columns (
  object_id int NOT NULL, index_id int NOT NULL, index_column_id int NOT NULL, column_id int NOT NULL,
  key_ordinal int NOT NULL, descending smallint NOT NULL DEFAULT 0, included smallint NOT NULL DEFAULT 0,
  PRIMARY KEY (object_id, index_id, index_column_id),
  FOREIGN KEY (object_id, index_id) REFERENCES mssql.indexes ON DELETE CASCADE);

CREATE TABLE mssql.types (name text PRIMARY KEY, type_id int NOT NULL, user_type_id int NOT NULL, size int NOT NULL,
  num_precision int NOT NULL, num_scale int NOT NULL);
INSERT INTO mssql.types VALUES
  ('image', 34, 34, 16, 0, 0), ('text', 35, 35, 16, 0, 0), ('uniqueidentifier', 36, 36, 16, 0, 0), ('date', 40, 40, 3, 10, 0),
  ('time', 41, 41, 5, 16, 7), ('datetime2', 42, 42, 8, 27, 7), ('datetimeoffset', 43, 43, 10, 34, 7), ('tinyint', 48, 48, 1, 3, 0),
  ('smallint', 52, 52, 2, 5, 0), ('int', 56, 56, 4, 10, 0), ('smalldatetime', 58, 58, 4, 16, 0), ('real', 59, 59, 4, 24, 0),
  ('money', 60, 60, 8, 19, 4), ('datetime', 61, 61, 8, 23, 3), ('float', 62, 62, 8, 53, 0), ('sql_variant', 98, 98, 8016, 0, 0),
  ('ntext', 99, 99, 16, 0, 0), ('bit', 104, 104, 1, 1, 0), ('decimal', 106, 106, 17, 38, 38), ('numeric', 108, 108, 17, 38, 38),
  ('smallmoney', 122, 122, 4, 10, 4), ('bigint', 127, 127, 8, 19, 0), ('varbinary', 165, 165, 8000, 0, 0),
  ('varchar', 167, 167, 8000, 0, 0), ('binary', 173, 173, 8000, 0, 0), ('char', 175, 175, 8000, 0, 0),
  ('nvarchar', 231, 231, 8000, 0, 0), ('nchar', 239, 239, 8000, 0, 0), ('xml', 241, 241, -1, 0, 0),
  ('sysname', 231, 256, 256, 0, 0);
