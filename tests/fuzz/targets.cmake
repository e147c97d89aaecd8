# SPDX-License-Identifier: MIT
#
# The fuzz targets, built by clang with SLUB_BUILD_FUZZ in a build folder of their own, which
# tests/fuzz/run makes.  It is part of the top folder's scope, where the library's objects are
# known.

set(fuzz_folder ${CMAKE_CURRENT_LIST_DIR})

if(NOT CMAKE_C_COMPILER_ID STREQUAL "Clang")
	message(FATAL_ERROR "SLUB_BUILD_FUZZ is for clang, which has libFuzzer; "
		"tests/fuzz/run builds so")
endif()
find_package(Threads REQUIRED)

# As in libslub.so, but malloc is the sanitizer's: what the library would take the place of has
# the prefix tested_.
set(renames "")
file(READ ${PROJECT_SOURCE_DIR}/src/libslub.map map)
string(REGEX REPLACE "/\\*.*\\*/" "" map "${map}")
string(REGEX MATCHALL "[a-zA-Z_][a-zA-Z0-9_]*" symbols "${map}")
list(REMOVE_ITEM symbols global local)
foreach(symbol IN LISTS symbols)
	if(NOT symbol MATCHES "^slub_")
		list(APPEND renames --redefine-sym ${symbol}=tested_${symbol})
	endif()
endforeach()

# The library's own copies of the C library's (src/core/base/string.c): the fuzzer has some, too.
foreach(symbol memchr memcmp memcpy memmove memset strchr strcmp strlen strncmp strnlen strrchr
	strspn strcspn strstr bcmp)
	list(APPEND renames --localize-symbol=${symbol})
endforeach()

# All objects of the library as one; in the second, what is not exported is local.
set(open_object ${CMAKE_CURRENT_BINARY_DIR}/fuzz_slub_open.o)
set(slub_object ${CMAKE_CURRENT_BINARY_DIR}/fuzz_slub.o)
add_custom_command(OUTPUT ${open_object} ${slub_object}
	COMMAND ${CMAKE_LINKER} -r -o ${open_object} $<TARGET_OBJECTS:slub_objects>
	COMMAND ${CMAKE_OBJCOPY} ${renames} ${open_object}
	COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${open_object} ${slub_object}
	DEPENDS slub_objects $<TARGET_OBJECTS:slub_objects>
	COMMAND_EXPAND_LISTS VERBATIM)
add_custom_target(fuzz_objects DEPENDS ${open_object} ${slub_object})

add_custom_target(fuzz_targets)

# fuzz_target(NAME OBJECT SOURCE...)
function(fuzz_target name object)
	list(TRANSFORM ARGN PREPEND ${fuzz_folder}/)
	add_executable(fuzz_${name} ${ARGN})
	target_include_directories(fuzz_${name} PRIVATE ${fuzz_folder})
	target_compile_options(fuzz_${name} PRIVATE -Wall -Wextra -fno-builtin)
	target_compile_definitions(fuzz_${name} PRIVATE _GNU_SOURCE)
	target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
	target_link_libraries(fuzz_${name} PRIVATE ${object} slub_config Threads::Threads
		${CMAKE_DL_LIBS})
	add_dependencies(fuzz_${name} fuzz_objects)
	add_dependencies(fuzz_targets fuzz_${name})
endfunction()

fuzz_target(malloc ${slub_object} malloc.cc)
fuzz_target(api ${slub_object} api.c api_caches.c api_groups.c api_pools.c)

# The command and the library check the same options.
fuzz_target(options ${open_object} options.c ../../tools/slub/settings.c ../../tools/slub/clean.c
	../../tools/slub/message.c ../../tools/slub/nearest.c)

fuzz_target(symbol ${open_object} symbol.c)

# The readers of the command, with AddressSanitizer as well: they have a malloc that it knows.
# main.c stays out; exit() comes back to the target.
file(GLOB fuzz_tool_sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tools/slub/*.c)
# The names of an older glibc are for what is handed out.
list(REMOVE_ITEM fuzz_tool_sources ${PROJECT_SOURCE_DIR}/tools/slub/old_glibc.c)
list(FILTER fuzz_tool_sources EXCLUDE REGEX "/main[.]c$")
set(fuzz_tool_flags -fsanitize=address)
find_package(ZLIB QUIET)	# its target is known in tools/slub only
add_library(fuzz_tool OBJECT EXCLUDE_FROM_ALL ${fuzz_tool_sources} ${fuzz_folder}/readers.c)
target_include_directories(fuzz_tool PRIVATE $<TARGET_PROPERTY:slub_tool,INCLUDE_DIRECTORIES>
	${fuzz_folder})
target_compile_definitions(fuzz_tool PRIVATE $<TARGET_PROPERTY:slub_tool,COMPILE_DEFINITIONS>)
target_compile_options(fuzz_tool PRIVATE -Wall -Wextra ${SLUB_SANITIZE_FLAGS} ${fuzz_tool_flags})
set_source_files_properties(${fuzz_tool_sources} PROPERTIES COMPILE_DEFINITIONS exit=reader_exit)

# fuzz_reader(NAME SOURCE WRAPPED... [OBJECT]): what is wrapped the target has in its own way.
function(fuzz_reader name source)
	fuzz_target(${name} "${FUZZ_OBJECT}" ${source})
	target_sources(fuzz_${name} PRIVATE $<TARGET_OBJECTS:fuzz_tool>)
	target_compile_options(fuzz_${name} PRIVATE ${fuzz_tool_flags})
	target_link_options(fuzz_${name} PRIVATE ${fuzz_tool_flags})
	target_link_libraries(fuzz_${name} PRIVATE $<TARGET_PROPERTY:slub_tool,LINK_LIBRARIES>)
	foreach(function IN LISTS ARGN)
		target_link_options(fuzz_${name} PRIVATE -Wl,--wrap=${function})
	endforeach()
endfunction()

fuzz_reader(core file.c)
fuzz_reader(stats file.c)
fuzz_reader(profile profile.c profile_find_symbols)
fuzz_reader(trails trails.c pread pwrite unwind unwinder_open unwinder_close)
fuzz_reader(elf elf.c process_read)
fuzz_reader(maps maps.c process_read input_kernel)
set(FUZZ_OBJECT ${slub_object})
fuzz_reader(memory memory.c process_read elf_file_symbol profile_find_symbols)
