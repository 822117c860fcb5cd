-- Dates and times. datetime counts 1/300 s and shows them in whole milliseconds (.000, .003, .007).
CREATE FUNCTION mssql.dt(x timestamp) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE us bigint; ticks bigint;
BEGIN
  us := (extract(epoch FROM x) * 1000000)::bigint;
  ticks := div((us::numeric * 3 + 5000) - mod(mod((us::numeric * 3 + 5000), 10000) + 10000, 10000), 10000)::bigint;
  us := ticks / 300 - CASE WHEN ticks % 300 < 0 THEN 1 ELSE 0 END;
  ticks := ticks - us * 300;
  x := 'epoch'::timestamp + make_interval(days => (us / 86400)::int, secs => us % 86400)
       + ((ticks * 10 + 1) / 3) * interval '1 millisecond';
  IF x < '1753-01-01' OR x >= '10000-01-01' THEN
    RETURN mssql.raise(242, 'The conversion to a datetime data type resulted in an out-of-range value.');
  END IF;
  RETURN x;
END $$;

CREATE FUNCTION mssql.sdt(x timestamp) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE r timestamp := date_trunc('minute', x + interval '30.001 seconds');
BEGIN
  IF r BETWEEN '1900-01-01' AND '2079-06-06 23:59' THEN RETURN r; END IF;
  RETURN mssql.raise(242, 'The conversion to a smalldatetime data type resulted in an out-of-range value.');
END $$;

-- Rounded to fraction digits, half of the last one up (timestamp(n) rounds some down before 2000). The last moment
-- of the year 9999 stays in it: SQL Server keeps 100 ns, and there is nothing later.
CREATE FUNCTION mssql.rounded(x timestamp, digits int) RETURNS timestamp LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN x IS NULL THEN NULL -- LEAST leaves NULL out
    WHEN digits = 6 THEN LEAST(x, '9999-12-31 23:59:59.999999')
    WHEN x >= '9999-12-31 23:59:59' THEN LEAST(date_trunc('second', x)
      + interval '1 second' * round(extract(second FROM x) - floor(extract(second FROM x)), digits),
      timestamp '9999-12-31 23:59:59' + interval '1 second' * (1 - power(10::numeric, -digits))::float8)
    ELSE date_trunc('second', x) + interval '1 microsecond'
      * (round((extract(microseconds FROM x)::bigint % 1000000)::numeric / 1000000, digits) * 1000000)::float8 END;

CREATE FUNCTION mssql.utcnow() RETURNS timestamp LANGUAGE sql STABLE PARALLEL SAFE
  RETURN statement_timestamp() AT TIME ZONE 'UTC';

CREATE FUNCTION mssql.utcnow_dt() RETURNS timestamp LANGUAGE plpgsql STABLE PARALLEL SAFE AS $$
BEGIN
  RETURN mssql.dt(statement_timestamp() AT TIME ZONE 'UTC');
END $$;

