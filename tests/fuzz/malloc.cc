// SPDX-License-Identifier: MIT
//
// The malloc family and the C++ operators against a model: each block that is handed out has the
// size and the alignment that were asked for, overlaps no other, keeps what is written to it until
// it is freed, and no call changes errno but as it says.  An input is a program of calls.  Its
// backend, debugging and guards come from the environment (SLUB_FASTPATH, SLUB_DEBUG, SLUB_GUARD).
//
// The library's functions have the prefix tested_ here: malloc itself is the C library's.  Without
// AddressSanitizer, whose operator new the library would take for the program's own.

#include "fuzz.h"

#include <cerrno>
#include <map>
#include <malloc.h>
#include <new>

extern "C" {
void *tested_malloc(size_t);
void *tested_calloc(size_t, size_t);
void *tested_realloc(void *, size_t);
void *tested_reallocarray(void *, size_t, size_t);
void *tested_aligned_alloc(size_t, size_t);
void *tested_memalign(size_t, size_t);
int tested_posix_memalign(void **, size_t, size_t);
void *tested_valloc(size_t);
void *tested_pvalloc(size_t);
size_t tested_malloc_usable_size(void *);
int tested_malloc_trim(size_t);
int tested_mallopt(int, int);
struct mallinfo2 tested_mallinfo2(void);
void tested_free(void *);
void tested_free_sized(void *, size_t);
void tested_free_aligned_sized(void *, size_t, size_t);
// new, new[], and what is behind their types in the end of the name: nothrow, alignment, both.
void *tested__Znwm(size_t);
void *tested__Znam(size_t);
void *tested__ZnwmRKSt9nothrow_t(size_t, const std::nothrow_t &);
void *tested__ZnamRKSt9nothrow_t(size_t, const std::nothrow_t &);
void *tested__ZnwmSt11align_val_t(size_t, size_t);
void *tested__ZnamSt11align_val_t(size_t, size_t);
void *tested__ZnwmSt11align_val_tRKSt9nothrow_t(size_t, size_t, const std::nothrow_t &);
void *tested__ZnamSt11align_val_tRKSt9nothrow_t(size_t, size_t, const std::nothrow_t &);
void tested__ZdlPv(void *);
void tested__ZdaPv(void *);
void tested__ZdlPvm(void *, size_t);
void tested__ZdaPvm(void *, size_t);
void tested__ZdlPvRKSt9nothrow_t(void *, const std::nothrow_t &);
void tested__ZdaPvRKSt9nothrow_t(void *, const std::nothrow_t &);
void tested__ZdlPvSt11align_val_t(void *, size_t);
void tested__ZdaPvSt11align_val_t(void *, size_t);
void tested__ZdlPvmSt11align_val_t(void *, size_t, size_t);
void tested__ZdaPvmSt11align_val_t(void *, size_t, size_t);
void tested__ZdlPvSt11align_val_tRKSt9nothrow_t(void *, size_t, const std::nothrow_t &);
void tested__ZdaPvSt11align_val_tRKSt9nothrow_t(void *, size_t, const std::nothrow_t &);
}

