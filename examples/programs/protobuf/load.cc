/* SPDX-License-Identifier: MIT */
/*
 * Requests that protobuf parses, copies, looks through and serialises again: its own message
 * FileDescriptorSet, as protoc writes it.
 *
 *   load MODE FILE REQUESTS THREADS [LIMIT_KIB]
 *
 * MODE: heap (every message by itself), arena (protobuf's own, one for each request), or slub
 * (the same, from a bucket), where it is compiled with LOAD_SLUB.  Each thread is a tenant;
 * LIMIT_KIB, with slub, is what the first of them may have at once.  A request without memory
 * is counted and given up, as a server would answer 503.  Prints one line of JSON.
 */
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include <google/protobuf/arena.h>
#include <google/protobuf/descriptor.pb.h>
#include <sys/resource.h>

#ifdef LOAD_SLUB
#include <slub/cpp/protobuf.hpp>

static slub::bucket requests("requests", SLUB_CACHE_ACCOUNT);
#endif

namespace pb = google::protobuf;

namespace {

struct tenant {
	long done = 0, refused = 0;
	std::size_t bytes = 0;		/* serialised */
	std::vector<float> us;		/* of each request */
	std::size_t charged = 0, peak = 0;
};

std::string mode;
long nr_requests;

/* What a service does with a request: reads it, makes another of it, and writes that. */
std::size_t serve(const std::string &request, pb::FileDescriptorSet *in, pb::FileDescriptorSet *out)
{
	std::string answer;

	if (!in->ParseFromString(request))
		return 0;
	for (const pb::FileDescriptorProto &file : in->file()) {
		pb::FileDescriptorProto *copy = out->add_file();

		*copy = file;
		copy->set_package("copy." + file.package());
		for (pb::DescriptorProto &message : *copy->mutable_message_type())
			message.set_name("A" + message.name());
	}
	out->SerializeToString(&answer);
	return answer.size();
}

std::size_t on_heap(const std::string &request)
{
	auto in = std::make_unique<pb::FileDescriptorSet>();
	auto out = std::make_unique<pb::FileDescriptorSet>();

	return serve(request, in.get(), out.get());
}

std::size_t on_arena(const std::string &request, const pb::ArenaOptions &options)
{
	pb::Arena arena(options);

	return serve(request, pb::Arena::CreateMessage<pb::FileDescriptorSet>(&arena),
		     pb::Arena::CreateMessage<pb::FileDescriptorSet>(&arena));
}

std::size_t one(const std::string &request)
{
	if (mode == "heap")
		return on_heap(request);
	if (mode == "arena")
		return on_arena(request, pb::ArenaOptions());
#ifdef LOAD_SLUB
	if (mode == "slub")
		return on_arena(request, slub::arena_options<requests>());
#endif
	std::fprintf(stderr, "load: there is no mode %s here\n", mode.c_str());
	std::exit(2);
}

void serve_all(tenant &t, const std::string &request)
{
	for (long i = 0; i < nr_requests; i++) {
		auto start = std::chrono::steady_clock::now();

		try {
			t.bytes += one(request);
			t.done++;
		} catch (const std::bad_alloc &) {
			t.refused++;
		}
		std::chrono::duration<float, std::micro> took =
			std::chrono::steady_clock::now() - start;
		t.us.push_back(took.count());
	}
}

void work(tenant &t, const std::string &request, long limit)
{
	t.us.reserve(std::size_t(nr_requests));
#ifdef LOAD_SLUB
	if (mode == "slub") {
		slub::group group("tenant");

		if (limit)
			group.set_limit(SLUB_GROUP_MAX, std::size_t(limit) << 10);
		{
			slub::group_guard inside(group);

			serve_all(t, request);
		}
		t.charged = group.stats().usage;
		t.peak = group.stats().peak;
		return;
	}
#endif
	static_cast<void>(limit);
	serve_all(t, request);
}

float quantile(std::vector<float> all, double part)
{
	auto at = all.begin() + std::ptrdiff_t(double(all.size() - 1) * part);

	std::nth_element(all.begin(), at, all.end());
	return *at;
}

/* The peak of this program itself; that of getrusage() begins with its parent's. */
long peak_kib()
{
	std::ifstream file("/proc/self/status");
	std::string line;

	while (std::getline(file, line)) {
		if (line.rfind("VmHWM:", 0) == 0)
			return std::atol(line.c_str() + 6);
	}
	return 0;
}

void print(const std::vector<tenant> &tenants)
{
	struct rusage usage;
	const char *comma = "";

	getrusage(RUSAGE_SELF, &usage);
	std::printf("{\"cpu_seconds\": %.3f, \"peak_mib\": %.1f, \"tenants\": [",
		    double(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
			    double(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) / 1e6,
		    double(peak_kib()) / 1024);
	for (const tenant &t : tenants) {
		std::printf("%s{\"done\": %ld, \"refused\": %ld, \"bytes\": %zu, \"p50_us\": %.1f, "
			    "\"p99_us\": %.1f, \"charged\": %zu, \"peak\": %zu}", comma, t.done,
			    t.refused, t.bytes, double(quantile(t.us, .5)),
			    double(quantile(t.us, .99)), t.charged, t.peak);
		comma = ", ";
	}
	std::printf("]}\n");
}

} // namespace

int main(int argc, char **argv)
{
	if (argc < 5 || std::atol(argv[3]) <= 0 || std::atoi(argv[4]) <= 0) {
		std::fprintf(stderr, "usage: load MODE FILE REQUESTS THREADS [LIMIT_KIB]\n");
		return 2;
	}
	std::ifstream file(argv[2], std::ios::binary);
	std::string request{ std::istreambuf_iterator<char>(file), {} };
	std::vector<tenant> tenants(std::size_t(std::atoi(argv[4])));
	std::vector<std::thread> threads;

	mode = argv[1];
	nr_requests = std::atol(argv[3]);
	for (tenant &t : tenants) {
		long limit = &t == &tenants[0] && argc > 5 ? std::atol(argv[5]) : 0;

		threads.emplace_back([&t, &request, limit] { work(t, request, limit); });
	}
	for (std::thread &thread : threads)
		thread.join();
	print(tenants);
	return 0;
}
