# SPDX-License-Identifier: MIT
"""Promise: bench/peers/get builds a peer from a checkout, names its revision, keeps it, and builds
it again when its commit changes; what it cannot have is named and left out.

The checkout is a stand-in made here, so nothing is fetched and no peer is measured."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
GET = os.path.join(HERE, "..", "..", "bench", "peers", "get")

# Memory that is never given back, with the size in front.
ALLOCATOR = r"""
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
static char *at, *end;
void *aligned_alloc(size_t align, size_t size)
{
	uintptr_t block;
	if (align < 16)
		align = 16;
	if ((size_t)(end - at) < size + align + 16) {
		size_t more = size + align + (1 << 20);
		at = mmap(NULL, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		end = at + more;
	}
	block = ((uintptr_t)at + 16 + align - 1) & -align;
	((size_t *)block)[-1] = size;
	at = (char *)block + size;
	return (void *)block;
}
void *malloc(size_t size) { return aligned_alloc(16, size); }
void free(void *block) { (void)block; }
void *calloc(size_t n, size_t size) { return malloc(n * size); }
size_t malloc_usable_size(void *block) { return block ? ((size_t *)block)[-1] : 0; }
int posix_memalign(void **block, size_t align, size_t size)
{
	*block = aligned_alloc(align, size);
	return 0;
}
void *realloc(void *old, size_t size)
{
	size_t had = malloc_usable_size(old);
	void *block = malloc(size);
	return old ? memcpy(block, old, had < size ? had : size) : block;
}
"""


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=n", "-c", "user.email=n@n", "-C", folder, *words],
                   check=True, capture_output=True)


@unittest.skipUnless(shutil.which("git") and shutil.which("c++"), "no git or no c++")
class Peers(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.checkout = os.path.join(self.folder.name, "rpmalloc")
        self.build = os.path.join(self.folder.name, "peers")
        os.makedirs(os.path.join(self.checkout, "rpmalloc"))
        self.source = os.path.join(self.checkout, "rpmalloc", "rpmalloc.c")
        self.write(ALLOCATOR)
        git(self.checkout, "init", "-q")
        git(self.checkout, "add", ".")
        git(self.checkout, "commit", "-qm", "first")
        git(self.checkout, "tag", "v9.8.7")

    def write(self, text):
        with open(self.source, "w", encoding="utf-8") as file:
            file.write(text)

    def get(self, *words):
        return subprocess.run([sys.executable, GET, "--dir", self.build, *words],
                              capture_output=True, text=True, check=False)

    def stamp(self):
        path = os.path.join(self.build, "librpmalloc.so.json")
        with open(path, encoding="utf-8") as file:
            return json.load(file), os.stat(path).st_mtime_ns

    def test_a_checkout_is_built_named_and_kept(self):
        done = self.get("--from", f"rpmalloc={self.checkout}", "rpmalloc")
        self.assertEqual((done.stderr, done.returncode), ("", 0))
        self.assertIn(f"peers: rpmalloc 9.8.7 ({self.checkout})", done.stdout)
        first = self.stamp()
        self.assertEqual(first[0]["version"], "9.8.7")
        # As bench/run asks later, without --from.
        self.assertEqual(self.get("rpmalloc").returncode, 0)
        self.assertEqual(self.stamp(), first)

    def test_another_commit_is_built_again(self):
        self.get("--from", f"rpmalloc={self.checkout}", "rpmalloc")
        first = self.stamp()
        self.write(ALLOCATOR + "/* more */\n")
        git(self.checkout, "commit", "-qam", "second")
        self.assertEqual(self.get("rpmalloc").returncode, 0)
        self.assertNotEqual(self.stamp()[1], first[1])
        self.assertRegex(self.stamp()[0]["version"], r"^9\.8\.7-1-g[0-9a-f]+$")

    def test_a_library_that_is_no_malloc_is_left_out(self):
        self.write("int nothing;\n")
        done = self.get("--from", f"rpmalloc={self.checkout}", "rpmalloc")
        self.assertEqual(done.returncode, 1)
        self.assertIn("rpmalloc left out: the preload does not do: malloc comes from", done.stderr)
        self.assertTrue(os.path.exists(os.path.join(self.build, "rpmalloc.left-out")))

    def test_what_is_refused(self):
        for words, said in ((["--from", "none=/"], "no peer named none"),
                            (["--from", "rpmalloc=/none"], "there is no such folder")):
            done = self.get(*words)
            self.assertEqual(done.returncode, 2)
            self.assertIn(said, done.stderr)
        done = self.get("--from", f"scudo={self.checkout}", "scudo")
        self.assertIn("scudo left out: scudo is taken from its package", done.stderr)


if __name__ == "__main__":
    unittest.main()
