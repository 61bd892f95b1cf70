-- The change feed (D4, F0-F4): statement triggers on the schedule table that NOTIFY compact row states.
--
-- Channel  rq_feed_<g>, g = partition / 4: the partition group (256 of them).
-- Payload  <number>:R:<row>;<row>;...   states of rows
--          <number>:W:                  the group must be walked again (too many rows, or TRUNCATE)
--          The number is from a sequence, because NOTIFY drops a payload that repeats in one transaction (F0).
-- Row      id,partition,due,declared,flags,failures,requested,retry,route     all integers
--          due        minutes since 1970, -1 for none, infinite, or beyond the year 6000
--          declared   seconds, 0 for none
--          flags      1 listed, 2 rendered before, 4 deleted
--          requested  milliseconds since 1970, 0 for none
--          retry      seconds since 1970, rounded up, 0 for none

CREATE SEQUENCE rq_feed_number;

CREATE FUNCTION rq_feed_row(r renderqueue_renderschedule, deleted boolean) RETURNS text
LANGUAGE sql STABLE AS $$
    SELECT concat_ws(',',
        r.id,
        r.partition,
        CASE WHEN r.due_at > '1970-01-01' AND r.due_at < '6000-01-01'
             THEN floor(extract(epoch FROM r.due_at) / 60)::bigint ELSE -1 END,
        coalesce(r.declared_interval_s, 0),
        (r.sitemap_id IS NOT NULL)::int + 2 * (r.rendered_at IS NOT NULL)::int + 4 * deleted::int,
        r.failures,
        CASE WHEN r.requested_at > '1970-01-01' AND isfinite(r.requested_at)
             THEN floor(extract(epoch FROM r.requested_at) * 1000)::bigint ELSE 0 END,
        CASE WHEN r.retry_at > '1970-01-01'
             THEN ceil(extract(epoch FROM LEAST(r.retry_at, '6000-01-01')))::bigint ELSE 0 END,
        r.route_id)
$$;

-- Sends rows in payloads of at most 7,999 bytes, the limit of NOTIFY: a chunk closes at 7,700 and a row has at
-- most 9 integers of 20 characters.
CREATE FUNCTION rq_feed_send(groups int[], rows text[]) RETURNS void
LANGUAGE sql AS $$
    SELECT pg_notify('rq_feed_' || grp,
                     nextval('rq_feed_number') || ':R:' || string_agg(state, ';' ORDER BY place))
    FROM (SELECT grp, state, place,
                 (sum(length(state) + 1) OVER (PARTITION BY grp ORDER BY place) - 1) / 7700 AS chunk
          FROM unnest(groups, rows) WITH ORDINALITY AS t(grp, state, place)) AS chunked
    GROUP BY grp, chunk
    ORDER BY min(place)
$$;

CREATE FUNCTION rq_feed_rewalk(groups int[]) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    RAISE WARNING 'a statement changed more than 50000 schedule rows: % partition groups will be walked again; write in batches of 500',
        cardinality(groups);
    PERFORM pg_notify('rq_feed_' || grp, nextval('rq_feed_number') || ':W:') FROM unnest(groups) AS grp;
END $$;

CREATE FUNCTION rq_feed_inserted() RETURNS trigger
LANGUAGE plpgsql SET enable_nestloop = off AS $$
DECLARE
    groups int[];
    rows text[];
BEGIN
    SELECT array_agg(grp), array_agg(state) INTO groups, rows
    FROM (SELECT n.partition / 4 AS grp, rq_feed_row(n, false) AS state FROM new_rows n LIMIT 50001) AS sent;
    IF cardinality(groups) > 50000 THEN
        PERFORM rq_feed_rewalk(array_agg(DISTINCT n.partition / 4)) FROM new_rows n;
    ELSIF groups IS NOT NULL THEN
        PERFORM rq_feed_send(groups, rows);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION rq_feed_deleted() RETURNS trigger
LANGUAGE plpgsql SET enable_nestloop = off AS $$
DECLARE
    groups int[];
    rows text[];
