# SPDX-License-Identifier: MIT
# ruby: objects, strings, threads, fibers, fork, garbage collection with compaction.
# needs: ruby
# owner: ruby
ruby "$PROGRAMS/ruby.rb"
