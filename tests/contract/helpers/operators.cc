/* SPDX-License-Identifier: MIT */
/*
 * What the forms of operator new do when there is no memory: the new_handler is called until there
 * is none or it throws, then std::bad_alloc is thrown, which the nothrow forms turn into a null.
 * A library for plugin_operators_test.py's hosts, or with PROGRAM a program.
 */
#include <cstdio>
#include <new>

static volatile size_t impossible = size_t{1} << 60;
static int calls, wrong;

struct GaveUp {};

static void remove_itself()
{
	if (++calls == 3)
		std::set_new_handler(nullptr);
}

static void give_up()
{
	calls++;
	throw GaveUp();
}

static void no_memory()
{
	calls++;
	throw std::bad_alloc();
}

enum Outcome { MEMORY, NOTHING, BAD_ALLOC, GAVE_UP };

template <typename Form> static Outcome outcome_of(Form form)
{
	try {
		return form() ? MEMORY : NOTHING;
	} catch (std::bad_alloc &) {
		return BAD_ALLOC;
	} catch (GaveUp &) {
		return GAVE_UP;
	}
}

template <typename Form>
static void expect(const char *name, Form form, std::new_handler handler, Outcome outcome,
		   int outcome_calls)
{
	calls = 0;
	std::set_new_handler(handler);
	Outcome seen = outcome_of(form);
	std::set_new_handler(nullptr);
	if (seen == outcome && calls == outcome_calls)
		return;
	wrong++;
	printf("%s: outcome %d, not %d; %d calls of the handler, not %d\n", name, seen, outcome,
	       calls, outcome_calls);
}

template <typename Form> static void expect_throw(const char *name, Form form)
{
	expect(name, form, nullptr, BAD_ALLOC, 0);
	expect(name, form, remove_itself, BAD_ALLOC, 3);
	expect(name, form, give_up, GAVE_UP, 1);
	expect(name, form, no_memory, BAD_ALLOC, 1);
}

template <typename Form> static void expect_null(const char *name, Form form, bool asks)
{
	expect(name, form, nullptr, NOTHING, 0);
	expect(name, form, remove_itself, NOTHING, asks ? 3 : 0);
	expect(name, form, no_memory, NOTHING, asks ? 1 : 0);
}

/* @asks: the nothrow forms call the handler, too. */
extern "C" int try_operators(int asks)
{
	const auto line = std::align_val_t(64), word = std::align_val_t(8);
	const auto &soft = std::nothrow;

	setvbuf(stdout, nullptr, _IONBF, 0);
	expect_throw("new", [] { return operator new(impossible); });
	expect_throw("new[]", [] { return operator new[](impossible); });
	expect_throw("aligned", [=] { return operator new(impossible, line); });
	expect_throw("aligned[]", [=] { return operator new[](impossible, word); });
	expect_null("nothrow", [=] { return operator new(impossible, soft); }, asks);
	expect_null("nothrow[]", [=] { return operator new[](impossible, soft); }, asks);
	expect_null("aligned nothrow", [=] { return operator new(impossible, line, soft); }, asks);
	expect_null("aligned nothrow[]", [=] { return operator new[](impossible, word, soft); },
		    asks);
	operator delete(operator new(100));
	printf("%d wrong\n", wrong);
	return wrong;
}

#ifdef PROGRAM
int main(int argc, char **)
{
	return try_operators(argc == 1);
}
#endif
