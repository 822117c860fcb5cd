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
CREATE FUNCTION mssql.col_name(db int, id int, number int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT name FROM mssql.columns WHERE object_id = id AND column_id = number);

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

-- Rows of a table (those of a filtered index): counted, since PostgreSQL only estimates; estimated where that had to wait for a table lock.
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

-- Triggers of a table by event and kind, enabled or not; NULL stands for any.
CREATE FUNCTION mssql.trigger_count(id int, event text, instead bool) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT count(*) FROM mssql.objects t WHERE t.parent_object_id = id AND t.type = 'TR'
          AND (event IS NULL OR t.extra->'declared' ? event) AND (instead IS NULL OR (t.extra ? 'instead') = instead));
CREATE FUNCTION mssql.first_trigger(id int, event text) RETURNS int LANGUAGE sql STABLE
  RETURN COALESCE((SELECT min(t.object_id) FROM mssql.objects t WHERE t.parent_object_id = id AND t.type = 'TR' AND t.extra->'declared' ? event), 0);

CREATE FUNCTION mssql.table_property(o mssql.objects, property text) RETURNS int LANGUAGE sql STABLE
  RETURN CASE property
    WHEN 'tablehasidentity' THEN (EXISTS (SELECT 1 FROM mssql.columns c WHERE c.object_id = o.object_id AND c.identity = 1))::int
    WHEN 'tablehasrowguidcol' THEN (EXISTS (SELECT 1 FROM mssql.columns c WHERE c.object_id = o.object_id AND c.rowguid = 1))::int
    WHEN 'tablehastextimage' THEN (EXISTS (SELECT 1 FROM mssql.columns c WHERE c.object_id = o.object_id AND c.type_name IN ('text', 'ntext', 'image')))::int
    WHEN 'tablehasclustindex' THEN (EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = o.object_id AND i.type = 1))::int
    WHEN 'tablehasnonclustindex' THEN (EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = o.object_id AND i.type = 2))::int
    WHEN 'tablehasindex' THEN (EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = o.object_id))::int
    WHEN 'tablehasprimarykey' THEN (EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = o.object_id AND i.is_primary_key = 1))::int
    WHEN 'tablehasuniquecnst' THEN (EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = o.object_id AND i.is_unique_constraint = 1))::int
    WHEN 'tablehasdefaultcnst' THEN (EXISTS (SELECT 1 FROM mssql.objects c WHERE c.parent_object_id = o.object_id AND c.type = 'D'))::int
    WHEN 'tablehascheckcnst' THEN (EXISTS (SELECT 1 FROM mssql.objects c WHERE c.parent_object_id = o.object_id AND c.type = 'C'))::int
    WHEN 'tablehasforeignkey' THEN (EXISTS (SELECT 1 FROM mssql.objects c WHERE c.parent_object_id = o.object_id AND c.type = 'F'))::int
    WHEN 'tablehasforeignref' THEN (EXISTS (SELECT 1 FROM mssql.objects c WHERE c.type = 'F' AND (c.extra->>'target')::int = o.object_id))::int
    WHEN 'tablehasinserttrigger' THEN (mssql.trigger_count(o.object_id, 'INSERT', NULL) > 0)::int
    WHEN 'tablehasupdatetrigger' THEN (mssql.trigger_count(o.object_id, 'UPDATE', NULL) > 0)::int
    WHEN 'tablehasdeletetrigger' THEN (mssql.trigger_count(o.object_id, 'DELETE', NULL) > 0)::int
    WHEN 'hasinserttrigger' THEN (mssql.trigger_count(o.object_id, 'INSERT', NULL) > 0)::int
    WHEN 'hasupdatetrigger' THEN (mssql.trigger_count(o.object_id, 'UPDATE', NULL) > 0)::int
    WHEN 'hasdeletetrigger' THEN (mssql.trigger_count(o.object_id, 'DELETE', NULL) > 0)::int
    WHEN 'hasaftertrigger' THEN (mssql.trigger_count(o.object_id, NULL, false) > 0)::int
    WHEN 'hasinsteadoftrigger' THEN (mssql.trigger_count(o.object_id, NULL, true) > 0)::int
    WHEN 'tableinserttriggercount' THEN mssql.trigger_count(o.object_id, 'INSERT', NULL)
    WHEN 'tableupdatetriggercount' THEN mssql.trigger_count(o.object_id, 'UPDATE', NULL)
    WHEN 'tabledeletetriggercount' THEN mssql.trigger_count(o.object_id, 'DELETE', NULL)
    WHEN 'tableinserttrigger' THEN mssql.first_trigger(o.object_id, 'INSERT')
    WHEN 'tableupdatetrigger' THEN mssql.first_trigger(o.object_id, 'UPDATE')
    WHEN 'tabledeletetrigger' THEN mssql.first_trigger(o.object_id, 'DELETE')
    WHEN 'tableismemoryoptimized' THEN 0 WHEN 'tabletemporaltype' THEN 0 WHEN 'tableisfake' THEN 0 WHEN 'tablehascolumnset' THEN 0
    WHEN 'tablehasvardecimalstorageformat' THEN 0 WHEN 'tableislockedonbulkload' THEN 0 WHEN 'tableispinned' THEN 0
    WHEN 'tabletextinrowlimit' THEN 0 WHEN 'tabletextinrow' THEN 0 WHEN 'tablehasactivefulltextindex' THEN 0
    WHEN 'tablehastimestamp' THEN 0 END;