BEGIN
    SELECT array_agg(grp), array_agg(state) INTO groups, rows
    FROM (SELECT o.partition / 4 AS grp, rq_feed_row(o, true) AS state FROM old_rows o LIMIT 50001) AS sent;
    IF cardinality(groups) > 50000 THEN
        PERFORM rq_feed_rewalk(array_agg(DISTINCT o.partition / 4)) FROM old_rows o;
    ELSIF groups IS NOT NULL THEN
        PERFORM rq_feed_send(groups, rows);
    END IF;
    RETURN NULL;
END $$;

-- Only what changes the schedule is sent (F3). A row whose id or group changed leaves its old place first.
CREATE FUNCTION rq_feed_updated() RETURNS trigger
LANGUAGE plpgsql SET enable_nestloop = off AS $$
DECLARE
    groups int[];
    rows text[];
BEGIN
    SELECT array_agg(grp), array_agg(state) INTO groups, rows
    FROM (
        SELECT o.partition / 4 AS grp, rq_feed_row(o, true) AS state
        FROM old_rows o LEFT JOIN new_rows n ON n.id = o.id
        WHERE n.id IS NULL OR n.partition / 4 <> o.partition / 4
        UNION ALL
        SELECT n.partition / 4, rq_feed_row(n, false)
        FROM new_rows n LEFT JOIN old_rows o ON o.id = n.id
        WHERE (n.id, n.partition, n.due_at, n.declared_interval_s, n.sitemap_id IS NULL, n.rendered_at IS NULL,
               n.failures, n.requested_at, n.retry_at, n.route_id)
              IS DISTINCT FROM
              (o.id, o.partition, o.due_at, o.declared_interval_s, o.sitemap_id IS NULL, o.rendered_at IS NULL,
               o.failures, o.requested_at, o.retry_at, o.route_id)
        LIMIT 50001
    ) AS sent;
    IF cardinality(groups) > 50000 THEN
        PERFORM rq_feed_rewalk(array_agg(DISTINCT grp))
        FROM (SELECT n.partition / 4 AS grp FROM new_rows n UNION SELECT o.partition / 4 FROM old_rows o) AS touched;
    ELSIF groups IS NOT NULL THEN
        PERFORM rq_feed_send(groups, rows);
    END IF;
    RETURN NULL;
END $$;

CREATE FUNCTION rq_feed_truncated() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('rq_feed_' || grp, nextval('rq_feed_number') || ':W:') FROM generate_series(0, 255) AS grp;
    RETURN NULL;
END $$;

CREATE TRIGGER rq_feed_insert AFTER INSERT ON renderqueue_renderschedule
    REFERENCING NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION rq_feed_inserted();
CREATE TRIGGER rq_feed_update AFTER UPDATE ON renderqueue_renderschedule
    REFERENCING OLD TABLE AS old_rows NEW TABLE AS new_rows FOR EACH STATEMENT EXECUTE FUNCTION rq_feed_updated();
CREATE TRIGGER rq_feed_delete AFTER DELETE ON renderqueue_renderschedule
    REFERENCING OLD TABLE AS old_rows FOR EACH STATEMENT EXECUTE FUNCTION rq_feed_deleted();
CREATE TRIGGER rq_feed_truncate AFTER TRUNCATE ON renderqueue_renderschedule
    FOR EACH STATEMENT EXECUTE FUNCTION rq_feed_truncated();

-- Sites, routes and the fleet's policy are small: a change only says "read them again".
CREATE FUNCTION rq_settings_changed() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM pg_notify('rq_settings', nextval('rq_feed_number') || ':' || TG_TABLE_NAME);
    RETURN NULL;
END $$;

CREATE TRIGGER rq_settings AFTER INSERT OR UPDATE OR DELETE ON renderqueue_site
    FOR EACH STATEMENT EXECUTE FUNCTION rq_settings_changed();
CREATE TRIGGER rq_settings AFTER INSERT OR UPDATE OR DELETE ON renderqueue_route
    FOR EACH STATEMENT EXECUTE FUNCTION rq_settings_changed();
CREATE TRIGGER rq_settings AFTER INSERT OR UPDATE OR DELETE ON renderqueue_fleetpolicy
    FOR EACH STATEMENT EXECUTE FUNCTION rq_settings_changed();
