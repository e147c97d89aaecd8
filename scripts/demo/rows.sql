-- SPDX-License-Identifier: MIT
-- Inserts, an index, joins and groups, all in memory.
CREATE TABLE item(id INTEGER PRIMARY KEY, name TEXT, price INTEGER);
CREATE TABLE sale(id INTEGER PRIMARY KEY, item INTEGER, amount INTEGER, note TEXT);

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40000)
INSERT INTO item SELECT i, 'item ' || i, i * 37 % 1000 FROM n;

WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 250000)
INSERT INTO sale SELECT i, i * 7919 % 40000 + 1, i % 9, printf('%.*c', i % 120, 'x') FROM n;

CREATE INDEX sale_item ON sale(item);
CREATE INDEX sale_note ON sale(note, amount);

SELECT count(*), sum(price * amount) FROM sale JOIN item ON item.id = sale.item;
SELECT price / 100, count(DISTINCT name), max(length(note))
  FROM item JOIN sale ON sale.item = item.id GROUP BY 1 ORDER BY 1;
DELETE FROM sale WHERE id % 3 = 0;
UPDATE sale SET note = note || note WHERE id % 5 = 0;
SELECT count(*), sum(length(note)) FROM sale;
SELECT group_concat(name, ',') FROM (SELECT name FROM item ORDER BY price, id LIMIT 500);
