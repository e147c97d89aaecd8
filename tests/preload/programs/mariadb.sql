-- SPDX-License-Identifier: MIT
create table account (id int primary key, balance bigint, note varchar(200)) engine=innodb;
insert into account select seq, 0, repeat(md5(seq), seq % 6) from seq_1_to_2000;
create table log (id int auto_increment primary key, a int, b int, n int) engine=innodb;
delimiter //
-- In the order of their numbers, so that no two clients wait for each other.
create procedure move(seed int)
begin
	declare i int default 0;
	declare a, b int;
	while i < 200 do
		set a = (seed * 31 + i * 17) % 2000 + 1, b = (seed * 7 + i * 91) % 2000 + 1;
		start transaction;
		update account set balance = balance - i where id = least(a, b);
		update account set balance = balance + i where id = greatest(a, b);
		insert into log(a, b, n) values (a, b, i);
		commit;
		set i = i + 1;
	end while;
end//
