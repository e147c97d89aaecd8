# SPDX-License-Identifier: MIT
# frozen_string_literal: true

# Homebrew on Linux: brew install ./libslub.rb, the copy that scripts/release writes, which has the sum.
class Libslub < Formula
  desc "Memory allocator built like the Linux kernel's SLUB"
  homepage "https://libslub.invalid/"
  url "https://libslub.invalid/libslub-0.2.0.tar.gz"
  sha256 "0000000000000000000000000000000000000000000000000000000000000000"
  license "MIT"

  depends_on "cmake" => :build
  depends_on "pkgconf" => :build
  depends_on "python@3.13" => :build
  depends_on "elfutils"
  depends_on :linux
  depends_on "ncurses"
  depends_on "zlib"

  def install
    system "cmake", "-S", ".", "-B", "build", "-DSLUB_BUILD_TESTS=OFF", "-DSLUB_BUILD_BENCH=OFF",
           *std_cmake_args
    system "cmake", "--build", "build"
    system "cmake", "--install", "build"
  end

  test do
    assert_equal "slub #{version}", shell_output("#{bin}/slub --version").strip
    assert_match "libslub", shell_output("#{bin}/slub run -- cat /proc/self/maps")
  end
end
