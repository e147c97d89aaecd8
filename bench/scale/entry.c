/* SPDX-License-Identifier: MIT */
/*
 * What gcc and clang call under -fsanitize=thread, in place of ThreadSanitizer's runtime.  A
 * plain access is announced; an atomic one is made here.
 *
 * A lock is known by what LOCK-3 (core/base/lock.h) promises: the instruction that takes it puts
 * the thread's name where 0 was, and the one that gives it back puts 0 where the name was.
 */
#include <string.h>

#include "core/base/lock.h"

#include "scale.h"

#define HERE ((uintptr_t)__builtin_return_address(0))

void __tsan_init(void);
void __tsan_init(void)
{
}

void __tsan_func_entry(void *pc);
void __tsan_func_entry(void *pc)
{
	shadow_frames[shadow_depth++ % FRAMES_MAX] = (uintptr_t)pc;
}

void __tsan_func_exit(void);
void __tsan_func_exit(void)
{
	if (shadow_depth)
		shadow_depth--;
}

/* ---- plain ---- */

#define PLAIN(name_, bytes_, access_)					\
void __tsan_##name_(void *address);					\
void __tsan_##name_(void *address)					\
{									\
	shadow_access((uintptr_t)address, bytes_, access_, HERE);	\
}

#define PLAIN_BOTH(bytes_)						\
PLAIN(read##bytes_, bytes_, ACCESS_READ)				\
PLAIN(write##bytes_, bytes_, ACCESS_WRITE)				\
PLAIN(unaligned_read##bytes_, bytes_, ACCESS_READ)			\
PLAIN(unaligned_write##bytes_, bytes_, ACCESS_WRITE)			\
PLAIN(volatile_read##bytes_, bytes_, ACCESS_READ)			\
PLAIN(volatile_write##bytes_, bytes_, ACCESS_WRITE)

PLAIN_BOTH(1)
PLAIN_BOTH(2)
PLAIN_BOTH(4)
PLAIN_BOTH(8)
PLAIN_BOTH(16)

void __tsan_read_range(void *address, unsigned long bytes);
void __tsan_read_range(void *address, unsigned long bytes)
{
	if (bytes)
		shadow_access((uintptr_t)address, bytes, ACCESS_READ, HERE);
}

void __tsan_write_range(void *address, unsigned long bytes);
void __tsan_write_range(void *address, unsigned long bytes)
{
	if (bytes)
		shadow_access((uintptr_t)address, bytes, ACCESS_WRITE, HERE);
}

/* clang's, of whole structures; the library's own functions (core/base/string.c) do the work. */
void *__tsan_memset(void *start, int byte, unsigned long bytes);
void *__tsan_memset(void *start, int byte, unsigned long bytes)
{
	__tsan_write_range(start, bytes);
	return memset(start, byte, bytes);
}

void *__tsan_memcpy(void *to, const void *from, unsigned long bytes);
void *__tsan_memcpy(void *to, const void *from, unsigned long bytes)
{
	__tsan_write_range(to, bytes);
	return memcpy(to, from, bytes);
}

void *__tsan_memmove(void *to, const void *from, unsigned long bytes);
void *__tsan_memmove(void *to, const void *from, unsigned long bytes)
{
	__tsan_write_range(to, bytes);
	return memmove(to, from, bytes);
}

/* ---- atomic: a word, read and written ---- */

static void word_taken(const void *word, size_t bytes, uint64_t from, uint64_t to, uintptr_t pc)
{
	uint32_t self = thread_self();

	shadow_access((uintptr_t)word, bytes, ACCESS_RMW, pc);
	if (bytes != sizeof(uint32_t))
		return;
	if (from == 0 && (to & ~(uint64_t)LOCK_WAITERS) == self)
		lock_take((uintptr_t)word, pc);
	else if ((from & ~(uint64_t)LOCK_WAITERS) == self && to == 0)
		lock_give((uintptr_t)word);
}

#define FETCH(bits_, type_, name_, operation_)				\
type_ __tsan_atomic##bits_##_fetch_##name_(volatile type_ *word, type_ value, int order); \
type_ __tsan_atomic##bits_##_fetch_##name_(volatile type_ *word, type_ value, int order) \
{									\
	(void)order;							\
	shadow_access((uintptr_t)word, sizeof(*word), ACCESS_RMW, HERE); \
	return operation_(word, value, __ATOMIC_SEQ_CST);		\
}

#define COMPARE(bits_, type_, name_)					\
int __tsan_atomic##bits_##_compare_exchange_##name_(volatile type_ *word, type_ *old, \
						    type_ value, int order, int failed); \
int __tsan_atomic##bits_##_compare_exchange_##name_(volatile type_ *word, type_ *old, \
						    type_ value, int order, int failed) \
{									\
	bool done = __atomic_compare_exchange_n(word, old, value, false,	\
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
									\
	(void)order;							\
	(void)failed;							\
	if (done)							\
		word_taken((const void *)word, sizeof(*word), *old, value, HERE); \
	else								\
		shadow_access((uintptr_t)word, sizeof(*word), ACCESS_RMW, HERE); \
	return done;							\
}

/* clang's way to say it. */
#define COMPARE_VALUE(bits_, type_)					\
type_ __tsan_atomic##bits_##_compare_exchange_val(volatile type_ *word, type_ old, \
						  type_ value, int order, int failed); \
type_ __tsan_atomic##bits_##_compare_exchange_val(volatile type_ *word, type_ old, \
						  type_ value, int order, int failed) \
{									\
	type_ found = old;						\
	bool done = __atomic_compare_exchange_n(word, &found, value, false,	\
						__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST); \
									\
	(void)order;							\
	(void)failed;							\
	if (done)							\
		word_taken((const void *)word, sizeof(*word), old, value, HERE); \
	else								\
		shadow_access((uintptr_t)word, sizeof(*word), ACCESS_RMW, HERE); \
	return found;							\
}

#define ATOMIC(bits_, type_)						\
type_ __tsan_atomic##bits_##_load(const volatile type_ *word, int order); \
type_ __tsan_atomic##bits_##_load(const volatile type_ *word, int order) \
{									\
	(void)order;							\
	shadow_access((uintptr_t)word, sizeof(*word), ACCESS_READ, HERE); \
	return __atomic_load_n(word, __ATOMIC_SEQ_CST);			\
}									\
									\
void __tsan_atomic##bits_##_store(volatile type_ *word, type_ value, int order); \
void __tsan_atomic##bits_##_store(volatile type_ *word, type_ value, int order) \
{									\
	(void)order;							\
	shadow_access((uintptr_t)word, sizeof(*word), ACCESS_WRITE, HERE); \
	__atomic_store_n(word, value, __ATOMIC_SEQ_CST);		\
}									\
									\
type_ __tsan_atomic##bits_##_exchange(volatile type_ *word, type_ value, int order); \
type_ __tsan_atomic##bits_##_exchange(volatile type_ *word, type_ value, int order) \
{									\
	type_ old = __atomic_exchange_n(word, value, __ATOMIC_SEQ_CST);	\
									\
	(void)order;							\
	word_taken((const void *)word, sizeof(*word), old, value, HERE); \
	return old;							\
}									\
FETCH(bits_, type_, add, __atomic_fetch_add)				\
FETCH(bits_, type_, sub, __atomic_fetch_sub)				\
FETCH(bits_, type_, and, __atomic_fetch_and)				\
FETCH(bits_, type_, or, __atomic_fetch_or)				\
FETCH(bits_, type_, xor, __atomic_fetch_xor)				\
FETCH(bits_, type_, nand, __atomic_fetch_nand)				\
COMPARE(bits_, type_, strong)						\
COMPARE(bits_, type_, weak)						\
COMPARE_VALUE(bits_, type_)

ATOMIC(8, uint8_t)
ATOMIC(16, uint16_t)
ATOMIC(32, uint32_t)
ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order);
void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order);
void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}