-- Two digits of a year up to 49 are of this century ("two digit year cutoff", default 2049).
CREATE FUNCTION mssql.full_year(digits text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN length(digits) > 2 THEN digits::int ELSE digits::int + CASE WHEN digits::int < 50 THEN 2000 ELSE 1900 END END;

-- The day of a text in the order of year, month and day (mdy, dmy, ymd); NULL if it has none.
CREATE FUNCTION mssql.day(x text, ordered text) RETURNS date LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE m text[]; names text[] := '{jan,feb,mar,apr,may,jun,jul,aug,sep,oct,nov,dec}'; month int; rest text[];
BEGIN
  IF x = '' THEN RETURN '1900-01-01'; END IF;
  IF x ~ '^\d{8}$' THEN RETURN make_date(left(x, 4)::int, substr(x, 5, 2)::int, right(x, 2)::int); END IF;
  IF x ~ '^\d{6}$' THEN RETURN make_date(mssql.full_year(left(x, 2)), substr(x, 3, 2)::int, right(x, 2)::int); END IF;
  IF x ~ '^\d{4}$' THEN RETURN make_date(x::int, 1, 1); END IF;
  m := regexp_match(x, '^(\d{4})[/.-](\d{1,2})[/.-](\d{1,2})$');
  IF m IS NOT NULL THEN RETURN make_date(m[1]::int, m[2]::int, m[3]::int); END IF;
  m := regexp_match(x, '^(\d{1,2})[/.-](\d{1,2})[/.-](\d{1,2}|\d{4})$');
  IF m IS NOT NULL THEN
    RETURN CASE ordered WHEN 'mdy' THEN make_date(mssql.full_year(m[3]), m[1]::int, m[2]::int)
      WHEN 'dmy' THEN make_date(mssql.full_year(m[3]), m[2]::int, m[1]::int)
      ELSE make_date(mssql.full_year(m[1]), m[2]::int, m[3]::int) END;
  END IF;
  m := regexp_match(x, '^([\d ,-]*)(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*([\d ,-]*)$', 'i');
  IF m IS NULL THEN RETURN NULL; END IF;
  month := array_position(names, lower(m[2]));
  rest := (SELECT array_agg(d[1]) FROM regexp_matches(m[1] || ' ' || m[3], '\d+', 'g') AS d);
  IF cardinality(rest) = 1 AND length(rest[1]) = 4 THEN RETURN make_date(rest[1]::int, month, 1); END IF;
  IF cardinality(rest) <> 2 OR rest IS NULL THEN RETURN NULL; END IF;
  IF length(rest[1]) = 4 THEN rest := ARRAY[rest[2], rest[1]]; END IF;
  IF length(rest[1]) > 2 OR length(rest[2]) NOT IN (1, 2, 4) THEN RETURN NULL; END IF;
  RETURN make_date(mssql.full_year(rest[2]), month, rest[1]::int);
END $$;

-- The order of year, month and day in a style of CONVERT.
CREATE FUNCTION mssql.day_order(style int, target text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN style IN (0, 1, 7, 8, 10, 24, 100, 101, 107, 108, 110) THEN 'mdy'
    WHEN style IN (3, 4, 5, 6, 103, 104, 105, 106) THEN 'dmy'
    WHEN style IN (2, 11, 12, 20, 21, 23, 25, 102, 111, 112, 120, 121, 126, 127) THEN 'ymd'
    WHEN style IN (9, 13, 14, 22, 109, 113, 114, 130, 131)
      THEN mssql.raise(40517, 'Style ' || style || ' of CONVERT from a text to ' || target || ' is not supported by fakemssql.')
    ELSE mssql.raise(9809, 'The style ' || style || ' is not supported for conversions from varchar to ' || target || '.') END;

CREATE FUNCTION mssql.str_ts(x text, target text, style int) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE t text := btrim(x); found date; clock text; m text[]; old bool := target IN ('datetime', 'smalldatetime'); ordered text;
BEGIN
  ordered := mssql.day_order(style, target);
  IF t = '' THEN RETURN '1900-01-01'; END IF;
  m := regexp_match(t, '^(.*?)(?:[T ]?\s*(\d{1,2}:\d{1,2}(?::\d{1,2}(?:[.:]\d{1,9})?)?\s*(?:[AaPp][Mm])?|\d{1,2}\s*[AaPp][Mm]))?\s*(Z|[+-]\d\d?:\d\d)?$');
  clock := COALESCE(m[2], '00:00:00');
  found := mssql.day(btrim(COALESCE(m[1], '')), ordered);
  -- Into datetime and smalldatetime go three digits of a fraction, and ISO 8601 only with two digits for month and day.
  IF m IS NULL OR found IS NULL OR (old AND ((m[3] IS NOT NULL AND m[3] <> 'Z') OR clock ~ '[.]\d{4}'
      OR (t ~ '\dT\d' AND t !~ '^\d{4}-\d\d-\d\dT\d\d:'))) THEN
    RETURN mssql.raise(241, 'Conversion failed when converting date and/or time from character string.');
  END IF;
  IF style NOT IN (0, 100) AND (m[1] ~ '^\s*\d{4}[/.-]' AND ordered <> 'ymd') THEN
    RETURN mssql.raise(40517, 'A text that does not follow style ' || style || ' of CONVERT is not supported by fakemssql.');
  END IF;
  clock := regexp_replace(clock, '^(\d+)(\s*[AaPp][Mm])$', '\1:00\2');
  clock := regexp_replace(clock, ':(\d{1,9})$', CASE WHEN clock ~ '^\d+:\d+:\d+:\d+$' THEN '.\1' ELSE ':\1' END);
  -- Not rounded to microseconds: the last moment of a day or of the year 9999 stays in it.
  clock := regexp_replace(clock, '([.]\d{6})\d+', '\1');
  RETURN (found || ' ' || clock)::timestamp;
EXCEPTION
  WHEN datetime_field_overflow THEN
    RETURN mssql.raise(CASE WHEN old THEN 242 ELSE 241 END, CASE WHEN old
      THEN 'The conversion of a varchar data type to a ' || target || ' data type resulted in an out-of-range value.'
      ELSE 'Conversion failed when converting date and/or time from character string.' END);
  WHEN invalid_datetime_format THEN
    RETURN mssql.raise(241, 'Conversion failed when converting date and/or time from character string.');
END $$;

CREATE FUNCTION mssql.str_tz(x text, style int) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE m text[] := regexp_match(btrim(x), '([+-])(\d\d?):(\d\d)$'); local timestamp;
BEGIN
  local := mssql.str_ts(x, 'datetimeoffset', style);
  IF m IS NULL OR btrim(x) !~ ':\d\d.*[+-]\d\d?:\d\d$' THEN RETURN LEAST(local, '9999-12-31 23:59:59.999999') AT TIME ZONE 'UTC'; END IF;
  RETURN LEAST(local - (m[1] || '1')::int * make_interval(hours => m[2]::int, mins => m[3]::int), '9999-12-31 23:59:59.999999') AT TIME ZONE 'UTC';
END $$;

CREATE FUNCTION mssql.days_dt(x float8) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF x >= -53690 AND x < 2958464 THEN RETURN mssql.dt('1900-01-01'::timestamp + make_interval(secs => x * 86400)); END IF;
  RETURN mssql.raise(8115, 'Arithmetic overflow error converting expression to data type datetime.');
END $$;

CREATE FUNCTION mssql.dt_days(x timestamp) RETURNS float8 LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (extract(epoch FROM x - '1900-01-01'::timestamp) / 86400)::float8;

CREATE FUNCTION mssql.fraction(x timestamp, digits int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN digits = 0 THEN '' ELSE '.' || left(to_char(x, 'US') || '0', digits) END;

-- CONVERT(varchar, x, style); digits is the number of fraction digits of the source type.
CREATE FUNCTION mssql.ts_str(x timestamp, style int, kind text, digits int) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE d text; t text; old bool := kind IN ('datetime', 'smalldatetime'); has_date bool := kind <> 'time'; has_time bool := kind <> 'date';
BEGIN
  CASE
    WHEN style IN (0, 100) THEN d := to_char(x, 'Mon ') || lpad(to_char(x, 'FMDD'), 2) || to_char(x, ' YYYY');
      t := lpad(to_char(x, 'FMHH12:MI'), 5) || to_char(x, 'AM');
    WHEN style = 1 THEN d := to_char(x, 'MM/DD/YY'); has_time := NOT has_date;
    WHEN style = 101 THEN d := to_char(x, 'MM/DD/YYYY'); has_time := NOT has_date;
    WHEN style = 2 THEN d := to_char(x, 'YY.MM.DD'); has_time := NOT has_date;
    WHEN style = 102 THEN d := to_char(x, 'YYYY.MM.DD'); has_time := NOT has_date;
    WHEN style = 3 THEN d := to_char(x, 'DD/MM/YY'); has_time := NOT has_date;
    WHEN style = 103 THEN d := to_char(x, 'DD/MM/YYYY'); has_time := NOT has_date;
    WHEN style = 104 THEN d := to_char(x, 'DD.MM.YYYY'); has_time := NOT has_date;
    WHEN style = 105 THEN d := to_char(x, 'DD-MM-YYYY'); has_time := NOT has_date;
    WHEN style = 106 THEN d := to_char(x, 'DD Mon YYYY'); has_time := NOT has_date;
    WHEN style = 107 THEN d := to_char(x, 'Mon DD, YYYY'); has_time := NOT has_date;
    WHEN style IN (8, 24, 108) THEN has_date := false; t := to_char(x, 'HH24:MI:SS');
    WHEN style = 110 THEN d := to_char(x, 'MM-DD-YYYY'); has_time := NOT has_date;
    WHEN style = 111 THEN d := to_char(x, 'YYYY/MM/DD'); has_time := NOT has_date;
    WHEN style = 12 THEN d := to_char(x, 'YYMMDD'); has_time := NOT has_date;
    WHEN style = 112 THEN d := to_char(x, 'YYYYMMDD'); has_time := NOT has_date;
    WHEN style IN (13, 113) THEN d := to_char(x, 'DD Mon YYYY'); t := to_char(x, 'HH24:MI:SS:') || left(to_char(x, 'US'), greatest(digits, 3));
    WHEN style IN (14, 114) THEN has_date := false; t := to_char(x, 'HH24:MI:SS:') || left(to_char(x, 'US'), greatest(digits, 3));
    WHEN style IN (20, 120) THEN d := to_char(x, 'YYYY-MM-DD'); t := to_char(x, 'HH24:MI:SS');
    WHEN style IN (21, 25, 121) THEN d := to_char(x, 'YYYY-MM-DD'); t := to_char(x, 'HH24:MI:SS') || mssql.fraction(x, digits);
    WHEN style = 23 THEN d := to_char(x, 'YYYY-MM-DD'); has_time := NOT has_date;
    WHEN style IN (126, 127) THEN d := to_char(x, 'YYYY-MM-DD'); t := to_char(x, 'HH24:MI:SS')
      || CASE WHEN old AND to_char(x, 'US')::int = 0 THEN '' ELSE mssql.fraction(x, digits) END;
      IF has_date AND has_time THEN RETURN d || 'T' || t; END IF;
    WHEN style IN (4, 5, 6, 7, 9, 10, 11, 22, 109, 130, 131) THEN
      RETURN mssql.raise(40517, 'Style ' || style || ' of CONVERT from ' || kind || ' to a text is not supported by fakemssql.');
    ELSE RETURN mssql.raise(281, style || ' is not a valid style number when converting from ' || kind || ' to a character string.');
  END CASE;
  IF t IS NULL THEN t := to_char(x, 'HH24:MI:SS') || mssql.fraction(x, digits); END IF;
  RETURN CASE WHEN has_date AND has_time THEN d || ' ' || t WHEN has_date THEN d ELSE t END;
END $$;

CREATE FUNCTION mssql.unit_count(part text, x timestamp) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE part
    WHEN 'year' THEN extract(year FROM x)
    WHEN 'quarter' THEN extract(year FROM x) * 4 + extract(quarter FROM x)
    WHEN 'month' THEN extract(year FROM x) * 12 + extract(month FROM x)
    WHEN 'week' THEN floor((x::date - '1899-12-31'::date) / 7.0)
    WHEN 'day' THEN x::date - '1900-01-01'::date
    WHEN 'hour' THEN floor(extract(epoch FROM x) / 3600)
    WHEN 'minute' THEN floor(extract(epoch FROM x) / 60)
    WHEN 'second' THEN floor(extract(epoch FROM x))
    WHEN 'millisecond' THEN floor(extract(epoch FROM x) * 1000)
    WHEN 'microsecond' THEN floor(extract(epoch FROM x) * 1000000) END::bigint;

CREATE FUNCTION mssql.datediff_big(part text, a timestamp, b timestamp) RETURNS bigint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE part WHEN 'nanosecond' THEN (mssql.unit_count('microsecond', b) - mssql.unit_count('microsecond', a)) * 1000
              ELSE mssql.unit_count(part, b) - mssql.unit_count(part, a) END;

CREATE FUNCTION mssql.datediff(part text, a timestamp, b timestamp) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE n bigint := mssql.datediff_big(part, a, b);
BEGIN
  IF n BETWEEN -2147483648 AND 2147483647 THEN RETURN n; END IF;
  RETURN mssql.raise(535, 'The datediff function resulted in an overflow. The number of dateparts separating two date/time'
    || ' instances is too large. Try to use datediff with a less precise datepart.');
END $$;

CREATE FUNCTION mssql.datepart(part text, x timestamp) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE part
    WHEN 'weekday' THEN extract(dow FROM x) + 1
    WHEN 'dayofyear' THEN extract(doy FROM x)
    WHEN 'iso_week' THEN extract(week FROM x)
    WHEN 'week' THEN (extract(doy FROM x)::int + extract(dow FROM date_trunc('year', x))::int - 1) / 7 + 1
    WHEN 'second' THEN floor(extract(second FROM x))
    WHEN 'millisecond' THEN floor((extract(microseconds FROM x)::bigint % 1000000) / 1000)
    WHEN 'microsecond' THEN extract(microseconds FROM x)::bigint % 1000000
    WHEN 'nanosecond' THEN (extract(microseconds FROM x)::bigint % 1000000) * 1000
    WHEN 'tzoffset' THEN CASE WHEN x IS NOT NULL THEN 0 END
    WHEN 'year' THEN extract(year FROM x) WHEN 'quarter' THEN extract(quarter FROM x) WHEN 'month' THEN extract(month FROM x)
    WHEN 'day' THEN extract(day FROM x) WHEN 'hour' THEN extract(hour FROM x) WHEN 'minute' THEN extract(minute FROM x) END::int;

CREATE FUNCTION mssql.span(part text, n int) RETURNS interval LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE part WHEN 'year' THEN make_interval(years => n) WHEN 'quarter' THEN make_interval(months => 3) * n
    WHEN 'month' THEN make_interval(months => n) WHEN 'week' THEN make_interval(weeks => n)
    WHEN 'day' THEN make_interval(days => n) WHEN 'hour' THEN interval '1 hour' * n
    WHEN 'minute' THEN interval '1 minute' * n WHEN 'second' THEN interval '1 second' * n
    WHEN 'millisecond' THEN interval '1 millisecond' * n WHEN 'microsecond' THEN interval '1 microsecond' * n
    WHEN 'nanosecond' THEN interval '1 microsecond' * (n / 1000) END;

CREATE FUNCTION mssql.dateadd(part text, n int, x timestamp, kind text) RETURNS timestamp LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE r timestamp;
BEGIN
  r := x + mssql.span(part, n);
  IF r >= '10000-01-01' OR r < (CASE kind WHEN 'datetime' THEN '1753-01-01'::timestamp ELSE '0001-01-01'::timestamp END) THEN
    RETURN mssql.raise(517, 'Adding a value to a ''' || kind || ''' column caused an overflow.');
  END IF;
  RETURN CASE kind WHEN 'datetime' THEN mssql.dt(r) WHEN 'smalldatetime' THEN mssql.sdt(r) ELSE r END;
EXCEPTION WHEN datetime_field_overflow OR numeric_value_out_of_range THEN
  RETURN mssql.raise(517, 'Adding a value to a ''' || kind || ''' column caused an overflow.');
END $$;
