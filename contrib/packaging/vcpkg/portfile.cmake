# SPDX-License-Identifier: MIT
# An overlay port: vcpkg install libslub --overlay-ports=contrib/packaging/vcpkg
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)

vcpkg_cmake_configure(SOURCE_PATH "${SOURCE_PATH}"
	OPTIONS -DSLUB_BUILD_TESTS=OFF -DSLUB_BUILD_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_copy_tools(TOOL_NAMES slub AUTO_CLEAN)
vcpkg_cmake_config_fixup(PACKAGE_NAME slub CONFIG_PATH lib/cmake/slub)
vcpkg_fixup_pkgconfig()
file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
