# SPDX-License-Identifier: MIT
"""conan create contrib/packaging/conan: builds this tree, and a program that links it (test_package)."""
import os
import re

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rm


class Libslub(ConanFile):
    name = "libslub"
    license = "MIT"
    url = "https://libslub.invalid/"
    description = "The Linux kernel's SLUB memory allocator as a user-space library"
    topics = ("malloc", "allocator", "slab")
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False]}
    default_options = {"shared": True}
    package_type = "library"

    def set_version(self):
        header = load(self, os.path.join(self.recipe_folder, "../../../include/slub/version.h"))
        self.version = re.search(r'SLUB_VERSION_STRING "(.*)"', header).group(1)

    def export_sources(self):
        tree = os.path.join(self.recipe_folder, "..", "..", "..")
        for what in ("CMakeLists.txt", "LICENSE", "cmake/*", "completions/*", "docs/man/*",
                     "include/*", "scripts/man", "scripts/manpage/*", "src/*", "tools/*"):
            copy(self, what, tree, self.export_sources_folder)

    def validate(self):
        if self.settings.os != "Linux":
            raise ConanInvalidConfiguration("libslub runs on Linux only")

    def configure(self):
        self.settings.rm_safe("compiler.libcxx")
        self.settings.rm_safe("compiler.cppstd")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.variables["SLUB_BUILD_TESTS"] = False
        toolchain.variables["SLUB_BUILD_BENCH"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        if not self.options.shared:
            # The linker takes libslub.so where it lies beside libslub.a.
            rm(self, "libslub.so*", os.path.join(self.package_folder, "lib"))

    def package_info(self):
        self.cpp_info.libs = ["slub"]
        self.cpp_info.set_property("cmake_file_name", "slub")
        self.cpp_info.set_property("cmake_target_name", "slub::slub")
        if not self.options.shared:
            self.cpp_info.set_property("cmake_target_aliases", ["slub::slub_static"])
        self.cpp_info.set_property("pkg_config_name", "slub")
