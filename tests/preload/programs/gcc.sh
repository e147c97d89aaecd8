# SPDX-License-Identifier: MIT
# gcc and g++: object files of C and of template-heavy C++ are equal byte for byte.
# needs: gcc g++
# owner: gcc
gcc -O2 -c "$PROGRAMS/compiled.c" -o c.o
g++ -std=c++17 -O2 -c "$PROGRAMS/compiled.cc" -o cc.o
g++ -std=c++17 -O0 -g -ffile-prefix-map="$PWD"=. -c "$PROGRAMS/compiled.cc" -o debug.o
sha256sum c.o cc.o debug.o
gcc c.o -o c && ./c
g++ cc.o -o cc && ./cc
sha256sum c cc
