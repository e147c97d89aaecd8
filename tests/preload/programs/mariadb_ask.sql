-- SPDX-License-Identifier: MIT
select count(*), sum(balance) from account;
select count(*), sum(n) from log;
select md5(group_concat(note order by id)) from account where id < 900;
create table doc engine=aria
	select seq id, json_object('id', seq, 'word', md5(seq)) d from seq_1_to_20000;
select count(*), sum(json_value(d, '$.id')) from doc;
select json_length(json_arrayagg(d)) from doc;
select count(distinct left(json_value(d, '$.word'), 3)) from doc;
select count(*) from doc a join doc b on json_value(a.d, '$.word') = json_value(b.d, '$.word')
	where a.id < 400 and b.id < 400;
select id from doc order by json_value(d, '$.word') limit 5;
select count(*) from account where note rlike '^(.)[0-9a-f]*\\1$';
check table account, log, doc;
checksum table account, doc;
