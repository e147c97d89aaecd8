/* SPDX-License-Identifier: MIT */
/*
 * What has operators of its own over malloc, and does one thing wrong: for operators_test.py's
 * hosts, or with PROGRAM a program.  With FRONT blocks of new begin behind so many bytes of their
 * own, so that they and malloc's are no longer the same.
 */
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <sstream>
#include <string>
#include <vector>

#ifndef FRONT
#define FRONT 0
#endif

void *operator new(size_t n)
{
	auto *block = static_cast<char *>(malloc(n + FRONT));

	if (!block)
		throw std::bad_alloc();
	return block + FRONT;
}

void operator delete(void *block) noexcept
{
	if (block)
		free(static_cast<char *>(block) - FRONT);
}

void *operator new[](size_t n) { return operator new(n); }
void operator delete[](void *block) noexcept { operator delete(block); }
void operator delete(void *block, size_t) noexcept { operator delete(block); }
void operator delete[](void *block, size_t) noexcept { operator delete(block); }

/* Blocks of this object's operators and of the C++ library's pass through each other's hands. */
static int sound()
{
	std::map<std::string, std::vector<std::string>> all;
	size_t bytes = 0;

	for (int i = 0; i < 1000; i++) {
		std::ostringstream text;

		text << "a text that is too long for a small string, number " << i;
		std::string one = text.str();
		one += one;
		one.append(100, 'x');
		all[one.substr(0, 60)].push_back(one);
	}
	for (auto &some : all)
		bytes += some.second[0].size();
	return bytes < 200000;
}

static char elsewhere[64];

extern "C" int commit(const char *crime)
{
	char *volatile one = static_cast<char *>(operator new(40)), *volatile many = new char[40];
	char *volatile plain = static_cast<char *>(malloc(40)), *volatile place = elsewhere;
	char stack[64];

	if (!strcmp(crime, "sound")) {
		operator delete(one);
		delete[] many;
		free(plain);
		return sound();
	}
	if (!strcmp(crime, "delete-twice")) {
		operator delete(one);
		operator delete(one);
	} else if (!strcmp(crime, "delete-array-twice")) {
		delete[] many;
		delete[] many;
	} else if (!strcmp(crime, "free-twice")) {
		free(plain);
		free(plain);
	} else if (!strcmp(crime, "free-of-new")) {
		free(one);
	} else if (!strcmp(crime, "delete-of-malloc")) {
		operator delete(plain);
	} else if (!strcmp(crime, "delete-of-array")) {
		operator delete(many);
	} else if (!strcmp(crime, "delete-of-variable")) {
		operator delete(place + 16);
	} else if (!strcmp(crime, "delete-of-stack")) {
		place = stack;
		operator delete(place + 16);
	} else if (!strcmp(crime, "delete-inside")) {
		operator delete(one + 8);
	} else {
		return 2;
	}
	return 0;
}

#ifdef PROGRAM
int main(int argc, char **argv)
{
	return argc > 1 ? commit(argv[1]) : 2;
}
#endif
