# SPDX-License-Identifier: MIT
# python3: json, garbage collection, threads, subprocesses, forked workers, big integers, regexes.
# needs: python3
# owner: python3
export PYTHONMALLOC=malloc
python3 "$PROGRAMS/python.py"
# once more with Python's own small-object allocator on top
PYTHONMALLOC=pymalloc python3 "$PROGRAMS/python.py"
