# SPDX-License-Identifier: MIT
# libslub.so and libslub.a, from the same objects.

include(CheckLinkerFlag)

file(GLOB_RECURSE SLUB_SOURCES CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/src/*.c ${PROJECT_SOURCE_DIR}/src/*.S)

# For a core by itself, cmake/core.cmake; for shared libraries alone, cmake/glibc.cmake.
list(REMOVE_ITEM SLUB_SOURCES ${PROJECT_SOURCE_DIR}/src/core/without.c
	${PROJECT_SOURCE_DIR}/src/core/old_glibc.c)

# src/core/arch/<cpu>/ is for that processor alone; fallback/ is for every one.
foreach(source IN LISTS SLUB_SOURCES)
	if(source MATCHES "/src/core/arch/([^/]+)/"
	   AND NOT CMAKE_MATCH_1 STREQUAL CMAKE_SYSTEM_PROCESSOR
	   AND NOT CMAKE_MATCH_1 STREQUAL "fallback")
		list(REMOVE_ITEM SLUB_SOURCES ${source})
	endif()
endforeach()

# These call functions of the program that must not throw.  C++17 sees to that; of what is compiled
# as an older C++, or in another language, an exception that finds no way through here ends in
# std::terminate() too, rather than leave a walk or a defrag that never ends.
foreach(caller features/shrinkers/walk features/shrinkers/registry
	features/groups/charge features/groups/handler features/movable/defrag features/typed/find)
	set_source_files_properties(${PROJECT_SOURCE_DIR}/src/${caller}.c PROPERTIES
		COMPILE_OPTIONS -fno-asynchronous-unwind-tables)
endforeach()

# A loop there is not to become a call of the function that it stands in.
set_source_files_properties(${PROJECT_SOURCE_DIR}/src/core/base/string.c PROPERTIES
	COMPILE_OPTIONS "-fno-builtin;$<$<C_COMPILER_ID:GNU>:-fno-tree-loop-distribute-patterns>")

set(SLUB_COMPILE_FLAGS
	-Wall -Wextra -Werror=implicit-function-declaration
	-fvisibility=hidden
	-fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free
	-fno-exceptions -fno-strict-aliasing -fno-stack-protector
	-ftls-model=initial-exec
	# So that debugging (letter U) finds the caller; the fast paths have no frame.
	-fno-omit-frame-pointer)
# The linker makes direct calls of those by address that stay inside the library; that of another
# CPU does not, and does so where the compiler has left it the choice.
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
	list(APPEND SLUB_COMPILE_FLAGS -fno-plt -momit-leaf-frame-pointer)
	# They cost malloc and free instructions (docs/policy/support.md): for builds that ask, as
	# those of some distributions do by CFLAGS=-fcf-protection.
	if(NOT CMAKE_C_FLAGS MATCHES "-fcf-protection")
		list(APPEND SLUB_COMPILE_FLAGS -fcf-protection=none)
	endif()
endif()

add_library(slub_objects OBJECT ${SLUB_SOURCES})
set_target_properties(slub_objects PROPERTIES
	C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
	POSITION_INDEPENDENT_CODE ON)
target_compile_options(slub_objects PRIVATE ${SLUB_COMPILE_FLAGS})
target_link_libraries(slub_objects PRIVATE slub_config)

# initfirst: its fork handlers are registered first, so they run last, when the
# handlers of other libraries, which may wait for a thread that allocates, are done.
# nodelete: the kernel may still look at a restartable sequence's descriptor.
set(SLUB_MAP ${PROJECT_SOURCE_DIR}/src/libslub.map)
if(SLUB_LEFT_OUT)
	file(READ ${SLUB_MAP} map)
	foreach(name IN LISTS SLUB_LEFT_OUT SLUB_NOT_THERE)
		string(REPLACE " ${name};" "" map "${map}")
		string(REPLACE "\t${name};" "\t" map "${map}")
	endforeach()
	set(SLUB_MAP ${PROJECT_BINARY_DIR}/libslub.map)
	file(CONFIGURE OUTPUT ${SLUB_MAP} CONTENT "${map}" @ONLY)
	set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
		${PROJECT_SOURCE_DIR}/src/libslub.map)
endif()
# What every program needs lies together; a linker that does not know INSERT goes without.
set(SLUB_LAYOUT_SCRIPT ${PROJECT_SOURCE_DIR}/src/libslub.ld)
check_linker_flag(C -Wl,-T,${SLUB_LAYOUT_SCRIPT} SLUB_LINKER_TAKES_SCRIPT)
if(SLUB_LINKER_TAKES_SCRIPT)
	set(SLUB_LAYOUT_FLAGS -Wl,-T,${SLUB_LAYOUT_SCRIPT})
endif()
add_library(slub SHARED $<TARGET_OBJECTS:slub_objects>)
set_target_properties(slub PROPERTIES
	VERSION ${PROJECT_VERSION} SOVERSION ${SLUB_SOVERSION}
	LINKER_LANGUAGE C LINK_DEPENDS "${SLUB_MAP};${SLUB_LAYOUT_SCRIPT}")
target_link_options(slub PRIVATE
	-Wl,-z,nodelete -Wl,-z,now -Wl,-z,initfirst -Wl,--version-script=${SLUB_MAP}
	-Wl,--no-undefined-version -Wl,--as-needed -Wl,-Bsymbolic-functions
	${SLUB_LAYOUT_FLAGS} ${SLUB_SANITIZE_FLAGS})
target_include_directories(slub INTERFACE
	$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
	$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(slub PRIVATE ${SLUB_ATOMIC_LIBRARY})
slub_library_with_old_names(slub)
add_library(slub::slub ALIAS slub)

# The hardened build of the same, to be preloaded: `make hardened`, or the target
# slub_hardened.  -DSLUB_HARDENED=ON makes libslub.so and libslub.a so.
add_library(slub_hardened SHARED EXCLUDE_FROM_ALL ${SLUB_SOURCES})
set_target_properties(slub_hardened PROPERTIES
	C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
	SLUB_HARDENED ON OUTPUT_NAME slub-hardened
	LINKER_LANGUAGE C LINK_DEPENDS "${SLUB_MAP};${SLUB_LAYOUT_SCRIPT}" NO_SONAME ON)
target_compile_options(slub_hardened PRIVATE ${SLUB_COMPILE_FLAGS})
target_link_libraries(slub_hardened PRIVATE slub_config ${SLUB_ATOMIC_LIBRARY})
slub_library_with_old_names(slub_hardened)
# Its name in the process is that of the other, so that a program has one of them.
target_link_options(slub_hardened PRIVATE -Wl,-soname,libslub.so.${SLUB_SOVERSION}
	-Wl,-z,nodelete -Wl,-z,now -Wl,-z,initfirst -Wl,--version-script=${SLUB_MAP}
	-Wl,--no-undefined-version -Wl,--as-needed -Wl,-Bsymbolic-functions
	${SLUB_LAYOUT_FLAGS} ${SLUB_SANITIZE_FLAGS})

# The same without checks, to be measured beside it: bench/detection/cost.
add_library(slub_unchecked SHARED EXCLUDE_FROM_ALL ${SLUB_SOURCES})
set_target_properties(slub_unchecked PROPERTIES
	C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
	SLUB_UNCHECKED ON OUTPUT_NAME slub-unchecked
	LINKER_LANGUAGE C LINK_DEPENDS "${SLUB_MAP};${SLUB_LAYOUT_SCRIPT}" NO_SONAME ON)
target_compile_options(slub_unchecked PRIVATE ${SLUB_COMPILE_FLAGS})
target_link_libraries(slub_unchecked PRIVATE slub_config ${SLUB_ATOMIC_LIBRARY})
slub_library_with_old_names(slub_unchecked)
target_link_options(slub_unchecked PRIVATE -Wl,-soname,libslub.so.${SLUB_SOVERSION}
	-Wl,-z,nodelete -Wl,-z,now -Wl,-z,initfirst -Wl,--version-script=${SLUB_MAP}
	-Wl,--no-undefined-version -Wl,--as-needed -Wl,-Bsymbolic-functions
	${SLUB_LAYOUT_FLAGS} ${SLUB_SANITIZE_FLAGS})

# The archive holds one object in which every hidden symbol is local, so that a
# program may have a page_alloc() of its own beside the library's.  operator new is left to the
# program's C++ library (src/features/cxx/cxx_new.c).
set(SLUB_ARCHIVED "$<FILTER:$<TARGET_OBJECTS:slub_objects>,EXCLUDE,/cxx_(new|library)[.]>")
set(SLUB_COMBINED ${PROJECT_BINARY_DIR}/libslub_combined.o)
add_custom_command(OUTPUT ${SLUB_COMBINED}
	COMMAND ${CMAKE_LINKER} -r -o ${SLUB_COMBINED} ${SLUB_ARCHIVED}
	COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${SLUB_COMBINED}
	DEPENDS slub_objects $<TARGET_OBJECTS:slub_objects>
	COMMENT "Combining the objects of libslub.a"
	COMMAND_EXPAND_LISTS VERBATIM)
add_library(slub_static STATIC ${SLUB_COMBINED})
set_source_files_properties(${SLUB_COMBINED} PROPERTIES
	EXTERNAL_OBJECT ON GENERATED ON)
set_target_properties(slub_static PROPERTIES
	OUTPUT_NAME slub LINKER_LANGUAGE C)
target_include_directories(slub_static INTERFACE
	$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
	$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_options(slub_static INTERFACE
	$<BUILD_INTERFACE:${SLUB_SANITIZE_FLAGS}>)
target_link_libraries(slub_static INTERFACE ${SLUB_ATOMIC_LIBRARY})
add_library(slub::slub_static ALIAS slub_static)
