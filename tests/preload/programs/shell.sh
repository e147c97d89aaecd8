# SPDX-License-Identifier: MIT
# bash and the core utilities: sort, awk, xargs, tar, gzip, find, sed, pipes, arrays, traps.
# needs: bash sort awk xargs tar gzip find sed
# owner: bash
seq 1 200000 | awk '{ print ($1 * 7919) % 100003, $1, "line" $1 }' > numbers
sort -n numbers | sha256sum
sort --parallel=2 -S 2M -k3 numbers | sha256sum
sort -u -k1,1n numbers | wc -l
awk '{ sum[$1 % 97] += $2; text[$1 % 11] = text[$1 % 11] substr($3, 5, 1) }
	END { for (i = 0; i < 97; i++) printf "%d ", sum[i]
	      for (i = 0; i < 11; i++) print length(text[i]) }' numbers
mkdir tree
seq 1 400 | xargs -P 4 -n 20 sh -c 'for i; do head -c $((i * 50)) numbers > tree/$i; done' sh
tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner -cf tree.tar tree
sha256sum < tree.tar
gzip -n9 < tree.tar | sha256sum
gzip -n < tree.tar | gunzip | cmp - tree.tar && echo "gzip and back"
mkdir back && tar -xf tree.tar -C back && diff -r tree back/tree && echo "tar and back"
find back -type f -size +10k | sort | sed 's/[0-9]\+/<&>/' | sha256sum
grep -c 'line.*7.*7' numbers
tr a-z A-Z < numbers | cut -d' ' -f3 | uniq -w5 -c | head -5
join <(sort -k1,1 numbers | head -5000) <(sort -k1,1 numbers | tail -50000) | wc -l
declare -A seen
for i in $(seq 1 20000); do seen[$((i * 31 % 5000))]+=x; done
echo "${#seen[@]} ${seen[77]}"
total=0
while read -r first _; do total=$((total + first)); done < <(head -20000 numbers)
echo "$total"
for i in 1 2 3 4 5; do (trap 'echo trapped' EXIT; exit "$i") || echo "status $?"; done
printf '%s\n' "$(head -c 300000 numbers | base64 | md5sum)"
