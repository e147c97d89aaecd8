# SPDX-License-Identifier: MIT
# As toolchain-aarch64.cmake, by clang with the headers, libraries and linker of these packages; C
# alone:
#
#   cmake -S . -B build-aarch64 -DCMAKE_TOOLCHAIN_FILE=cmake/toolchain-aarch64-clang.cmake
include(${CMAKE_CURRENT_LIST_DIR}/toolchain-aarch64.cmake)
set(CMAKE_C_COMPILER clang)
set(CMAKE_C_COMPILER_TARGET aarch64-linux-gnu)
set(CMAKE_LINKER aarch64-linux-gnu-ld)
set(CMAKE_OBJCOPY aarch64-linux-gnu-objcopy)
set(CMAKE_AR aarch64-linux-gnu-ar)
set(CMAKE_RANLIB aarch64-linux-gnu-ranlib)
unset(CMAKE_CXX_COMPILER)
