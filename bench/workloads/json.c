/* SPDX-License-Identifier: MIT */
/*
 * Imitates services that exchange JSON: a text of about 1 MiB (objects within arrays, numbers,
 * texts) is parsed into a tree of nodes, summed up and dropped; the last four trees are kept.
 * Arrays and objects grow by realloc as they are read. One operation: one node.
 */
#include "workload.h"

#include <stdio.h>

enum { TEXT_BYTES = 1 << 20, TREES = 4 };
enum kind { NUMBER, TEXT, ARRAY, OBJECT };

struct node {
	enum kind kind;
	uint32_t count, room;
	union {
		double number;
		char *text;
		struct node **child;
	};
	char **name;			/* of the children of an object */
};

static const char *at;			/* where the parser is */
static double nodes;

static struct node *parse(void);

static void expect(char what)
{
	if (*at != what)
		bench_fatal("the text has '%c' where '%c' belongs", *at, what);
	at++;
}

static char *parse_text(void)
{
	const char *start;
	size_t length;
	char *text;

	expect('"');
	start = at;
	while (*at != '"')
		at++;
	length = (size_t)(at++ - start);
	text = bench_malloc(length + 1);
	memcpy(text, start, length);
	text[length] = '\0';
	return text;
}

static void *resized(void *block, size_t bytes)
{
	block = realloc(block, bytes);
	if (!block)
		bench_fatal("realloc failed");
	return block;
}

static void parse_member(struct node *node)
{
	if (node->count == node->room) {
		node->room = node->room ? node->room * 2 : 4;
		node->child = resized(node->child, node->room * sizeof(*node->child));
		if (node->kind == OBJECT)
			node->name = resized(node->name, node->room * sizeof(*node->name));
	}
	if (node->kind == OBJECT) {
		node->name[node->count] = parse_text();
		expect(':');
	}
	node->child[node->count++] = parse();
}

static void parse_members(struct node *node, char last)
{
	at++;
	while (*at != last) {
		parse_member(node);
		if (*at == ',')
			at++;
	}
	at++;
}

static struct node *parse(void)
{
	struct node *node = calloc(1, sizeof(*node));
	char *end;

	if (!node)
		bench_fatal("calloc failed");
	nodes++;
	switch (*at) {
	case '{':
		node->kind = OBJECT;
		parse_members(node, '}');
		break;
	case '[':
		node->kind = ARRAY;
		parse_members(node, ']');
		break;
	case '"':
		node->kind = TEXT;
		node->text = parse_text();
		break;
	default:
		node->number = strtod(at, &end);
		if (end == at)
			bench_fatal("no value at '%.10s'", at);
		at = end;
	}
	return node;
}

static double sum(const struct node *node)
{
	double total = 0;

	if (node->kind == NUMBER)
		return node->number;
	if (node->kind == TEXT)
		return (double)strlen(node->text);
	for (uint32_t i = 0; i < node->count; i++)
		total += sum(node->child[i]);
	return total;
}

static void drop(struct node *node)
{
	if (!node)
		return;
	if (node->kind == TEXT)
		free(node->text);
	for (uint32_t i = 0; i < node->count; i++) {
		drop(node->child[i]);
		if (node->kind == OBJECT)
			free(node->name[i]);
	}
	if (node->kind == ARRAY || node->kind == OBJECT)
		free(node->child);
	free(node->name);
	free(node);
}

/* {"user":..,"tags":[..],"place":{..}} again and again; returns what sum() must give. */
static double write_text(char *text)
{
	static const char letters[] = "the quick brown fox jumps over the lazy dog and runs away "
				      "through the forest until nobody can see it any more";
	struct bench_random random = workload_random(3);
	size_t length = (size_t)sprintf(text, "[");
	double total = 0;

	while (length < TEXT_BYTES - 1024) {
		int id = (int)(bench_random(&random) % 100000), tags = id % 6;
		int name = 3 + id % 29, body = 20 + id % 80;

		length += (size_t)sprintf(text + length, "%s{\"id\":%d,\"name\":\"%.*s\",\"body\":"
					  "\"%.*s\",\"place\":{\"x\":%d,\"y\":%d},\"tags\":[",
					  length > 1 ? "," : "", id, name, letters, body, letters,
					  id % 360, id % 180);
		total += id + name + body + id % 360 + id % 180;
		for (int i = 0; i < tags; i++, total += 5)
			length += (size_t)sprintf(text + length, "%s\"%.5s\"", i ? "," : "",
						  letters + i);
		length += (size_t)sprintf(text + length, "]}");
	}
	sprintf(text + length, "]");
	return total;
}

int main(int argc, char **argv)
{
	struct node *tree[TREES] = { 0 };
	double expected;
	long rounds;
	char *text;

	workload_begin("json", argc, argv);
	rounds = workload_long("rounds", 30, 1, 1000000);
	bench_options_done();
	text = bench_map(TEXT_BYTES);
	expected = write_text(text);
	workload_start();
	for (long i = 0; i < rounds; i++) {
		drop(tree[i % TREES]);
		at = text;
		tree[i % TREES] = parse();
		if (sum(tree[i % TREES]) != expected)
			bench_fatal("the tree does not hold what the text says");
	}
	workload_stop(nodes);
	for (int i = 0; i < TREES; i++)
		drop(tree[i]);
	bench_unmap(text, TEXT_BYTES);
	return workload_finish();
}
