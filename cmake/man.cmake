# SPDX-License-Identifier: MIT
# The manual pages of the C interface, from the comments of the headers: the target `man` writes
# them to man/man3 and man/man7 in the build folder, and puts those that are written by hand beside
# them (man -M build/man slub_cache_create, slub-run).

find_package(Python3 COMPONENTS Interpreter)
if(NOT Python3_Interpreter_FOUND)
	message(STATUS "No Python 3: the manual pages of sections 3 and 7 are not generated")
	return()
endif()

file(GLOB_RECURSE SLUB_MAN_INPUTS CONFIGURE_DEPENDS
	${PROJECT_SOURCE_DIR}/include/slub/*.h ${PROJECT_SOURCE_DIR}/scripts/manpage/*.py
	${PROJECT_SOURCE_DIR}/docs/man/*.1 ${PROJECT_SOURCE_DIR}/docs/man/*.7)
add_custom_command(OUTPUT ${PROJECT_BINARY_DIR}/man.stamp
	COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/scripts/man ${PROJECT_BINARY_DIR}/man
	COMMAND ${CMAKE_COMMAND} -E make_directory ${PROJECT_BINARY_DIR}/man/man1
	COMMAND ${CMAKE_COMMAND} -E copy ${SLUB_MAN1} ${PROJECT_BINARY_DIR}/man/man1
	COMMAND ${CMAKE_COMMAND} -E copy ${SLUB_MAN7} ${PROJECT_BINARY_DIR}/man/man7
	COMMAND ${CMAKE_COMMAND} -E touch ${PROJECT_BINARY_DIR}/man.stamp
	DEPENDS ${SLUB_MAN_INPUTS} ${PROJECT_SOURCE_DIR}/scripts/man
	COMMENT "Writing the manual pages of the C interface"
	VERBATIM)
add_custom_target(man ALL DEPENDS ${PROJECT_BINARY_DIR}/man.stamp)
install(DIRECTORY ${PROJECT_BINARY_DIR}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
