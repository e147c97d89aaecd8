# SPDX-License-Identifier: MIT
# nginx with two workers, compressing, behind haproxy with two threads; parallel clients, ranges,
# a reload in the middle; what arrives is what was sent.
# needs: nginx haproxy curl
# owner: nginx
# server: nginx
mkdir www tmp
seq 9000 | sha512sum > www/block
for i in $(seq 2000); do echo "$i" | sha256sum; done >> www/block
seq 60000 > www/text
head -c 2000 www/text | tail -c 1000 > part
chmod -R a+rX .
cat > n.conf <<-END
	worker_processes 2; pid $PWD/n.pid; error_log $PWD/error.log; user $(id -un);
	events { worker_connections 512; }
	http {
		access_log off; gzip on; gzip_types *; gzip_min_length 1000;
		client_body_temp_path $PWD/tmp; proxy_temp_path $PWD/tmp;
		fastcgi_temp_path $PWD/tmp; scgi_temp_path $PWD/tmp; uwsgi_temp_path $PWD/tmp;
		server { listen unix:$PWD/n.sock; root $PWD/www; }
	}
END
cat > h.cfg <<-END
	global
	  nbthread 2
	defaults
	  mode http
	  timeout connect 10s
	  timeout client 30s
	  timeout server 30s
	  compression algo gzip
	frontend f
	  bind unix@$PWD/h.sock
	  http-request set-var(txn.word) path,sha1,hex
	  http-response set-header X-Word %[var(txn.word)]
	  default_backend b
	backend b
	  server s unix@$PWD/n.sock
END
nginx() { command nginx -c "$PWD/n.conf" -e "$PWD/error.log" "$@" 2> /dev/null; }
ask() { curl -s --unix-socket "$1.sock" "${@:2}"; }
nginx
haproxy -f h.cfg -p "$PWD/h.pid" -D
trap 'kill $(cat n.pid h.pid) 2>/dev/null || true' EXIT
for round in 1 2; do
	for name in block text; do
		ask n http://x/$name | cmp - www/$name && echo "$name: the same"
		ask h --compressed http://x/$name | cmp - www/$name &&
			echo "$name: the same by the proxy"
	done
	ask h -r 1000-1999 http://x/text | cmp - part && echo "part: the same"
	for i in $(seq 60); do
		name=block
		[ $((i % 2)) = 0 ] || name=text
		printf 'url="http://x/%s"\noutput="out.%d"\n' $name "$i"
	done > many
	ask h --compressed -Z --parallel-max 20 -K many > /dev/null 2>&1
	cat out.* | sha256sum
	ask h -o /dev/null -D - http://x/none | grep -E 'HTTP|X-Word' | tr -d '\r'
	nginx -s reload
	sleep 0.5
done
kill "$(cat h.pid)"
nginx -s quit
trap - EXIT
grep -ciE 'alert|emerg' error.log || true
