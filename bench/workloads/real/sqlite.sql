-- SPDX-License-Identifier: MIT
-- Imitates an application's database: rows in, two indexes, joins, sorting, texts put together.
.bail on
PRAGMA journal_mode = MEMORY;
PRAGMA temp_store = MEMORY;
CREATE TABLE item (id INTEGER PRIMARY KEY, owner INTEGER, name TEXT, body TEXT);
BEGIN;
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000)
INSERT INTO item SELECT i, i * 7919 % 1000, 'name ' || (i * 104729 % 60000),
	substr(hex(i * 2654435761), 1, 8) || printf('%*s', i % 90, '') FROM n;
COMMIT;
CREATE INDEX by_name ON item (name);
CREATE INDEX by_owner ON item (owner, name);
CREATE TEMP TABLE report AS SELECT owner, count(*) AS n, group_concat(name, ',') AS names
	FROM item GROUP BY owner ORDER BY max(body);
UPDATE item SET body = body || body WHERE id % 3 = 0;
CREATE TEMP TABLE pairs AS SELECT a.id AS a, b.id AS b, a.name || b.name AS name FROM item a
	JOIN item b ON a.owner = b.owner AND b.id = a.id + 1000 ORDER BY a.body, b.name;
DELETE FROM item WHERE id % 2 = 0;
SELECT '@done ' || (SELECT count(*) FROM item) || ' ' || (SELECT sum(n) FROM report) || ' '
	|| (SELECT count(*) FROM pairs);
