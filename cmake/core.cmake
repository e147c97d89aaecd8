# SPDX-License-Identifier: MIT
# The core: the objects of the library that allocate, free, refill and flush, and nothing that
# stands beside them.  `libslub-core.so` is these alone, with what src/without.c says of the
# rest; it links only if the core calls nothing else but what base/features.h lists.

# The files of a folder are the core's, those of its subfolders are features; the subfolders of
# arch are CPUs.
set(SLUB_CORE_FOLDERS base arch arch/[^/]+ os percpu page slab/core malloc)
if(SLUB_HARDENED)	# checks each object and each large block on the way
	list(APPEND SLUB_CORE_FOLDERS page/hardened slab/hardened)
endif()
set(SLUB_CORE_FILES slub.c
	debug/misuse.c debug/foreign.c debug/maps.c debug/sink.c debug/stack.c debug/mailbox.c)

# What the paths of its objects are in src/, as a pattern.
list(JOIN SLUB_CORE_FOLDERS "|" folders)
list(JOIN SLUB_CORE_FILES "|" files)
string(REPLACE "." "[.]" files "${files}")
set(SLUB_CORE_LAYERS "(${folders})/[^/]+$|${files}")
set(SLUB_CORE_OBJECTS
	"$<FILTER:$<TARGET_OBJECTS:slub_objects>,INCLUDE,/src/(${SLUB_CORE_LAYERS})>")

add_library(slub_without OBJECT EXCLUDE_FROM_ALL ${PROJECT_SOURCE_DIR}/src/without.c)
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