CREATE FUNCTION mssql.objectproperty(db int, id int, property text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT CASE lower(rtrim(property))
    WHEN 'isusertable' THEN (o.type = 'U')::int WHEN 'istable' THEN (o.type = 'U')::int WHEN 'isview' THEN (o.type = 'V')::int
    WHEN 'issystemtable' THEN 0 WHEN 'isprocedure' THEN (o.type = 'P')::int WHEN 'istrigger' THEN (o.type = 'TR')::int WHEN 'ismsshipped' THEN 0
    WHEN 'isprimarykey' THEN (o.type = 'PK')::int WHEN 'isuniquecnst' THEN (o.type = 'UQ')::int WHEN 'isforeignkey' THEN (o.type = 'F')::int
    WHEN 'ischeckcnst' THEN (o.type = 'C')::int WHEN 'isdefault' THEN 0 WHEN 'isdefaultcnst' THEN (o.type = 'D')::int
    WHEN 'isconstraint' THEN (o.type IN ('PK', 'UQ', 'F', 'C', 'D'))::int WHEN 'isexecuted' THEN (o.type IN ('V', 'P', 'TR'))::int
    WHEN 'isscalarfunction' THEN 0 WHEN 'istablefunction' THEN 0 WHEN 'isinlinefunction' THEN 0 WHEN 'isextendedproc' THEN 0 WHEN 'isrule' THEN 0
    WHEN 'isqueue' THEN 0 WHEN 'isschemabound' THEN CASE WHEN o.type IN ('V', 'P', 'TR') THEN 0 END WHEN 'isencrypted' THEN CASE WHEN o.type IN ('V', 'P', 'TR') THEN 0 END
    WHEN 'isindexed' THEN CASE WHEN o.type IN ('U', 'V') THEN (EXISTS (SELECT 1 FROM mssql.indexes i WHERE i.object_id = o.object_id))::int END
    WHEN 'isindexable' THEN CASE WHEN o.type IN ('U', 'V') THEN (o.type = 'U')::int END
    WHEN 'issystemnamed' THEN o.system_named WHEN 'isansinullson' THEN 1 WHEN 'isquotedidenton' THEN 1 WHEN 'execisansinullson' THEN 1
    WHEN 'execisquotedidenton' THEN 1 WHEN 'ownerid' THEN 1 WHEN 'schemaid' THEN o.schema_id
    WHEN 'execistriggerdisabled' THEN CASE WHEN o.type = 'TR' THEN o.disabled END
    WHEN 'execisaftertrigger' THEN CASE WHEN o.type = 'TR' THEN (NOT o.extra ? 'instead')::int END
    WHEN 'execisinsteadoftrigger' THEN CASE WHEN o.type = 'TR' THEN (o.extra ? 'instead')::int END
    WHEN 'execisinserttrigger' THEN CASE WHEN o.type = 'TR' THEN (o.extra->'declared' ? 'INSERT')::int END
    WHEN 'execisupdatetrigger' THEN CASE WHEN o.type = 'TR' THEN (o.extra->'declared' ? 'UPDATE')::int END
    WHEN 'execisdeletetrigger' THEN CASE WHEN o.type = 'TR' THEN (o.extra->'declared' ? 'DELETE')::int END
    ELSE CASE WHEN o.type IN ('U', 'V') THEN mssql.table_property(o, lower(rtrim(property))) END END
  FROM mssql.objects o WHERE o.object_id = id AND o.database_id = db);
-- The additions of OBJECTPROPERTYEX; its type is sql_variant, here a text for BaseType only.
CREATE FUNCTION mssql.base_type(db int, id int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT rpad(o.type, 2) FROM mssql.objects o WHERE o.object_id = id AND o.database_id = db);
CREATE FUNCTION mssql.cardinality(db int, id int) RETURNS bigint LANGUAGE sql STABLE
  RETURN (SELECT mssql.row_count(id) FROM mssql.objects o WHERE o.object_id = id AND o.database_id = db AND o.type = 'U');

