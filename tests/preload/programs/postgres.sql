-- SPDX-License-Identifier: MIT
create table doc as
	select g id, repeat(md5(g::text), g % 40) t,
		jsonb_build_object('id', g, 'word', md5(g::text),
			'list', jsonb_build_array(g % 7, g % 11)) d
	from generate_series(1, 12000) g;
create index on doc using gin (d);
create index on doc using gin (to_tsvector('simple', t));
select md5(string_agg(d::text, '' order by id)) from doc;
select count(*) from doc a join doc b on a.d->>'word' = b.d->>'word';
select count(*) from doc where d @> '{"list": [3, 5]}';
select id % 5, count(distinct t), max(length(t)) from doc group by 1 order by 1;
with recursive r(n, s) as (select 1, 'x' union all select n + 1, s || n from r where n < 2000)
	select max(length(s)) from r;
-- A thousand of these throw, through the server's own memory contexts.
do $$
begin
	for i in 1..3000 loop
		begin
			execute format('select %s / %s', i, i % 3);
		exception when division_by_zero then
			null;
		end;
	end loop;
end $$;
