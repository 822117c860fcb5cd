-- Functions over the metadata: the first argument is the id of the current database.
CREATE FUNCTION mssql.top(n bigint) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
BEGIN
  IF n IS NULL THEN
    RETURN mssql.raise(1060, 'The number of rows provided for a TOP or FETCH clauses row count parameter must be an integer.');
  END IF;
  IF n < 0 THEN RETURN mssql.raise(127, 'A TOP N or FETCH rowcount value may not be negative.'); END IF;
  RETURN n;
END $$;

CREATE FUNCTION mssql.fold(x text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE RETURN lower(rtrim(x, ' '));

CREATE FUNCTION mssql.object_id(db int, name text, kind text) RETURNS int LANGUAGE plpgsql STABLE AS $$
DECLARE parts text[] := mssql.parse_name(name); n int := cardinality(parts); result int;
BEGIN
  IF parts IS NULL OR n > 3 THEN RETURN NULL; END IF;
  IF n = 3 AND parts[1] <> '' THEN
    SELECT database_id INTO db FROM mssql.databases WHERE folded = mssql.fold(parts[1]);
  END IF;
  SELECT o.object_id INTO result FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)
  WHERE o.database_id = db AND o.folded = mssql.fold(parts[n])
    AND s.folded = mssql.fold(CASE WHEN n > 1 AND parts[n - 1] <> '' THEN parts[n - 1] ELSE 'dbo' END)
    AND (kind IS NULL OR o.type = upper(rtrim(kind)));
  IF result IS NULL AND kind IS NULL OR upper(kind) IN ('V', 'S') THEN
    SELECT v.object_id INTO result FROM mssql.system_views v
    WHERE n > 1 AND v.schema_folded = mssql.fold(parts[n - 1]) AND v.folded = mssql.fold(parts[n]) AND result IS NULL;
  END IF;
  RETURN result;
END $$;

CREATE FUNCTION mssql.object_name(db int, id int, other int) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF id < 0 THEN RETURN (SELECT v.folded FROM mssql.system_views v WHERE v.object_id = id); END IF;
  RETURN (SELECT o.name FROM mssql.objects o WHERE o.object_id = id AND o.database_id = COALESCE(other, db));
END $$;
CREATE FUNCTION mssql.object_schema_name(db int, id int, other int) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
  IF id < 0 THEN RETURN (SELECT CASE v.schema_folded WHEN 'sys' THEN 'sys' ELSE 'INFORMATION_SCHEMA' END FROM mssql.system_views v WHERE v.object_id = id); END IF;
  RETURN (SELECT s.name FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)
          WHERE o.object_id = id AND o.database_id = COALESCE(other, db));
END $$;
CREATE FUNCTION mssql.object_definition(db int, id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT definition FROM mssql.objects WHERE object_id = id AND database_id = db);
CREATE FUNCTION mssql.schema_id(db int, wanted text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT schema_id FROM mssql.schemas WHERE database_id = db AND folded = mssql.fold(COALESCE(wanted, 'dbo')));
CREATE FUNCTION mssql.schema_name(db int, id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT name FROM mssql.schemas WHERE database_id = db AND schema_id = COALESCE(id, 1));
CREATE FUNCTION mssql.db_id(db int, wanted text) RETURNS smallint LANGUAGE sql STABLE
  RETURN CASE WHEN wanted IS NULL THEN db ELSE (SELECT database_id FROM mssql.databases WHERE folded = mssql.fold(wanted)) END::smallint;
CREATE FUNCTION mssql.db_name(db int, id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT name FROM mssql.databases WHERE database_id = COALESCE(id, db));
CREATE FUNCTION mssql.type_name(db int, id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT name FROM mssql.types WHERE user_type_id = id);

-- Bytes of storage as sys.columns.max_length counts them.
CREATE FUNCTION mssql.max_length(kind text, length int, num_precision int, num_scale int) RETURNS smallint LANGUAGE sql IMMUTABLE
  RETURN CASE WHEN kind IN ('nvarchar', 'nchar') THEN CASE WHEN length = -1 THEN -1 ELSE length * 2 END
    WHEN kind IN ('varchar', 'char', 'varbinary', 'binary') THEN length
    WHEN kind IN ('decimal', 'numeric') THEN CASE WHEN num_precision < 10 THEN 5 WHEN num_precision < 20 THEN 9 WHEN num_precision < 29 THEN 13 ELSE 17 END
    WHEN kind IN ('time', 'datetime2', 'datetimeoffset') THEN
      CASE kind WHEN 'time' THEN 3 WHEN 'datetime2' THEN 6 ELSE 8 END + CASE WHEN num_scale < 3 THEN 0 WHEN num_scale < 5 THEN 1 ELSE 2 END
    ELSE (SELECT size FROM mssql.types WHERE name = kind) END::smallint;