CREATE FUNCTION mssql.columnproperty(db int, id int, col text, property text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT CASE lower(rtrim(property))
    WHEN 'allowsnull' THEN nullable WHEN 'isidentity' THEN identity WHEN 'iscomputed' THEN (computed IS NOT NULL)::int
    WHEN 'columnid' THEN column_id WHEN 'ordinal' THEN column_id WHEN 'isrowguidcol' THEN rowguid
    WHEN 'precision' THEN CASE WHEN length IS NOT NULL THEN length ELSE mssql.precision_of(type_name, num_precision, num_scale) END
    WHEN 'scale' THEN CASE WHEN length IS NULL THEN mssql.scale_of(type_name, num_scale) END
    WHEN 'usesansitrim' THEN CASE WHEN type_name IN ('char', 'varchar', 'binary', 'varbinary') THEN 1 END
    WHEN 'isindexable' THEN (COALESCE(length, 0) <> -1 AND type_name NOT IN ('text', 'ntext', 'image', 'xml'))::int
    WHEN 'isdeterministic' THEN CASE WHEN computed IS NOT NULL THEN 1 END WHEN 'isprecise' THEN CASE WHEN computed IS NOT NULL THEN 1 END
    WHEN 'charmaxlen' THEN length WHEN 'ishidden' THEN 0 WHEN 'isidnotforrepl' THEN 0 WHEN 'issparse' THEN 0 WHEN 'generatedalwaystype' THEN 0
    WHEN 'isfulltextindexed' THEN 0 WHEN 'iscolumnset' THEN 0 WHEN 'isoutparam' THEN NULL WHEN 'fulltexttypecolumn' THEN 0 WHEN 'isxmlindexable' THEN (type_name = 'xml')::int
    WHEN 'systemdataaccess' THEN CASE WHEN computed IS NOT NULL THEN 0 END WHEN 'userdataaccess' THEN CASE WHEN computed IS NOT NULL THEN 0 END END
  FROM mssql.columns WHERE object_id = id AND folded = mssql.fold(col));

CREATE FUNCTION mssql.indexproperty(db int, id int, ix text, property text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT CASE lower(rtrim(property))
    WHEN 'indexid' THEN index_id WHEN 'isunique' THEN is_unique WHEN 'isclustered' THEN (type = 1)::int WHEN 'isdisabled' THEN disabled
    WHEN 'indexdepth' THEN CASE WHEN disabled = 0 THEN 1 END WHEN 'indexfillfactor' THEN fill_factor
    WHEN 'ispadindex' THEN COALESCE(options->>'PAD_INDEX' = 'ON', false)::int
    WHEN 'isrowlockdisallowed' THEN COALESCE(options->>'ALLOW_ROW_LOCKS' = 'OFF', false)::int
    WHEN 'ispagelockdisallowed' THEN COALESCE(options->>'ALLOW_PAGE_LOCKS' = 'OFF', false)::int
    WHEN 'isoptimizedforsequentialkey' THEN COALESCE(options->>'OPTIMIZE_FOR_SEQUENTIAL_KEY' = 'ON', false)::int
    WHEN 'isautostatistics' THEN 0 WHEN 'iscolumnstore' THEN 0 WHEN 'isfulltextkey' THEN 0 WHEN 'ishypothetical' THEN 0 WHEN 'isstatistics' THEN 0 END
  FROM mssql.indexes WHERE object_id = id AND folded = mssql.fold(ix));

CREATE FUNCTION mssql.indexkey_property(db int, id int, ix int, number int, property text) RETURNS int LANGUAGE sql STABLE
  RETURN (SELECT CASE lower(rtrim(property)) WHEN 'columnid' THEN k.column_id WHEN 'isdescending' THEN k.descending END
          FROM mssql.index_columns k WHERE k.object_id = id AND k.index_id = ix AND k.key_ordinal = number AND number > 0);


CREATE FUNCTION mssql.index_col(db int, tab text, ix int, number int) RETURNS text LANGUAGE sql STABLE
  RETURN (SELECT c.name FROM mssql.index_columns k JOIN mssql.columns c USING (object_id, column_id)
          WHERE k.object_id = mssql.object_id(db, tab, NULL) AND k.index_id = ix AND k.key_ordinal = number);

CREATE FUNCTION mssql.ident_last(id int) RETURNS numeric LANGUAGE plpgsql STABLE AS $$
DECLARE c record; seq text; result bigint;
BEGIN
  SELECT * INTO c FROM mssql.columns WHERE object_id = id AND identity = 1;
  IF NOT FOUND THEN RETURN NULL; END IF;
  seq := pg_get_serial_sequence(mssql.pg_table(id), c.pg_name);
  SELECT pg_sequence_last_value(seq::regclass) INTO result;
  RETURN result;
END $$;
-- A value given under IDENTITY_INSERT becomes the current identity value where it lies beyond that.
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
CREATE FUNCTION mssql.ident_seed(db int, tab text) RETURNS numeric LANGUAGE sql STABLE
  RETURN (SELECT seed FROM mssql.columns WHERE object_id = mssql.object_id(db, tab, NULL) AND identity = 1);
CREATE FUNCTION mssql.ident_incr(db int, tab text) RETURNS numeric LANGUAGE sql STABLE
  RETURN (SELECT increment FROM mssql.columns WHERE object_id = mssql.object_id(db, tab, NULL) AND identity = 1);
