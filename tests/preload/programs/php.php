<?php
/* SPDX-License-Identifier: MIT */
/* Tables of texts, JSON there and back, serialised, searched; lists of objects, and rings of them. */
class Node
{
	public $next;
	public $value;
}

function texts()
{
	$words = [];
	for ($i = 0; $i < 20000; $i++)
		$words[md5($i)][] = str_repeat(chr(65 + $i % 26), $i % 300);
	ksort($words);
	$json = json_encode($words);
	$back = json_decode($json, true);
	return strlen(serialize($back)) + crc32($json) + preg_match_all('/A{3,9}B?/', $json);
}

function objects()
{
	$head = null;
	$sum = 0;
	for ($i = 0; $i < 5000; $i++) {
		$node = new Node;
		$node->value = [$i];
		$node->next = $head;
		$head = $node;
	}
	for (; $head; $head = $head->next)
		$sum += $head->value[0];
	for ($i = 0; $i < 5000; $i++) {
		$ring = new Node;
		$ring->next = $ring;
	}
	unset($ring);
	return $sum + gc_collect_cycles();
}

$sum = 0;
for ($round = 0; $round < 10; $round++)
	$sum += texts() + objects();
echo $sum, "\n";
