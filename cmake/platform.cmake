# SPDX-License-Identifier: MIT
# What CPU and C library there are, and what libslub has for them; one line says so.
#
#   SLUB_CPU              x86_64, aarch64, or "portable": plain C, for any other 64-bit CPU
#   SLUB_LIBC             glibc, or musl
#   SLUB_HAS_DOUBLE_WORD  two words are exchanged at once
#   SLUB_LEFT_OUT         functions that stay the C library's own
#   SLUB_NOT_THERE        names that only glibc has

include(CheckSymbolExists)

# One line, for CMake breaks others than those that begin with a space: what is not to be had, and
# what works instead.
function(slub_unsupported what)
	message(FATAL_ERROR " libslub: ${what}")
endfunction()

if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux")
	slub_unsupported("no ${CMAKE_SYSTEM_NAME}; Linux works, with glibc or musl")
endif()
if(NOT CMAKE_SIZEOF_VOID_P EQUAL 8)
	slub_unsupported("no addresses of less than 64 bits, as ${CMAKE_C_COMPILER} has; x86_64 \
and aarch64 work, and from plain C any CPU of 64 bits")
endif()

include(CheckCSourceCompiles)

# musl has no macro that says so.  Those that have one are others.
check_c_source_compiles("
	#include <features.h>
	#include <limits.h>
	#if defined __UCLIBC__ || defined __BIONIC__ || defined __dietlibc__ || defined __NEWLIB__
	#error
	#endif
	int main(void) { return 0; }" SLUB_KNOWS_LIBC)
if(NOT SLUB_KNOWS_LIBC)
	slub_unsupported("not this C library; glibc from 2.34 on and musl from 1.2 on work")
endif()
check_symbol_exists(__GLIBC__ features.h SLUB_IS_GLIBC)
if(SLUB_IS_GLIBC)
	set(SLUB_LIBC glibc)
	check_c_source_compiles("
		#include <features.h>
		#if !__GLIBC_PREREQ(2, 34)
		#error
		#endif
		int main(void) { return 0; }" SLUB_GLIBC_IS_NEW)
	if(NOT SLUB_GLIBC_IS_NEW)
		slub_unsupported("no glibc before 2.34 to build on, though what is built runs from \
2.28 on; later ones work, and musl from 1.2 on")
	endif()
else()
	set(SLUB_LIBC musl)
endif()

# gcc exchanges single bytes on some CPUs by calls of its own library, statically linked.
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

if(NOT SLUB_CPU STREQUAL "portable" AND CMAKE_C_COMPILER_VERSION VERSION_LESS 11)
	slub_unsupported("no ${CMAKE_C_COMPILER_ID} ${CMAKE_C_COMPILER_VERSION}, which knows no \
asm goto with outputs; gcc and clang from 11 on do, and -DSLUB_PORTABLE=ON works")
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