CREATE FUNCTION mssql.precision_of(kind text, num_precision int, num_scale int) RETURNS smallint LANGUAGE sql STABLE
  RETURN CASE WHEN kind IN ('decimal', 'numeric') THEN num_precision
    WHEN kind IN ('time', 'datetime2', 'datetimeoffset') THEN
      CASE kind WHEN 'time' THEN 8 WHEN 'datetime2' THEN 19 ELSE 26 END + CASE WHEN num_scale > 0 THEN num_scale + 1 ELSE 0 END
    ELSE (SELECT t.num_precision FROM mssql.types t WHERE name = kind) END::smallint;
CREATE FUNCTION mssql.scale_of(kind text, num_scale int) RETURNS smallint LANGUAGE sql STABLE
  RETURN COALESCE(num_scale, (SELECT t.num_scale FROM mssql.types t WHERE name = kind))::smallint;

CREATE FUNCTION mssql.col_length(db int, tab text, col text) RETURNS smallint LANGUAGE sql STABLE
  RETURN (SELECT mssql.max_length(type_name, length, num_precision, num_scale) FROM mssql.columns
          WHERE object_id = mssql.object_id(db, tab, NULL) AND folded = mssql.fold((mssql.parse_name(col))[1]));

CREATE FUNCTION mssql.pg_table(id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT format('%I.%I', s.pg_name, o.pg_name) FROM mssql.objects o JOIN mssql.schemas s USING (database_id, schema_id)
          WHERE o.object_id = id AND o.type = 'U');

-- Number of rows of a table, or of a filtered index. It is counted; it is estimated if counting had to wait for a table lock.
CREATE FUNCTION mssql.row_count(id int, condition text = NULL) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
DECLARE result bigint; t text := mssql.pg_table(id);
BEGIN
  IF t IS NULL THEN RETURN 0; END IF;
  IF EXISTS (SELECT 1 FROM pg_locks l WHERE l.relation = to_regclass(t) AND l.mode = 'AccessExclusiveLock' AND l.granted AND l.pid <> pg_backend_pid()) THEN
    RETURN COALESCE((SELECT greatest(c.reltuples, 0)::bigint FROM pg_class c WHERE c.oid = to_regclass(t)), 0);
  END IF;
  EXECUTE 'SELECT count(*) FROM ' || t || COALESCE(' WHERE ' || condition, '') INTO result;
  RETURN result;
EXCEPTION WHEN undefined_table THEN RETURN 0;
END $$;
CREATE FUNCTION mssql.page_count(id int) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN COALESCE(pg_table_size(to_regclass(mssql.pg_table(id))) / 8192, 0);
END $$;

CREATE FUNCTION mssql.ident_last(id int) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE c record; seq text; result bigint;
BEGIN
  SELECT * INTO c FROM mssql.columns WHERE object_id = id AND identity = 1;
  IF NOT FOUND THEN RETURN NULL; END IF;
  seq := pg_get_serial_sequence(mssql.pg_table(id), c.pg_name);
  SELECT pg_sequence_last_value(seq::regclass) INTO result;
  RETURN result;
END $$;
-- A value given under IDENTITY_INSERT becomes the current identity value if it is beyond the current one.
CREATE FUNCTION mssql.identity_given(value bigint, seq text, increment bigint) RETURNS bigint LANGUAGE plpgsql STRICT AS $$
DECLARE beyond bool;
BEGIN
  EXECUTE format('SELECT CASE WHEN is_called THEN sign($1 - last_value::numeric) = sign($2) ELSE sign($1 - last_value::numeric) IN (0, sign($2)) END'
    ' FROM %s', seq::regclass) INTO beyond USING value, increment;
  IF beyond THEN PERFORM setval(seq::regclass, value); END IF;
  RETURN value;
END $$;
CREATE FUNCTION mssql.ident_current(db int, tab text) RETURNS numeric LANGUAGE sql STABLE
  RETURN (SELECT COALESCE(mssql.ident_last(object_id), seed) FROM mssql.columns WHERE object_id = mssql.object_id(db, tab, NULL) AND identity = 1);
