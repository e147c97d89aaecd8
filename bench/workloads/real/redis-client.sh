#!/bin/sh
# SPDX-License-Identifier: MIT
# The load on a redis that listens at the socket $1: $2 requests of each kind over 20 connections,
# 16 under way on each; then half of the keys expire. The number of keys that are left is checked.
set -e
socket=$1 requests=$2
tries=0
until redis-cli -s "$socket" ping 2>/dev/null | grep -q PONG; do
	tries=$((tries + 1))
	[ $tries -lt 100 ] || { echo "redis does not answer"; exit 1; }
	sleep 0.02
done
echo @start
redis-benchmark -s "$socket" -q -c 20 -P 16 -n "$requests" -r 50000 -d 200 \
	-t set,get,lpush,lpop,sadd,hset,zadd >/dev/null
redis-cli -s "$socket" flushall >/dev/null
redis-cli -s "$socket" debug populate 20000 key 300 >/dev/null
echo "@done $(redis-cli -s "$socket" dbsize)"