namespace {

constexpr size_t BLOCKS = 64, PAGE = 4096, STAMPED = 64, CALLS_MAX = 2000;
constexpr size_t LIVE_MAX = 64 << 20;		// asked for at once, so that no memory is missing
constexpr int ERRNO_BEFORE = 4711;

struct Block {
	unsigned char *ptr;
	size_t size, align;	// as asked for
	size_t usable;
	unsigned int seed;
	bool new_only;
};

Block blocks[BLOCKS];
std::map<uintptr_t, size_t> live;	// address -> usable bytes
size_t live_bytes;
unsigned int next_seed;

// ---- contents ----

unsigned char stamp(const Block &block, size_t at)
{
	return (unsigned char)(at * 131 + (at >> 8) * 17 + block.seed);
}

// The places of a block that are written and checked: all of a small one, both ends of each other
// and a word in some pages between.
template <typename Visit> void for_places(size_t bytes, Visit visit)
{
	size_t step = bytes / 64 > PAGE ? bytes / 64 : PAGE;

	if (bytes <= 2 * PAGE) {
		for (size_t i = 0; i < bytes; i++)
			visit(i);
		return;
	}
	for (size_t i = 0; i < STAMPED; i++) {
		visit(i);
		visit(bytes - 1 - i);
	}
	for (size_t i = step; i < bytes - STAMPED; i += step)
		visit(i);
}

void write_all(const Block &block)
{
	for_places(block.size, [&](size_t i) { block.ptr[i] = stamp(block, i); });
}

void check_all(const Block &block)
{
	for_places(block.size, [&](size_t i) {
		if (block.ptr[i] != stamp(block, i))
			broken("block of %zu bytes at %p: byte %zu changed", block.size,
			       (void *)block.ptr, i);
	});
}

// ---- the model ----

void model_enter(Block &block)
{
	uintptr_t start = (uintptr_t)block.ptr, end;
	auto after = live.lower_bound(start);

	block.usable = tested_malloc_usable_size(block.ptr);
	end = start + (block.usable ? block.usable : 1);
	if (block.usable < block.size)
		broken("asked for %zu bytes, usable %zu", block.size, block.usable);
	if (start % block.align)
		broken("%p is not aligned to %zu", (void *)block.ptr, block.align);
	if (after != live.end() && after->first < end)
		broken("%p overlaps the block behind it", (void *)block.ptr);
	if (after != live.begin() && (--after)->first + after->second > start)
		broken("%p overlaps the block before it", (void *)block.ptr);
	live[start] = end - start;
	live_bytes += block.size;
	block.seed = next_seed++;
	write_all(block);
}

void model_leave(const Block &block)
{
	check_all(block);
	expect(tested_malloc_usable_size(block.ptr) == block.usable);
	live.erase((uintptr_t)block.ptr);
	live_bytes -= block.size;
}

// ---- numbers of an input ----

// Of each kind of size: a few bytes, of a class, large, beside a power of two, beside the ends
// of what a size_t can say.
size_t take_size(struct input *in)
{
	uint8_t kind = take_byte(in);

	switch (kind % 16) {
	case 0 ... 4:
		return take_byte(in);
	case 5 ... 8:
		return take_number(in, 2);
	case 9 ... 10:
		return take_number(in, 2) << 6;
	case 11 ... 13:
		return ((size_t)1 << kind / 16 % 16 << 8) + (size_t)(int8_t)take_byte(in);
	case 14:
		return (size_t)PTRDIFF_MAX + (size_t)(int8_t)take_byte(in);
	default:
		return (size_t)0 - take_byte(in);
	}
}

size_t take_align(struct input *in)
{
	uint8_t kind = take_byte(in);

	if (kind < 200)
		return (size_t)1 << kind % 23;
	return kind < 240 ? kind - 200 : (size_t)1 << (kind - 240 + 48);
}

bool is_power(size_t n)
{
	return n && !(n & (n - 1));
}

bool is_impossible(size_t size)
{
	return size > PTRDIFF_MAX;
}

// ---- calls ----

using Allocate = void *(*)(size_t size, size_t align);

// The slot of a new block, which is free then.
Block &take_slot(struct input *in);

void keep(Block &block, void *ptr, size_t size, size_t align)
{
	block = Block{(unsigned char *)ptr, size, align, 0, 0, false};
	model_enter(block);
}

// Refused as the C library refuses: NULL and ENOMEM.  A huge alignment may be refused as well.
bool is_refused(const void *ptr, size_t size, size_t align)
{
	if (ptr) {
		expect(!is_impossible(size));
		return false;
	}
	expect(errno == ENOMEM);
	if (!is_impossible(size) && align < (size_t)1 << 40 && size < (size_t)1 << 40)
		broken("%zu bytes, aligned to %zu, were refused with %zu in use", size, align,
		       live_bytes);
	return true;
}

bool is_too_much(size_t size)
{
	return !is_impossible(size) && live_bytes + size > LIVE_MAX;
}

void call_malloc(struct input *in)
{
	Block &block = take_slot(in);
	size_t size = take_size(in);
	void *ptr;

	if (is_too_much(size))
		return;
	ptr = tested_malloc(size);
	if (!is_refused(ptr, size, 1))
		keep(block, ptr, size, 16);
}

void call_calloc(struct input *in)
{
	Block &block = take_slot(in);
	size_t n = take_size(in), size = take_size(in), bytes;
	unsigned char *ptr;

	if (__builtin_mul_overflow(n, size, &bytes))
		bytes = SIZE_MAX;
	if (is_too_much(bytes))
		return;
	ptr = (unsigned char *)tested_calloc(n, size);
	if (is_refused(ptr, bytes, 1))
		return;
	for_places(bytes, [&](size_t i) { expect(!ptr[i]); });
	keep(block, ptr, bytes, 16);
}

void resize(Block &block, size_t size, void *ptr)
{
	Block old = block;

	if (!ptr) {
		if (size || !old.ptr)
			is_refused(ptr, size, 1);
		else
			block.ptr = nullptr;	// freed
		return;
	}
	expect(!is_impossible(size));
	if (old.ptr) {
		old.size = old.size < size ? old.size : size;
		for (size_t i = 0; i < old.size && i < STAMPED; i++)
			expect(((unsigned char *)ptr)[i] == stamp(old, i));
		if (old.size <= 2 * PAGE || old.size == block.size) {
			old.ptr = (unsigned char *)ptr;
			for_places(old.size, [&](size_t i) {
				// Between the places of the shorter one nothing was written.
				if (block.size <= 2 * PAGE || old.size == block.size)
					expect(old.ptr[i] == stamp(old, i));
			});
		}
		live.erase((uintptr_t)block.ptr);
		live_bytes -= block.size;
	}
	keep(block, ptr, size, 16);
}

void call_realloc(struct input *in, bool is_array)
{
	Block &block = blocks[take_below(in, BLOCKS)];
	size_t n = is_array ? take_size(in) : 1, size = take_size(in), bytes;
	void *ptr;

	if (__builtin_mul_overflow(n, size, &bytes))
		bytes = SIZE_MAX;
	if (is_too_much(bytes))
		return;
	if (block.ptr)
		check_all(block);
	if (!bytes && block.ptr)
		model_leave(block);
	ptr = is_array ? tested_reallocarray(block.ptr, n, size) :
			 tested_realloc(block.ptr, bytes);
	resize(block, bytes, ptr);
	if (!ptr && block.ptr)
		check_all(block);
}

void call_aligned(struct input *in, Allocate allocate, bool rounds_up)
{
	Block &block = take_slot(in);
	size_t align = take_align(in), size = take_size(in);
	void *ptr;

	if (is_too_much(size) || (align < (size_t)1 << 40 && is_too_much(align)))
		return;
	ptr = allocate(size, align);
	if (!rounds_up && !is_power(align)) {
		expect(!ptr && errno == EINVAL);
		return;
	}
	if (rounds_up && align > (size_t)PTRDIFF_MAX + 1) {
		expect(!ptr && errno == EINVAL);
		return;
	}
	while (!is_power(align))
		align++;
	if (!is_refused(ptr, size, align))
		keep(block, ptr, size, align > 16 ? align : 16);
}

void call_posix_memalign(struct input *in)
{
	Block &block = take_slot(in);
	size_t align = take_align(in), size = take_size(in);
	void *before = &block, *ptr = before;
	int error;

	if (is_too_much(size) || (align < (size_t)1 << 40 && is_too_much(align)))
		return;
	error = tested_posix_memalign(&ptr, align, size);
	expect(errno == (error == ENOMEM ? ENOMEM : ERRNO_BEFORE) || !error);
	expect((error == EINVAL) == (!is_power(align) || align % sizeof(void *)));
	if (error) {
		expect(ptr == before);
		expect(error == EINVAL || error == ENOMEM);
		errno = ENOMEM;
		if (error == ENOMEM)
			is_refused(nullptr, size, align);
		return;
	}
	if (!is_refused(ptr, size, align))
		keep(block, ptr, size, align > 16 ? align : 16);
}

void call_paged(struct input *in, bool whole)
{
	Block &block = take_slot(in);
	size_t size = take_size(in), whole_size = size;
	void *ptr;

	if (is_too_much(size))
		return;
	ptr = whole ? tested_pvalloc(size) : tested_valloc(size);
	if (whole && !is_impossible(size))
		whole_size = (size + (size == 0) + PAGE - 1) & -PAGE;
	if (!is_refused(ptr, whole_size, PAGE))
		keep(block, ptr, whole_size, PAGE);
}

void *new_of_kind(unsigned int kind, size_t size, size_t align)
{
	switch (kind) {
	case 0: return tested__Znwm(size);
	case 1: return tested__Znam(size);
	case 2: return tested__ZnwmRKSt9nothrow_t(size, std::nothrow);
	case 3: return tested__ZnamRKSt9nothrow_t(size, std::nothrow);
	case 4: return tested__ZnwmSt11align_val_t(size, align);
	case 5: return tested__ZnamSt11align_val_t(size, align);
	case 6: return tested__ZnwmSt11align_val_tRKSt9nothrow_t(size, align, std::nothrow);
	default: return tested__ZnamSt11align_val_tRKSt9nothrow_t(size, align, std::nothrow);
	}
}

void call_new(struct input *in)
{
	Block &block = take_slot(in);
	unsigned int kind = take_below(in, 8);
	bool throws = kind % 4 < 2, is_aligned = kind >= 4;
	size_t align = is_aligned ? (size_t)1 << take_below(in, 21) : 16;
	size_t size = take_size(in);
	void *ptr = nullptr;
	bool thrown = false;

	if (is_too_much(size) || is_too_much(align))
		return;
	try {
		ptr = new_of_kind(kind, size, align);
	} catch (const std::bad_alloc &) {
		thrown = true;
	}
	expect(!!ptr == !is_impossible(size));
	expect(thrown == (throws && !ptr));
	if (ptr)
		keep(block, ptr, size, align > 16 ? align : 16);
}

void delete_by(unsigned int way, const Block &block)
{
	void *ptr = block.ptr;
	size_t size = block.size, align = block.align;

	switch (way) {
	case 0: tested_free_sized(ptr, size); break;
	case 1: tested_free_aligned_sized(ptr, align, size); break;
	case 2: tested__ZdlPv(ptr); break;
	case 3: tested__ZdaPv(ptr); break;
	case 4: tested__ZdlPvm(ptr, size); break;
	case 5: tested__ZdaPvm(ptr, size); break;
	case 6: tested__ZdlPvRKSt9nothrow_t(ptr, std::nothrow); break;
	case 7: tested__ZdaPvRKSt9nothrow_t(ptr, std::nothrow); break;
	case 8: tested__ZdlPvSt11align_val_t(ptr, align); break;
	case 9: tested__ZdaPvSt11align_val_t(ptr, align); break;
	case 10: tested__ZdlPvmSt11align_val_t(ptr, size, align); break;
	case 11: tested__ZdaPvmSt11align_val_t(ptr, size, align); break;
	case 12: tested__ZdlPvSt11align_val_tRKSt9nothrow_t(ptr, align, std::nothrow); break;
	case 13: tested__ZdaPvSt11align_val_tRKSt9nothrow_t(ptr, align, std::nothrow); break;
	default: tested_free(ptr); break;
	}
}

// Sizes are told as they are; an aligned block by a form that says its alignment.
void release(Block &block, unsigned int way)
{
	errno = ERRNO_BEFORE;
	if (!block.ptr) {
		tested_free(nullptr);
	} else {
		model_leave(block);
		if (block.align > 16 && (way == 0 || way == 4 || way == 5))
			way = 1;
		delete_by(way, block);
		block.ptr = nullptr;
	}
	expect(errno == ERRNO_BEFORE);
}

Block &take_slot(struct input *in)
{
	Block &block = blocks[take_below(in, BLOCKS)];

	release(block, 15);
	errno = ERRNO_BEFORE;
	return block;
}

// What is not the library's stays as it is.
void call_foreign(struct input *in)
{
	static char foreign[64];
	void *ptr = foreign + take_below(in, 48);

	tested_free(ptr);
	expect(errno == ERRNO_BEFORE);
	expect(!tested_malloc_usable_size(ptr));
	expect(!tested_realloc(ptr, 1 + take_byte(in)) && errno == ENOMEM);
}

void call_knob(struct input *in)
{
	int param = (int8_t)take_byte(in), known;

	known = param == M_MXFAST || (param <= M_TRIM_THRESHOLD && param >= M_ARENA_MAX);
	expect(tested_mallopt(param, (int)take_number(in, 4)) == known);
}

// How many free objects lie in lists is known once they are empty.
void call_info()
{
	struct mallinfo2 info = tested_mallinfo2();

	expect(info.uordblks + info.fordblks == info.arena);
	tested_malloc_trim(0);
	info = tested_mallinfo2();
	if (info.uordblks + info.hblkhd < live_bytes)
		broken("%zu bytes in use, and the program has %zu", info.uordblks + info.hblkhd,
		       live_bytes);
}

void call(struct input *in)
{
	errno = ERRNO_BEFORE;
	switch (take_below(in, 32)) {
	case 0 ... 3: call_malloc(in); break;
	case 4 ... 5: call_calloc(in); break;
	case 6 ... 8: call_realloc(in, false); break;
	case 9: call_realloc(in, true); break;
	case 10: call_aligned(in, [](size_t size, size_t align) {
			 return tested_aligned_alloc(align, size); }, false); break;
	case 11: call_aligned(in, [](size_t size, size_t align) {
			 return tested_memalign(align, size); }, true); break;
	case 12: call_posix_memalign(in); break;
	case 13: call_paged(in, false); break;
	case 14: call_paged(in, true); break;
	case 15 ... 17: call_new(in); break;
	case 18 ... 21: release(blocks[take_below(in, BLOCKS)], 15); break;
	case 22 ... 27: {
		Block &block = blocks[take_below(in, BLOCKS)];

		release(block, take_below(in, 15));
		break;
	}
	case 28: tested_malloc_trim(take_number(in, 3)); break;
	case 29: call_knob(in); break;
	case 30: call_info(); break;
	default: call_foreign(in); break;
	}
}

// With every list emptied, what the library says is in use is what was at the start.
void check_nothing_left()
{
	static size_t before, runs;
	struct mallinfo2 info;

	if (runs++ % 64)
		return;
	tested_malloc_trim(0);
	info = tested_mallinfo2();
	if (runs == 1)
		before = info.uordblks + info.hblkhd;
	if (info.uordblks + info.hblkhd != before)
		broken("%zu bytes in use, %zu at the start", info.uordblks + info.hblkhd, before);
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = { data, size };

	for (size_t i = 0; in.left && i < CALLS_MAX; i++)
		call(&in);
	for (Block &block : blocks)
		release(block, 15);
	expect(live.empty() && !live_bytes);
	check_nothing_left();
	return 0;
}
