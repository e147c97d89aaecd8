/* SPDX-License-Identifier: MIT */
/*
 * What the library is set to and what it counts, by name.
 *
 *   slub::set_option("retain", "8M");
 *   std::uint64_t used = slub::value("objects.used_bytes").number;
 *   for (auto &[name, value] : slub::values()) ...
 *   std::string all = slub::stats_json();
 *   slub::shrink_node(0);
 *
 * The names are those of slub/control.h.
 */
#ifndef SLUB_INCLUDE_CPP_CONTROL_HPP
#define SLUB_INCLUDE_CPP_CONTROL_HPP

#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <slub/cache.h>
#include <slub/control.h>
#include <slub/cpp/error.hpp>

namespace slub {
namespace detail {

[[noreturn]] inline void fail_control(int result, const char *what, const char *name,
				      const char *none)
{
	fail(-result, std::string(what) + " '" + (name ? name : "(no name)") + "': " +
		     (result == -ENOENT ? none :
		      result == -EPERM ? "counts at the start of the program only" :
		      result == -EINVAL ? "cannot have that value" :
					  "not now"));
}

} // namespace detail

/* Throws std::system_error: ENOENT, there is no such option. */
inline std::string option(const char *name)
{
	char text[512];
	int result = slub_option_get(name, text, sizeof(text));

	if (result < 0)
		detail::fail_control(result, "slub::option", name, "there is no such option");
	return text;
}

/*
 * Throws std::system_error, and nothing is changed: ENOENT, EPERM (it counts at the start
 * only), EINVAL (it cannot have that value), EBUSY (another thread sets one just now).
 */
inline void set_option(const char *name, const char *value)
{
	int result = slub_option_set(name, value);

	if (result < 0)
		detail::fail_control(result, "slub::set_option", name,
				     "there is no such option");
}

/* Throws std::system_error: ENOENT, there is no such value, or no such cache. */
inline slub_value value(const char *name)
{
	slub_value read = {};
	int result = slub_value_read(name, &read);

	if (result < 0)
		detail::fail_control(result, "slub::value", name, "there is no such value");
	return read;
}

/*
 * Calls @visit(name, value) for each value that there is, until it returns non-zero; returns what
 * it returned last, or 0.  The name is valid during the call.  An exception of @visit ends the walk
 * and goes on here.  Throws std::bad_alloc; std::system_error: the library could not start.
 */
template <class Visit> int for_each_value(Visit &&visit)
{
	struct state {
		std::remove_reference_t<Visit> &visit;
		int last;
		detail::kept_exception kept;
	} state = { visit, 0, {} };
	int result = slub_value_for_each(
		[](const char *name, const slub_value *read, void *arg) noexcept -> int {
			auto *to = static_cast<struct state *>(arg);

			to->last = to->kept.call(1, [&] { return to->visit(name, *read); });
			return to->last;
		}, &state);

	state.kept.rethrow();
	if (result < 0 && result != state.last)
		detail::fail_control(result, "slub::for_each_value", "all", "");
	return state.last;
}

/* All that there are.  Throws std::bad_alloc. */
inline std::vector<std::pair<std::string, slub_value>> values()
{
	std::vector<std::pair<std::string, slub_value>> all;

	for_each_value([&](const char *name, const slub_value &read) {
		all.emplace_back(name, read);
		return 0;
	});
	return all;
}

/* What `slub stats --json` prints.  Throws std::bad_alloc. */
inline std::string stats_json()
{
	std::string text;
	long bytes = slub_stats_json(nullptr, 0);

	/* Caches may come in between. */
	while (bytes >= 0 && static_cast<std::size_t>(bytes) >= text.size()) {
		text.resize(static_cast<std::size_t>(bytes) + 4096);
		bytes = slub_stats_json(&text[0], text.size());
	}
	if (bytes < 0)
		detail::fail_control(static_cast<int>(bytes), "slub::stats_json", "all", "");
	text.resize(static_cast<std::size_t>(bytes));
	return text;
}

/*
 * What lies free on a NUMA node, or on all, goes back; returns how many bytes.  Throws
 * std::system_error: EINVAL, there is no such node.
 */
inline std::size_t shrink_node(int node = SLUB_NODE_ANY)
{
	long bytes = slub_node_shrink(node);

	if (bytes < 0)
		detail::fail(static_cast<int>(-bytes),
			     "slub::shrink_node(" + std::to_string(node) + ")");
	return static_cast<std::size_t>(bytes);
}

/* nullptr: there is no cache of that name. */
inline slub_cache *find_cache(const char *name) noexcept
{
	return slub_cache_find(name);
}

/*
 * Calls @visit for each cache, malloc's own included, until it returns non-zero; returns what
 * it returned last, or 0.  The cache lives during the call.  An exception of @visit ends the walk
 * and goes on here.  Throws std::bad_alloc; std::system_error: the library could not start.
 */
template <class Visit> int for_each_cache(Visit &&visit)
{
	struct state {
		std::remove_reference_t<Visit> &visit;
		int last;
		detail::kept_exception kept;
	} state = { visit, 0, {} };
	int result = slub_cache_for_each(
		[](slub_cache *cache, void *arg) noexcept -> int {
			auto *to = static_cast<struct state *>(arg);

			to->last = to->kept.call(1, [&] { return to->visit(cache); });
			return to->last;
		}, &state);

	state.kept.rethrow();
	if (result < 0 && result != state.last)
		detail::fail(-result, "slub::for_each_cache()");
	return state.last;
}

} // namespace slub

#endif
