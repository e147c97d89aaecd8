# SPDX-License-Identifier: MIT
# The core: src/core, what allocates, frees, refills and flushes, and nothing that stands beside
# it.  `libslub-core.so` is its objects alone, with what src/core/without.c says of the rest; it
# links only if the core calls nothing else but what core/base/features.h lists.

# What the paths of its objects are in src/, as a pattern.
set(SLUB_CORE_LAYERS "core/")
if(SLUB_HARDENED)	# checks each object and each large block on the way, and says what it finds
	string(APPEND SLUB_CORE_LAYERS "|features/(hardened/|misuse/(maps|misuse)[.]\
|debug/(sink|stack|symbol|unwind|unwind_table)[.])")
endif()
set(SLUB_CORE_OBJECTS
	"$<FILTER:$<TARGET_OBJECTS:slub_objects>,INCLUDE,/src/(${SLUB_CORE_LAYERS})>")

add_library(slub_without OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/core/without.c)
set_target_properties(slub_without PROPERTIES
	C_STANDARD 11 C_STANDARD_REQUIRED ON C_EXTENSIONS ON
	POSITION_INDEPENDENT_CODE ON)
target_compile_options(slub_without PRIVATE ${SLUB_COMPILE_FLAGS})
target_link_libraries(slub_without PRIVATE slub_config)
list(APPEND SLUB_CORE_OBJECTS $<TARGET_OBJECTS:slub_without>)

# The version script names functions that are not there.
add_library(slub_core SHARED EXCLUDE_FROM_ALL ${SLUB_CORE_OBJECTS})
set_target_properties(slub_core PROPERTIES OUTPUT_NAME slub-core LINKER_LANGUAGE C
	LINK_DEPENDS "${SLUB_MAP};${SLUB_LAYOUT_SCRIPT}")
target_link_options(slub_core PRIVATE
	-Wl,-z,defs -Wl,-z,nodelete -Wl,-z,now -Wl,-z,initfirst -Wl,--version-script=${SLUB_MAP}
	-Wl,--as-needed -Wl,-Bsymbolic-functions ${SLUB_LAYOUT_FLAGS} ${SLUB_SANITIZE_FLAGS})
target_link_libraries(slub_core PRIVATE ${SLUB_ATOMIC_LIBRARY})
slub_library_with_old_names(slub_core)
