# SPDX-License-Identifier: MIT
# What `make install` puts where, with a pkg-config file and a CMake package.

include(CMakePackageConfigHelpers)

# Readable for all, whatever the umask of who installs.
set(CMAKE_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE
	GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
install(TARGETS slub slub_static EXPORT slub
	LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
	ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
# Where it was built, as `make install` does.  In a folder that ldconfig does not look into: it has
# the soname of the other, and ldconfig would choose for all programs which of them that is.
install(FILES $<TARGET_FILE:slub_hardened> OPTIONAL
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/slub)
if(EXISTS ${PROJECT_SOURCE_DIR}/include)
	install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/
		DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
		FILES_MATCHING PATTERN "*.h" PATTERN "*.hpp")
endif()

configure_file(cmake/slub.pc.in slub.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/slub.pc
	DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

set(SLUB_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/slub)
install(EXPORT slub NAMESPACE slub:: FILE slub-targets.cmake
	DESTINATION ${SLUB_PACKAGE_DIR})
configure_package_config_file(cmake/slub-config.cmake.in slub-config.cmake
	INSTALL_DESTINATION ${SLUB_PACKAGE_DIR})
write_basic_package_version_file(slub-config-version.cmake
	COMPATIBILITY SameMinorVersion)
install(FILES
	${PROJECT_BINARY_DIR}/slub-config.cmake
	${PROJECT_BINARY_DIR}/slub-config-version.cmake
	DESTINATION ${SLUB_PACKAGE_DIR})

file(GLOB SLUB_MAN1 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.1)
file(GLOB SLUB_MAN7 CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/docs/man/*.7)
install(FILES ${SLUB_MAN1} DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
install(FILES ${SLUB_MAN7} DESTINATION ${CMAKE_INSTALL_MANDIR}/man7)
include(${CMAKE_CURRENT_LIST_DIR}/man.cmake)
# Each shell has a folder of its own; a distribution may have another for zsh.
set(SLUB_ZSH_COMPLETIONS ${CMAKE_INSTALL_DATADIR}/zsh/site-functions CACHE STRING
	"folder of the completion for zsh")
install(FILES ${PROJECT_SOURCE_DIR}/completions/slub.bash
	DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions
	RENAME slub)
install(FILES ${PROJECT_SOURCE_DIR}/completions/slub.zsh
	DESTINATION ${SLUB_ZSH_COMPLETIONS}
	RENAME _slub)
install(FILES ${PROJECT_SOURCE_DIR}/completions/slub.fish
	DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
