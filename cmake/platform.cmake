# SPDX-License-Identifier: MIT
# What CPU and C library there are, and what libslub has for them; one line says so.
#
#   SLUB_CPU              x86_64, aarch64, or "portable": plain C, for any other 64-bit CPU
#   SLUB_LIBC             glibc, or musl
#   SLUB_HAS_DOUBLE_WORD  two words are exchanged at once
#   SLUB_LEFT_OUT         functions that stay the C library's own
#   SLUB_NOT_THERE        names that only glibc has

include(CheckSymbolExists)

if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
	message(FATAL_ERROR "libslub needs addresses of 64 bits, and ${CMAKE_C_COMPILER} has "
		"shorter ones on ${CMAKE_SYSTEM_PROCESSOR}; x86_64 and aarch64 work")
endif()

check_symbol_exists(__GLIBC__ features.h SLUB_IS_GLIBC)
if(SLUB_IS_GLIBC)
	set(SLUB_LIBC glibc)
else()
	set(SLUB_LIBC musl)	# which has no macro that says so
endif()

# gcc exchanges single bytes on some CPUs by calls of its own library, statically linked.
include(CheckCSourceCompiles)
check_c_source_compiles("
	unsigned char byte;
	int main(int c, char **v) { (void)v; return __atomic_exchange_n(&byte, c, 0); }"
	SLUB_HAS_BYTE_ATOMICS)
set(SLUB_ATOMIC_LIBRARY "")
if(NOT SLUB_HAS_BYTE_ATOMICS)
	set(SLUB_ATOMIC_LIBRARY -Wl,--push-state,-Bstatic -latomic -Wl,--pop-state)
endif()

set(SLUB_CPU portable)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64)$" AND NOT SLUB_PORTABLE)
	set(SLUB_CPU ${CMAKE_SYSTEM_PROCESSOR})
endif()

set(SLUB_LEFT_OUT "")
set(SLUB_NOT_THERE "")
if(SLUB_CPU STREQUAL "portable")
	set(SLUB_HAS_DOUBLE_WORD OFF)
	set(SLUB_LAYOUT_DEFAULT lock56)
	set(SLUB_BACKENDS "thread, lock")
	list(APPEND SLUB_LEFT_OUT vfork __vfork)
else()
	set(SLUB_HAS_DOUBLE_WORD ON)
	set(SLUB_LAYOUT_DEFAULT aligned64)
	set(SLUB_BACKENDS "rseq, thread, tid, lock")
endif()
if(SLUB_CPU STREQUAL "portable" OR NOT SLUB_IS_GLIBC)
	list(APPEND SLUB_LEFT_OUT dlopen)
endif()

if(NOT SLUB_IS_GLIBC)
	list(APPEND SLUB_LEFT_OUT clone mallinfo mallinfo2 mallopt)
	set(SLUB_NOT_THERE __libc_malloc __libc_free __libc_calloc __libc_realloc
		__libc_memalign __libc_valloc __libc_pvalloc __posix_memalign)
endif()

set(SLUB_PLATFORM "${CMAKE_SYSTEM_PROCESSOR}, ${SLUB_LIBC}")
if(SLUB_CPU STREQUAL "portable")
	string(APPEND SLUB_PLATFORM ", from plain C")
endif()
set(left "")
if(SLUB_LEFT_OUT)
	list(JOIN SLUB_LEFT_OUT ", " left)
	set(left "; left to the C library: ${left}")
endif()
message(STATUS "libslub for ${SLUB_PLATFORM}: backends ${SLUB_BACKENDS}${left}")
