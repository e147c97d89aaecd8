# SPDX-License-Identifier: MIT
#
# With a sanitizer, whose runtime owns malloc: the archive's functions get the prefix fire_, and
# the programs that can, call them by it.  ThreadSanitizer sees the plain-C backends only.

set(renames "")
file(READ ${PROJECT_SOURCE_DIR}/src/libslub.map map)
string(REGEX REPLACE "/\\*.*\\*/" "" map "${map}")
string(REGEX MATCHALL "[a-zA-Z_][a-zA-Z0-9_]*" symbols "${map}")
list(REMOVE_ITEM symbols global local slub_abi_state)
foreach(symbol IN LISTS symbols)
	list(APPEND renames --redefine-sym ${symbol}=fire_${symbol})
endforeach()
set(prefixed ${CMAKE_CURRENT_BINARY_DIR}/libslub_prefixed.o)
add_custom_command(OUTPUT ${prefixed}
	COMMAND ${CMAKE_OBJCOPY} ${renames} ${SLUB_COMBINED} ${prefixed}
	DEPENDS slub_static ${SLUB_COMBINED} VERBATIM)

if(SLUB_TSAN)
	set(sanitize -fsanitize=thread)
else()
	set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=all)
endif()

# The storm calls everything: a header gives each name it uses the prefix.
set(storm_names "#define _GNU_SOURCE\n#include <malloc.h>\n#include <stdlib.h>\n")
foreach(symbol malloc calloc realloc free memalign posix_memalign aligned_alloc pvalloc
		reallocarray malloc_usable_size malloc_trim malloc_info)
	string(APPEND storm_names "extern __typeof__(${symbol}) fire_${symbol}@\n"
		"#define ${symbol} fire_${symbol}\n")
endforeach()
foreach(symbol IN LISTS symbols)
	if(symbol MATCHES "^slub_")
		string(APPEND storm_names "#define ${symbol} fire_${symbol}\n")
	endif()
endforeach()
# A structure has that name, too.
string(APPEND storm_names "extern __typeof__(mallinfo2) fire_mallinfo2@\n"
	"#define mallinfo2() fire_mallinfo2()\n")
# The macros that check flags have the names of functions, and would undo the prefix.
string(APPEND storm_names "#include <slub/flags.h>\n#undef SLUB_CHECK_FLAGS\n")
string(REPLACE "@" ";" storm_names "${storm_names}")
file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/storm_names.h "${storm_names}")
add_executable(fire_api_storm api_storm.c api_storm_own.c api_storm_objects.c api_storm_others.c
	api_storm_refuse.c fire.c ${prefixed})
set_target_properties(fire_api_storm PROPERTIES OUTPUT_NAME api_storm)
target_include_directories(fire_api_storm PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}
	${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(fire_api_storm PRIVATE -O1 -g -Wall -Wextra -fno-builtin ${sanitize}
	-include ${CMAKE_CURRENT_BINARY_DIR}/storm_names.h)
target_link_options(fire_api_storm PRIVATE ${sanitize} -rdynamic)
target_link_libraries(fire_api_storm PRIVATE Threads::Threads ${CMAKE_DL_LIBS})

foreach(name churn threads groups)
	add_executable(fire_${name} ${name}.c fire.c ${prefixed})
	set_target_properties(fire_${name} PROPERTIES OUTPUT_NAME ${name})
	target_include_directories(fire_${name} PRIVATE
		${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/src
		${PROJECT_SOURCE_DIR}/include)
	target_compile_options(fire_${name} PRIVATE -O1 -g -Wall -Wextra -fno-builtin
		${sanitize} -include ${CMAKE_CURRENT_SOURCE_DIR}/prefixed.h)
	target_link_options(fire_${name} PRIVATE ${sanitize} -rdynamic)
	target_link_libraries(fire_${name} PRIVATE Threads::Threads ${CMAKE_DL_LIBS})
endforeach()

# ThreadSanitizer delays signals to where it likes; without them it is as good.
if(SLUB_TSAN)
	set(backends thread tid lock)
	set(churn_arguments --hz=0 --ops=400K)
else()
	set(backends rseq thread tid lock)
	set(churn_arguments --ops=2M)
endif()
# A forked child has the runtime's locks as others held them, and what the dynamic linker does under
# its own lock is not seen to be under one.  The stacks that profile and letters read are no
# variables to AddressSanitizer.
if(SLUB_TSAN)
	set(storm_arguments --ops=40K --without=fork,vfork,library)
else()
	set(storm_arguments --ops=40K --without=fork,vfork,profile,traces,debug)
endif()
foreach(backend IN LISTS backends)
	slub_test(fire.api_storm_${backend} fire fire_api_storm ${storm_arguments})
	slub_test(fire.churn_${backend} fire fire_churn ${churn_arguments})
	slub_test(fire.threads_${backend} fire fire_threads --count=1000 --abrupt=0)
	slub_test(fire.groups_${backend} fire fire_groups)
	set_tests_properties(fire.api_storm_${backend} fire.churn_${backend}
		fire.threads_${backend} fire.groups_${backend} PROPERTIES
		ENVIRONMENT "FIRE_EXPECT_LIB=1;SLUB_FASTPATH=${backend}" TIMEOUT 300)
endforeach()
