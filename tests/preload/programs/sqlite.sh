# SPDX-License-Identifier: MIT
# sqlite3: a hundred thousand rows, indices, joins, a window, full-text search, vacuum, integrity.
# needs: sqlite3
# owner: sqlite3
sqlite3 file.db <<'SQL'
pragma journal_mode = wal;
create table item (id integer primary key, name text, value real, payload blob);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 100000)
insert into item select i, 'name' || (i * 7919 % 1000), i * 0.25, zeroblob(i % 300) from n;
create index by_name on item (name, value);
select name, count(*), sum(value), max(length(payload)) from item
	group by name order by name limit 20;
select a.id, b.id from item a join item b on a.id = b.id * 3
	where b.id % 999 = 0 order by 1 limit 20;
select id, sum(value) over (order by id rows 10 preceding) from item where id % 9000 = 0;
delete from item where id % 3 = 0;
update item set payload = zeroblob(length(payload) * 20) where id % 50 = 0;
select count(*), sum(length(payload)) from item;
vacuum;
pragma integrity_check;
select group_concat(name, '') from (select distinct name from item order by name limit 50);
select hex(json_object('a', json_array(1, 2, 'three')));
SQL
sqlite3 file.db .dump | sha256sum
sqlite3 :memory: <<'SQL'
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
select count(*), sum(length(x)) from (select printf('%0*d', i % 200 + 1, i) as x from n order by x);
SQL
