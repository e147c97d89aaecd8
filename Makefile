# SPDX-License-Identifier: MIT
# The short way in; CMake does the work.
#
#   make               build/libslub.so, build/libslub.a and build/slub; installs nothing
#   make hardened      build/libslub-hardened.so, with checks on the fast paths
#   make run           real programs with and without libslub, side by side
#   make test          every test
#   make bench         the benchmarks; make bench-quick: in about five minutes
#   make fuzz          the fuzz targets, FUZZ_SECONDS=60 each
#   make site          the documents as a site, build/site
#   make install       PREFIX=/usr/local DESTDIR=
#   make uninstall     removes what the last `make install` of this build folder put there
#   make clean         remove the build folder
#
# CMAKE_FLAGS="-DSLUB_LAYOUT=inner56 ..." passes build options on.

BUILD ?= build
PREFIX ?= /usr/local
JOBS ?= $(shell nproc)
CMAKE_FLAGS ?=
# By their labels: storms, and programs and tools that wait for each other.
TESTED_APART = ^(fire|preload|tool|bench|rust|cpp|examples)$$
FUZZ_SECONDS ?= 60
MAKEFLAGS += --no-print-directory

configure = cmake -S . -B $(BUILD) -DCMAKE_INSTALL_PREFIX=$(PREFIX) $(CMAKE_FLAGS)
compile = cmake --build $(BUILD) -j $(JOBS)

.PHONY: all build hardened run test fuzz bench bench-quick site install uninstall clean

all: build

build:
	@scripts/setup --check build
	$(configure) -DSLUB_BUILD_TESTS=OFF -DSLUB_BUILD_BENCH=OFF
	$(compile)

hardened: build
	cmake --build $(BUILD) -j $(JOBS) --target slub_hardened

run:
	@scripts/setup run
	@$(MAKE) build
	@scripts/run-demo $(BUILD)

test:
	@scripts/setup test
	$(configure) -DSLUB_BUILD_TESTS=ON -DSLUB_BUILD_BENCH=OFF
	$(compile)
	@scripts/run-tests $(BUILD) $(JOBS) '$(TESTED_APART)'

fuzz:
	@scripts/setup test
	tests/fuzz/run --build $(BUILD)/fuzz --seconds $(FUZZ_SECONDS) --jobs $(JOBS)

site:
	@scripts/site

bench-quick: BENCH_FLAGS = --quick
bench-quick: REAL = --rounds 1 --only redis,sqlite3,python3-malloc
bench: REAL = --rounds 3 --only redis,sqlite3,python3-malloc,node,ruby,g++,git
bench bench-quick:
	@scripts/setup bench
	$(configure) -DSLUB_BUILD_TESTS=OFF -DSLUB_BUILD_BENCH=ON
	$(compile)
	cmake --build $(BUILD) -j $(JOBS) --target slub_unchecked
	bench/run --build $(BUILD) $(BENCH_FLAGS)
	bench/outside/run --build $(BUILD) $(REAL)
	bench/detection/cost --build $(BUILD) --checks
	$(if $(BENCH_FLAGS),,bench/kernel/run --quick --build $(BUILD))

# So that the loader finds what is installed on this system.
install: hardened
	cmake --install $(BUILD)
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

# Files, then the folders that are libslub's own and empty now.
uninstall:
	@[ -e $(BUILD)/install_manifest.txt ] || { \
		echo "make uninstall: nothing was installed from '$(BUILD)'" >&2; exit 1; }
	@sed 's|^|$(DESTDIR)|' $(BUILD)/install_manifest.txt | tr '\n' '\0' | xargs -0 rm -f --
	@sed 's|^|$(DESTDIR)|; s|/[^/]*$$||' $(BUILD)/install_manifest.txt | sort -ru | \
		while read -r folder; do \
			while case $$folder in */slub|*/slub/*) ;; *) false ;; esac && \
				rmdir "$$folder" 2>/dev/null; do folder=$${folder%/*}; done; done
	@if [ -z "$(DESTDIR)" ] && [ "$$(id -u)" = 0 ]; then ldconfig; fi

clean:
	rm -rf $(BUILD)
