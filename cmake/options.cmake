# SPDX-License-Identifier: MIT
# The build options, checked, and turned into the SLUB_CONFIG_* macros that the
# sources test.  Every macro is always defined: `if (SLUB_CONFIG_SMP)` in C.

option(SLUB_PORTABLE "Build from plain C, as for a CPU that the sources have no assembly for" OFF)
include(${CMAKE_CURRENT_LIST_DIR}/platform.cmake)
set(SLUB_LAYOUT ${SLUB_LAYOUT_DEFAULT} CACHE STRING "Slab descriptor: aligned64, inner56 or lock56")
set_property(CACHE SLUB_LAYOUT PROPERTY STRINGS aligned64 inner56 lock56)
set(SLUB_ASSERT 0 CACHE STRING "Assertions: 0 none, 1 all")
set_property(CACHE SLUB_ASSERT PROPERTY STRINGS 0 1)
option(SLUB_SMP "Build for more than one CPU" ON)
option(SLUB_INJECT "Build the injection points, where tests hold threads up" OFF)
option(SLUB_HARDENED "Build with encoded links and checks on the fast paths" OFF)
option(SLUB_CHECKS "Notice misuse: keys of free objects, starts, links" ON)
option(SLUB_TSAN "Build with ThreadSanitizer" OFF)
option(SLUB_ASAN "Build with AddressSanitizer" OFF)
option(SLUB_UBSAN "Build with UndefinedBehaviorSanitizer" OFF)
option(SLUB_BUILD_TESTS "Build the tests" OFF)
option(SLUB_BUILD_BENCH "Build the benchmarks" OFF)
option(SLUB_BUILD_FUZZ "Build the fuzz targets (clang; tests/fuzz/run does it)" OFF)

# Without NDEBUG: SLUB_ASSERT governs the library's assertions, and assert() in
# a test program must never be compiled out.
if(NOT CMAKE_BUILD_TYPE AND NOT CMAKE_CONFIGURATION_TYPES)
	set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_C_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g")
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# slub_choice(OPTION VALUE...): stops unless the option has one of the values,
# and sets OPTION_INDEX to the value's place in the list.
function(slub_choice option)
	list(FIND ARGN "${${option}}" index)
	if(index EQUAL -1)
		list(JOIN ARGN ", " valid)
		message(FATAL_ERROR "${option}=${${option}} is not known; valid: ${valid}")
	endif()
	set(${option}_INDEX ${index} PARENT_SCOPE)
endfunction()

slub_choice(SLUB_LAYOUT aligned64 inner56 lock56)
slub_choice(SLUB_ASSERT 0 1)
if(NOT SLUB_HAS_DOUBLE_WORD AND NOT SLUB_LAYOUT STREQUAL "lock56")
	message(FATAL_ERROR "SLUB_LAYOUT=${SLUB_LAYOUT} exchanges two words at once, which libslub "
		"cannot on ${SLUB_PLATFORM}; SLUB_LAYOUT=lock56 works there")
endif()
if(SLUB_UBSAN AND (SLUB_TSAN OR SLUB_ASAN))
	message(FATAL_ERROR "SLUB_UBSAN excludes SLUB_TSAN and SLUB_ASAN; choose one")
endif()
if(SLUB_TSAN AND SLUB_ASAN)
	message(FATAL_ERROR "SLUB_TSAN and SLUB_ASAN exclude each other; choose one")
endif()

set(SLUB_SANITIZE_FLAGS "")
if(SLUB_TSAN)
	set(SLUB_SANITIZE_FLAGS -fsanitize=thread)
elseif(SLUB_ASAN)
	set(SLUB_SANITIZE_FLAGS -fsanitize=address)
elseif(SLUB_UBSAN)
	set(SLUB_SANITIZE_FLAGS -fsanitize=undefined -fno-sanitize-recover=undefined)
elseif(SLUB_BUILD_FUZZ)
	set(SLUB_SANITIZE_FLAGS -fsanitize=fuzzer-no-link,undefined
		-fno-sanitize-recover=undefined)
endif()

# What every object of the library is compiled with, and what a unit test that
# includes the library's internal headers has to be compiled with too.
set(SLUB_IS_HARDENED $<BOOL:${SLUB_HARDENED}>)
set(SLUB_IS_CHECKED $<BOOL:${SLUB_CHECKS}>)
set(SLUB_IS_UNCHECKED $<BOOL:$<TARGET_PROPERTY:SLUB_UNCHECKED>>)
add_library(slub_config INTERFACE)
target_include_directories(slub_config INTERFACE ${PROJECT_SOURCE_DIR}/include)
# For quoted names alone: the C++ library has a <debug/debug.h> too.
target_compile_options(slub_config INTERFACE "SHELL:-iquote \"${PROJECT_SOURCE_DIR}/src\"")
target_compile_definitions(slub_config INTERFACE
	SLUB_CONFIG_LAYOUT=${SLUB_LAYOUT_INDEX}
	SLUB_CONFIG_SMP=$<BOOL:${SLUB_SMP}>
	SLUB_CONFIG_PORTABLE=$<BOOL:${SLUB_PORTABLE}>
	SLUB_CONFIG_ASSERT=${SLUB_ASSERT}
	SLUB_CONFIG_INJECT=$<BOOL:${SLUB_INJECT}>
	# The target slub_unchecked has none.
	SLUB_CONFIG_CHECKS=$<AND:${SLUB_IS_CHECKED},$<NOT:${SLUB_IS_UNCHECKED}>>
	# The target slub_hardened is so in every build.
	SLUB_CONFIG_HARDENED=$<OR:${SLUB_IS_HARDENED},$<BOOL:$<TARGET_PROPERTY:SLUB_HARDENED>>>)
target_compile_options(slub_config INTERFACE ${SLUB_SANITIZE_FLAGS})
target_link_options(slub_config INTERFACE ${SLUB_SANITIZE_FLAGS})
if(SLUB_CPU STREQUAL "x86_64")
	target_compile_options(slub_config INTERFACE -mcx16)
endif()
