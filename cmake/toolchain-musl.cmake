# SPDX-License-Identifier: MIT
# A build for musl on this CPU with Debian's musl-tools:
#
#   cmake -S . -B build-musl -DCMAKE_TOOLCHAIN_FILE=cmake/toolchain-musl.cmake
#
# musl-gcc knows musl's headers alone.  The kernel's are those of the system, by links in the build
# folder: the rest of /usr/include is the other C library's.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
set(CMAKE_C_COMPILER musl-gcc)
set(CMAKE_CXX_COMPILER ${CMAKE_CURRENT_LIST_DIR}/../tests/cross/musl-g++)	# for tests
set(CMAKE_CROSSCOMPILING_EMULATOR env)

set(kernel_headers ${CMAKE_BINARY_DIR}/kernel-headers)
if(NOT EXISTS ${kernel_headers})
	file(MAKE_DIRECTORY ${kernel_headers})
	file(GLOB asm /usr/include/${CMAKE_SYSTEM_PROCESSOR}-linux-gnu/asm)
	foreach(folder /usr/include/linux /usr/include/asm-generic ${asm})
		get_filename_component(name ${folder} NAME)
		file(CREATE_LINK ${folder} ${kernel_headers}/${name} SYMBOLIC)
	endforeach()
endif()
set(CMAKE_C_FLAGS_INIT "-idirafter ${kernel_headers}")
set(CMAKE_FIND_ROOT_PATH /usr/lib/musl)
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
