/* SPDX-License-Identifier: MIT */
/* Something for the optimiser: generated functions, a table, a sort. */
#include <stdio.h>
#include <stdlib.h>

#define F(n) static unsigned f##n(unsigned x) { \
	for (unsigned i = 0; i < n + 1; i++) x = x * (n * 2 + 1) + (x >> (n % 13)); return x; }
#define F10(n) F(n##0) F(n##1) F(n##2) F(n##3) F(n##4) F(n##5) F(n##6) F(n##7) F(n##8) F(n##9)
#define N10(n) f##n##0, f##n##1, f##n##2, f##n##3, f##n##4, f##n##5, f##n##6, f##n##7, \
	f##n##8, f##n##9
F10(1) F10(2) F10(3) F10(4) F10(5) F10(6) F10(7) F10(8) F10(9)

static unsigned (*const table[])(unsigned) = { N10(1), N10(2), N10(3), N10(4), N10(5), N10(6),
					       N10(7), N10(8), N10(9) };

static int compare(const void *a, const void *b)
{
	unsigned x = *(const unsigned *)a, y = *(const unsigned *)b;

	return x < y ? -1 : x > y;
}

int main(void)
{
	enum { COUNT = 100000 };
	unsigned *values = malloc(COUNT * sizeof(*values)), sum = 0;

	for (unsigned i = 0; i < COUNT; i++)
		values[i] = table[i % (sizeof(table) / sizeof(table[0]))](i);
	qsort(values, COUNT, sizeof(*values), compare);
	for (unsigned i = 0; i < COUNT; i += 997)
		sum = sum * 31 + values[i];
	printf("%u\n", sum);
	free(values);
	return 0;
}
