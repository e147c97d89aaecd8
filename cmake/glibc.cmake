# SPDX-License-Identifier: MIT
# libslub.so and the command run with glibc 2.28 and later, whichever later one they are linked on.
#
# glibc 2.32 to 2.34 gave what was in libpthread.so.0 and libdl.so.2, and stat(), a new version, for
# which a link asks.  --wrap puts a jump in the place of each such name (src/core/old_glibc.c): it
# asks for the old version (.symver), which every later glibc keeps for the programs of before.
# So the objects stay as they are, for libslub.a too, and no file of another glibc is needed.
#
# Before 2.34 threads and the loader's functions are in libpthread.so.0 and libdl.so.2, which a
# program need not have loaded, and from 2.34 on these are empty files.  The library asks for
# neither and finds the functions in what is loaded: the two would take 72 of 786 microseconds of
# each start, and to load them from the constructor crashes the loader of 2.31, which is in the
# middle of its list then.  -DSLUB_OLD_GLIBC=OFF goes without all of this.
#
# tests/abi/abi_test.py fails where a symbol above 2.28 is needed.

option(SLUB_OLD_GLIBC "Run with glibc 2.28 to 2.33 too" ON)

set(SLUB_OLD_LIBRARY_NAMES dlsym dladdr pthread_key_create pthread_setspecific
	pthread_create pthread_join __libc_single_threaded)
set(SLUB_OLD_COMMAND_NAMES stat lstat fstat dlopen dlsym __libc_start_main)
# A sanitizer's own functions stand before the C library's, and before the jumps.
set(SLUB_HAS_OLD_NAMES OFF)
if(SLUB_OLD_GLIBC AND SLUB_IS_GLIBC AND NOT SLUB_SANITIZE_FLAGS AND
   CMAKE_SYSTEM_PROCESSOR MATCHES "^(x86_64|aarch64|riscv64)$")
	set(SLUB_HAS_OLD_NAMES ON)
endif()

# slub_old_names(TARGET SOURCE NAME...): SOURCE has what stands in the place of the names.
function(slub_old_names target source)
	if(NOT SLUB_HAS_OLD_NAMES)
		return()
	endif()
	target_sources(${target} PRIVATE ${source})
	set_property(SOURCE ${source} TARGET_DIRECTORY ${target} APPEND PROPERTY
		INCLUDE_DIRECTORIES ${PROJECT_SOURCE_DIR}/src)
	set_source_files_properties(${source} PROPERTIES COMPILE_OPTIONS -fno-lto)
	list(TRANSFORM ARGN PREPEND -Wl,--wrap=)
	target_link_options(${target} PRIVATE ${ARGN})
endfunction()

# Of a shared library made from the objects.
function(slub_library_with_old_names target)
	slub_old_names(${target} ${PROJECT_SOURCE_DIR}/src/core/old_glibc.c
		${SLUB_OLD_LIBRARY_NAMES})
endfunction()
