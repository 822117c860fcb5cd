-- Conversions and string functions. Errors carry SQL Server's number in HINT under the SQLSTATE MS001.
CREATE SCHEMA mssql;

CREATE FUNCTION mssql.raise(number int, message text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
  RAISE EXCEPTION USING ERRCODE = 'MS001', MESSAGE = message, HINT = number::text;
END $$;

-- The default collation compares without case and without trailing blanks.
CREATE FUNCTION mssql.f(x text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN lower(rtrim(x, ' '));

CREATE FUNCTION mssql.len16(x text) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(x) = length(x) THEN octet_length(x)
              ELSE length(x) + length(regexp_replace(x, '[^\U00010000-\U0010F7FE]', '', 'g')) END;

CREATE FUNCTION mssql.cut16(x text, n int) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE total int := 0; kept int := 0; c text;
BEGIN
  IF length(x) <= n / 2 OR octet_length(x) <= n THEN RETURN x; END IF;
  IF octet_length(x) = length(x) OR mssql.len16(x) = length(x) THEN RETURN left(x, n); END IF;
  FOREACH c IN ARRAY string_to_array(x, NULL) LOOP
    total := total + mssql.len16(c);
    EXIT WHEN total > n;
    kept := kept + 1;
  END LOOP;
  RETURN left(x, kept);
END $$;

CREATE FUNCTION mssql.fit(x text, n int, place text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF octet_length(x) <= n OR mssql.len16(x) <= n THEN RETURN x; END IF;
  IF mssql.len16(rtrim(x, ' ')) <= n THEN RETURN mssql.cut16(x, n); END IF;
  IF place = '' THEN RETURN mssql.raise(8152, 'String or binary data would be truncated.'); END IF;
  RETURN mssql.raise(2628, 'String or binary data would be truncated in ' || place || '. Truncated value: '''
                           || mssql.cut16(x, n) || '''.');
END $$;

-- A number or a uniqueidentifier as text; "kind" is the type that it comes from, or * where that takes its place.
CREATE FUNCTION mssql.fit_number(x text, n int, kind text, target text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF length(x) <= n THEN RETURN x; END IF;
  IF kind = '*' THEN RETURN '*'; END IF;
  RETURN mssql.raise(CASE kind WHEN 'uniqueidentifier' THEN 8170 WHEN 'money' THEN 234 WHEN 'float' THEN 232 ELSE 8115 END,
    CASE kind WHEN 'uniqueidentifier' THEN 'Insufficient result space to convert uniqueidentifier value to char.'
      WHEN 'money' THEN 'There is insufficient result space to convert a money value to ' || target || '.'
      WHEN 'float' THEN 'Arithmetic overflow error for type ' || target || ', value = ' || x || '.'
      ELSE 'Arithmetic overflow error converting ' || kind || ' to data type ' || target || '.' END);
END $$;

CREATE FUNCTION mssql.fit_bytes(x bytea, n int, place text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF octet_length(x) <= n THEN RETURN x; END IF;
  IF place = '' THEN RETURN mssql.raise(8152, 'String or binary data would be truncated.'); END IF;
  RETURN mssql.raise(2628, 'String or binary data would be truncated in ' || place || '. Truncated value: ''''.');
END $$;

CREATE FUNCTION mssql.pad(x text, n int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN mssql.len16(x) < n THEN x || repeat(' ', n - mssql.len16(x)) ELSE x END;

CREATE FUNCTION mssql.pad_bytes(x bytea, n int) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(x) < n THEN x || decode(repeat('00', n - octet_length(x)), 'hex')
              ELSE substr(x, 1, n) END;

-- varchar holds code page 1252: anything else becomes a question mark for each UTF-16 unit.
CREATE FUNCTION mssql.v(x text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN octet_length(x) = length(x) THEN x ELSE
    regexp_replace(regexp_replace(x, '[\U00010000-\U0010F7FE]', '??', 'g'),
      '[^\u0001-\u007F\u00A0-\u00FF\u0081\u008D\u008F\u0090\u009D\u20AC\u201A\u0192\u201E\u2026\u2020\u2021\u02C6\u2030\u0160\u2039\u0152\u017D\u2018\u2019\u201C\u201D\u2022\u2013\u2014\u02DC\u2122\u0161\u203A\u0153\u017E\u0178\U0010F7FF]',
      '?', 'g') END;

CREATE FUNCTION mssql.text_bytes(x text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF octet_length(x) = length(x) THEN RETURN convert_to(x, 'UTF8'); END IF;
  RETURN (SELECT string_agg(CASE WHEN ascii(c) < 256 AND (ascii(c) < 128 OR ascii(c) > 159
                                  OR ascii(c) IN (129, 141, 143, 144, 157)) THEN set_byte('\x00', 0, ascii(c))
                            WHEN ascii(c) = x'10F7FF'::int THEN '\x00'::bytea
                            ELSE convert_to(c, 'WIN1252') END, ''::bytea ORDER BY i)
          FROM string_to_table(mssql.v(x), NULL) WITH ORDINALITY AS s(c, i));
END $$;

CREATE FUNCTION mssql.bytes_text(x bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  BEGIN
    RETURN convert_from(x, 'WIN1252');
  EXCEPTION WHEN OTHERS THEN NULL;
  END;
  RETURN (SELECT string_agg(CASE b WHEN 0 THEN U&'\+10F7FF' ELSE
                              CASE WHEN b IN (129, 141, 143, 144, 157) THEN chr(b)
                                   ELSE convert_from(set_byte('\x00', 0, b), 'WIN1252') END END, '' ORDER BY i)
          FROM (SELECT i, get_byte(x, i) AS b FROM generate_series(0, octet_length(x) - 1) AS g(i)) AS s);
END $$;

CREATE FUNCTION mssql.unit_hex(u int) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN lpad(to_hex(u & 255), 2, '0') || lpad(to_hex(u >> 8), 2, '0');

CREATE FUNCTION mssql.ntext_bytes(x text) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF x = '' THEN RETURN ''::bytea; END IF;
  IF octet_length(x) = length(x) THEN
    RETURN decode(regexp_replace(encode(convert_to(x, 'UTF8'), 'hex'), '(..)', '\100', 'g'), 'hex');
  END IF;
  RETURN decode((SELECT string_agg(CASE WHEN u < 65536 THEN mssql.unit_hex(u)
                                   WHEN u = x'10F7FF'::int THEN '0000'
                                   WHEN u >= x'10F800'::int THEN mssql.unit_hex(u - x'10F800'::int + x'D800'::int)
                                   ELSE mssql.unit_hex(((u - 65536) >> 10) + x'D800'::int)
                                     || mssql.unit_hex(((u - 65536) & 1023) + x'DC00'::int) END, '' ORDER BY i)
                 FROM (SELECT i, ascii(c) AS u FROM string_to_table(x, NULL) WITH ORDINALITY AS s(c, i)) AS t), 'hex');
END $$;

CREATE FUNCTION mssql.bytes_ntext(x bytea) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE digits text;
BEGIN
  IF octet_length(x) = 0 THEN RETURN ''; END IF;
  IF octet_length(x) % 2 = 1 THEN x := x || '\x00'::bytea; END IF;
  digits := encode(x, 'hex');
  IF digits ~ '^([0-7][1-9a-f]00|[1-7]000)*$' THEN
    RETURN convert_from(decode(regexp_replace(digits, '(..)00', '\1', 'g'), 'hex'), 'UTF8');
  END IF;
  RETURN (WITH units AS (SELECT i, get_byte(x, 2 * i) + 256 * get_byte(x, 2 * i + 1) AS u
                         FROM generate_series(0, octet_length(x) / 2 - 1) AS g(i)),
               pairs AS (SELECT i, u, lag(u) OVER (ORDER BY i) AS before, lead(u) OVER (ORDER BY i) AS after FROM units)
          SELECT string_agg(CASE WHEN u = 0 THEN U&'\+10F7FF'
                              WHEN u BETWEEN 55296 AND 56319 AND after BETWEEN 56320 AND 57343
                                THEN chr(((u - 55296) << 10) + (after - 56320) + 65536)
                              WHEN u BETWEEN 56320 AND 57343 AND before BETWEEN 55296 AND 56319 THEN ''
                              WHEN u BETWEEN 55296 AND 57343 THEN chr(u - 55296 + x'10F800'::int)
                              ELSE chr(u) END, '' ORDER BY i) FROM pairs);
END $$;

CREATE FUNCTION mssql.hex_bytes(x text, style int) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF style = 1 THEN
    IF x !~* '^0x' THEN RETURN mssql.raise(8114, 'Error converting data type varchar to varbinary.'); END IF;
    x := substr(x, 3);
  END IF;
  IF x !~* '^([0-9a-f]{2})*$' THEN RETURN mssql.raise(8114, 'Error converting data type varchar to varbinary.'); END IF;
  RETURN decode(x, 'hex');
END $$;

CREATE FUNCTION mssql.str_int(x text, source text, target text) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE t text := btrim(x, E' \t\r\n'); n numeric;
BEGIN
  IF t = '' THEN RETURN 0; END IF;
  IF t !~ '^[+-]?[0-9]+$' THEN
    RETURN mssql.raise(CASE WHEN target = 'bigint' THEN 8114 ELSE 245 END, CASE WHEN target = 'bigint'
      THEN 'Error converting data type ' || source || ' to bigint.'
      ELSE 'Conversion failed when converting the ' || source || ' value ''' || x || ''' to data type ' || target || '.' END);
  END IF;
  n := t::numeric;
  IF target = 'bit' THEN RETURN CASE WHEN n = 0 THEN 0 ELSE 1 END; END IF;
  IF (target = 'int' AND n NOT BETWEEN -2147483648 AND 2147483647) THEN
    RETURN mssql.raise(248, 'The conversion of the ' || source || ' value ''' || x || ''' overflowed an int column.');
  END IF;
  IF (target = 'tinyint' AND n NOT BETWEEN 0 AND 255) OR (target = 'smallint' AND n NOT BETWEEN -32768 AND 32767) THEN
    RETURN mssql.raise(244, 'The conversion of the ' || source || ' value ''' || x || ''' overflowed an '
                            || CASE target WHEN 'tinyint' THEN 'INT1' ELSE 'INT2' END || ' column. Use a larger integer column.');
  END IF;
  RETURN n::bigint;
END $$;

CREATE FUNCTION mssql.str_bit(x text, source text) RETURNS smallint LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE lower(btrim(x)) WHEN 'true' THEN 1 WHEN 'false' THEN 0 ELSE mssql.str_int(x, source, 'bit') END::smallint;

CREATE FUNCTION mssql.str_num(x text, source text, target text) RETURNS numeric LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE t text := btrim(x, E' \t\r\n');
BEGIN
  IF target IN ('float', 'real') THEN
    IF t = '' THEN RETURN 0; END IF;
    IF t !~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$' THEN
      RETURN mssql.raise(8114, 'Error converting data type ' || source || ' to ' || target || '.');
    END IF;
  ELSIF target IN ('money', 'smallmoney') THEN
    t := translate(t, ',$£¤¥¢€৲৳฿៛₠₡₢₣₤₥₦₧₨₩₪₫₭₮₯₰₱﷼﹩＄￠￡￥￦', '');
    IF t = '' THEN RETURN 0; END IF;
    IF t !~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$' THEN
      IF target = 'smallmoney' THEN RETURN mssql.raise(293, 'Cannot convert char value to smallmoney. The char value has incorrect syntax.'); END IF;
      RETURN mssql.raise(235, 'Cannot convert a char value to money. The char value has incorrect syntax.');
    END IF;
  ELSIF t !~ '^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)$' THEN
    RETURN mssql.raise(8114, 'Error converting data type ' || source || ' to ' || target || '.');
  END IF;
  RETURN t::numeric;
END $$;

CREATE FUNCTION mssql.tinyint(x bigint) RETURNS smallint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF x BETWEEN 0 AND 255 THEN RETURN x; END IF;
  RETURN mssql.raise(220, 'Arithmetic overflow error for data type tinyint, value = ' || x || '.');
END $$;

CREATE FUNCTION mssql.smallint(x bigint) RETURNS smallint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF x BETWEEN -32768 AND 32767 THEN RETURN x; END IF;
  RETURN mssql.raise(220, 'Arithmetic overflow error for data type smallint, value = ' || x || '.');
END $$;

CREATE FUNCTION mssql.smallmoney(x numeric) RETURNS numeric LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF round(x, 4) BETWEEN -214748.3648 AND 214748.3647 THEN RETURN round(x, 4); END IF;
  RETURN mssql.raise(8115, 'Arithmetic overflow error converting expression to data type smallmoney.');
END $$;

CREATE FUNCTION mssql.str_guid(x text) RETURNS uuid LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF x ~* '^\{[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\}' THEN RETURN substr(x, 2, 36)::uuid; END IF;
  IF x ~* '^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}' THEN RETURN left(x, 36)::uuid; END IF;
  RETURN mssql.raise(8169, 'Conversion failed when converting from a character string to uniqueidentifier.');
END $$;

-- The first three groups of a uniqueidentifier are little-endian in its binary form.
CREATE FUNCTION mssql.guid_bytes(x uuid) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN decode(regexp_replace(replace(x::text, '-', ''), '^(..)(..)(..)(..)(..)(..)(..)(..)', '\4\3\2\1\6\5\8\7'), 'hex');

CREATE FUNCTION mssql.bytes_guid(x bytea) RETURNS uuid LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN regexp_replace(encode(mssql.pad_bytes(x, 16), 'hex'), '^(..)(..)(..)(..)(..)(..)(..)(..)', '\4\3\2\1\6\5\8\7')::uuid;

CREATE FUNCTION mssql.int_bytes(x bigint, width int) RETURNS bytea LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN substr(int8send(x), 9 - width, width);

CREATE FUNCTION mssql.bytes_int(x bytea, width int) RETURNS bigint LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE result bigint := 0; b bytea := x; i int;
BEGIN
  IF octet_length(b) > width THEN b := substr(b, octet_length(b) - width + 1); END IF;
  FOR i IN 0 .. octet_length(b) - 1 LOOP
    result := (result << 8) | get_byte(b, i);
  END LOOP;
  IF octet_length(b) = width AND width < 8 AND width > 1 AND get_byte(b, 0) > 127 THEN
    result := result - (1::bigint << (8 * width));
  END IF;
  RETURN result;
END $$;

-- Style 0 of CONVERT: at most six digits, with an exponent of three digits where it is needed.
CREATE FUNCTION mssql.float_str(x float8) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN (SELECT CASE WHEN x = 0 THEN '0' WHEN power BETWEEN -4 AND 5 THEN trim_scale(round(x::numeric, 5 - power))::text
      ELSE regexp_replace(regexp_replace(t, 'e([+-])(\d\d)$', 'e\10\2'), '\.?0*e', 'e') END
    FROM (SELECT btrim(to_char(x, '9.99999EEEE'))) AS a(t), LATERAL (SELECT split_part(t, 'e', 2)::int) AS b(power));

-- Evaluates one conversion of a text and turns an error of its value into NULL (TRY_CAST, TRY_CONVERT).
-- What is not supported, an invalid style and a fault stay errors.
CREATE FUNCTION mssql.attempt(x text, conversion text) RETURNS text LANGUAGE plpgsql STABLE AS $$
DECLARE result text; number text;
BEGIN
  IF x IS NULL THEN RETURN NULL; END IF;
  EXECUTE 'SELECT (' || conversion || ')::text' INTO result USING x;
  RETURN result;
EXCEPTION
  WHEN data_exception THEN RETURN NULL;
  WHEN SQLSTATE 'MS001' THEN
    GET STACKED DIAGNOSTICS number = PG_EXCEPTION_HINT;
    IF number IN ('281', '9809', '40517') THEN RAISE; END IF;
    RETURN NULL;
END $$;

-- The last identity value of the connection; NULL if the table is gone or is another one now.
CREATE FUNCTION mssql.last_identity(tab text, col text) RETURNS bigint LANGUAGE plpgsql STABLE AS $$
BEGIN
  RETURN currval(pg_get_serial_sequence(tab, col));
EXCEPTION WHEN OTHERS THEN RETURN NULL;
END $$;

-- A LIKE pattern as a regular expression: % _ [abc] [^a-z] and the escape character, whose case counts always.
-- With "blanks" the text may end with more blanks, as varchar does (nvarchar does not).
CREATE FUNCTION mssql.like_pattern(pattern text, esc text, folded bool, blanks bool) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE result text := ''; i int := 1; c text; n int := length(pattern); closing int;
BEGIN
  IF pattern IS NULL THEN RETURN NULL; END IF;
  IF length(esc) <> 1 THEN
    RETURN mssql.raise(506, 'The invalid escape character "' || esc || '" was specified in a LIKE predicate.');
  END IF;
  WHILE i <= n LOOP
    c := substr(pattern, i, 1);
    IF esc IS NOT NULL AND c = esc THEN
      i := i + 1;
      result := result || mssql.like_literal(substr(pattern, i, 1), folded);
    ELSIF c = '%' THEN result := result || '.*';
    ELSIF c = '_' THEN result := result || '.';
    ELSIF c = '[' THEN
      closing := position(']' IN substr(pattern, i + 1));
      IF closing = 0 THEN RETURN '(?!)'; END IF;
      result := result || mssql.like_set(substr(pattern, i + 1, closing - 1), folded);
      i := i + closing;
    ELSE result := result || mssql.like_literal(c, folded);
    END IF;
    i := i + 1;
  END LOOP;
  RETURN '^' || result || CASE WHEN blanks THEN ' *$' ELSE '$' END;
END $$;

CREATE FUNCTION mssql.like_literal(c text, folded bool) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN regexp_replace(CASE WHEN folded THEN lower(c) ELSE c END, '([\\.*+?(){}|^$\[\]-])', '\\\1');

-- The characters between brackets; a range whose end comes before its start has none.
CREATE FUNCTION mssql.like_set(body text, folded bool) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE AS $$
DECLARE result text := ''; rest text := CASE WHEN folded THEN lower(body) ELSE body END; negated bool := left(body, 1) = '^';
BEGIN
  IF negated THEN rest := substr(rest, 2); END IF;
  IF rest = '' THEN RETURN '(?!)'; END IF;
  WHILE rest <> '' LOOP
    IF substr(rest, 2, 1) = '-' AND length(rest) > 2 THEN
      IF ascii(rest) <= ascii(substr(rest, 3)) THEN
        result := result || mssql.like_literal(left(rest, 1), false) || '-' || mssql.like_literal(substr(rest, 3, 1), false);
      END IF;
      rest := substr(rest, 4);
    ELSE
      result := result || mssql.like_literal(left(rest, 1), false);
      rest := substr(rest, 2);
    END IF;
  END LOOP;
  RETURN CASE WHEN result <> '' THEN '[' || CASE WHEN negated THEN '^' ELSE '' END || result || ']'
              WHEN negated THEN '.' ELSE '(?!)' END;
END $$;

CREATE FUNCTION mssql.charindex(needle text, x text, start int, exact bool) RETURNS int LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN needle = '' THEN 0
    ELSE COALESCE(NULLIF(CASE WHEN exact THEN position(needle IN substr(x, greatest(start, 1)))
                              ELSE position(lower(needle) IN substr(lower(x), greatest(start, 1))) END, 0) + greatest(start, 1) - 1,
      CASE WHEN needle IS NULL OR x IS NULL THEN NULL ELSE 0 END) END;

CREATE FUNCTION mssql.substring(x text, start int, size int) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF size < 0 THEN RETURN mssql.raise(537, 'Invalid length parameter passed to the LEFT or SUBSTRING function.'); END IF;
  IF start::bigint + size <= 1 THEN RETURN ''; END IF;
  RETURN substr(x, greatest(start, 1), least(start::bigint + size - greatest(start, 1), 2147483647)::int);
END $$;

CREATE FUNCTION mssql.subbytes(x bytea, start int, size int) RETURNS bytea LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF size < 0 THEN RETURN mssql.raise(537, 'Invalid length parameter passed to the LEFT or SUBSTRING function.'); END IF;
  IF start::bigint + size <= 1 THEN RETURN ''::bytea; END IF;
  RETURN substr(x, greatest(start, 1), least(start::bigint + size - greatest(start, 1), 1073741823)::int);
END $$;

CREATE FUNCTION mssql.side(x text, n int, which text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF n < 0 THEN RETURN mssql.raise(CASE which WHEN 'left' THEN 537 ELSE 536 END, 'Invalid length parameter passed to the '
    || CASE which WHEN 'left' THEN 'LEFT or SUBSTRING' ELSE 'RIGHT' END || ' function.'); END IF;
  RETURN CASE which WHEN 'left' THEN left(x, n) ELSE CASE WHEN n = 0 THEN '' ELSE right(x, n) END END;
END $$;

CREATE FUNCTION mssql.replace_ci(x text, old text, new text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  IF old = '' THEN RETURN x; END IF;
  RETURN regexp_replace(x, regexp_replace(old, '([\\.*+?(){}|^$\[\]])', '\\\1', 'g'), replace(new, '\', '\\'), 'gi');
END $$;

CREATE FUNCTION mssql.quotename(x text, q text) RETURNS text LANGUAGE sql IMMUTABLE PARALLEL SAFE
  RETURN CASE WHEN length(x) > 128 THEN NULL
    WHEN q IN ('[', ']', '') THEN '[' || replace(x, ']', ']]') || ']'
    WHEN q = '''' THEN '''' || replace(x, '''', '''''') || ''''
    WHEN q = '`' THEN '`' || replace(x, '`', '``') || '`'
    WHEN q = '"' THEN '"' || replace(x, '"', '""') || '"'
    WHEN q IN ('(', ')') THEN '(' || replace(x, ')', '))') || ')'
    WHEN q IN ('{', '}') THEN '{' || replace(x, '}', '}}') || '}'
    WHEN q IN ('<', '>') THEN '<' || replace(x, '>', '>>') || '>' END;

-- The parts of a multi-part name, brackets and double quotes undone; NULL when it is no name.
CREATE FUNCTION mssql.parse_name(x text) RETURNS text[] LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE parts text[] := '{}'; rest text := x; m text[];
BEGIN
  LOOP
    m := regexp_match(rest, '^\s*(?:\[((?:[^\]]|\]\])*)\]|"((?:[^"]|"")*)"|([^.\[\]"]*))\s*(\.|$)');
    IF m IS NULL THEN RETURN NULL; END IF;
    parts := parts || COALESCE(replace(m[1], ']]', ']'), replace(m[2], '""', '"'), rtrim(m[3]));
    rest := regexp_replace(rest, '^\s*(?:\[(?:[^\]]|\]\])*\]|"(?:[^"]|"")*"|[^.\[\]"]*)\s*(\.|$)', '');
    EXIT WHEN m[4] = '';
  END LOOP;
  RETURN CASE WHEN cardinality(parts) > 4 THEN NULL ELSE parts END;
END $$;

CREATE FUNCTION mssql.isjson(x text) RETURNS int LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  RETURN CASE WHEN json_typeof(x::json) IN ('object', 'array') THEN 1 ELSE 0 END;
EXCEPTION WHEN OTHERS THEN RETURN 0;
END $$;

CREATE FUNCTION mssql.json(x text) RETURNS json LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
BEGIN
  RETURN x::json;
EXCEPTION WHEN OTHERS THEN
  RETURN mssql.raise(13609, 'JSON text is not properly formatted. Unexpected character ''' || left(x, 1) || ''' is found at position 0.');
END $$;

-- One step after another along a JSON path ($.a."b c"[0]); "strict" raises 13608 where "lax" gives NULL.
CREATE FUNCTION mssql.json_at(x json, path text) RETURNS json LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE rest text := btrim(path); m text[]; strict_mode bool := false; value json := x;
BEGIN
  IF rest ~* '^strict\s' THEN strict_mode := true; END IF;
  rest := regexp_replace(rest, '^(lax|strict)\s+', '', 'i');
  IF left(rest, 1) <> '$' THEN RETURN mssql.raise(13607, 'JSON path is not properly formatted. Unexpected character '''
    || left(rest, 1) || ''' is found at position 0.'); END IF;
  rest := substr(rest, 2);
  WHILE rest <> '' AND value IS NOT NULL LOOP
    m := regexp_match(rest, '^(?:\.([A-Za-z_$][\w$]*)|\."((?:[^"\\]|\\.)*)"|\[(\d+)\])');
    IF m IS NULL THEN RETURN mssql.raise(13607, 'JSON path is not properly formatted. Unexpected character '''
      || left(rest, 1) || ''' is found at position ' || (length(path) - length(rest)) || '.'); END IF;
    IF m[3] IS NOT NULL THEN
      value := CASE WHEN json_typeof(value) = 'array' THEN value -> m[3]::int END;
    ELSE
      value := CASE WHEN json_typeof(value) = 'object' THEN (SELECT e.value FROM json_each(value) WITH ORDINALITY AS e(key, value, n)
        WHERE e.key = COALESCE(m[1], replace(m[2], '\"', '"')) ORDER BY e.n LIMIT 1) END;
    END IF;
    rest := regexp_replace(rest, '^(?:\.[A-Za-z_$][\w$]*|\."(?:[^"\\]|\\.)*"|\[\d+\])', '');
  END LOOP;
  IF value IS NULL AND strict_mode THEN
    RETURN mssql.raise(13608, 'Property cannot be found on the specified JSON path.');
  END IF;
  RETURN value;
END $$;

CREATE FUNCTION mssql.json_value(x text, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE value json := mssql.json_at(mssql.json(x), path);
BEGIN
  IF json_typeof(value) IN ('object', 'array') AND path ~* '^\s*strict\s' THEN
    RETURN mssql.raise(13623, 'Scalar value cannot be found in the specified JSON path.');
  END IF;
  IF value IS NULL OR json_typeof(value) IN ('null', 'object', 'array') THEN RETURN NULL; END IF;
  RETURN CASE WHEN length(value #>> '{}') > 4000 THEN NULL ELSE value #>> '{}' END;
END $$;

CREATE FUNCTION mssql.json_query(x text, path text) RETURNS text LANGUAGE plpgsql IMMUTABLE PARALLEL SAFE STRICT AS $$
DECLARE value json := mssql.json_at(mssql.json(x), path);
BEGIN
  IF json_typeof(value) NOT IN ('object', 'array') AND path ~* '^\s*strict\s' THEN
    RETURN mssql.raise(13624, 'Object or array cannot be found in the specified JSON path.');
  END IF;
  IF value IS NULL OR json_typeof(value) NOT IN ('object', 'array') THEN RETURN NULL; END IF;
  RETURN value::text;
END $$;
