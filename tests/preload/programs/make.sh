# SPDX-License-Identifier: MIT
# make -j2: a project of sixty files with generated headers and a library is built.
# needs: make gcc ar
# owner: make
export MAKEFLAGS=
for i in $(seq 1 60); do
	printf '#include "all.h"\nint part%d(int x) { return x * %d + COUNT; }\n' \
		"$i" "$i" > part$i.c
done
cat > Makefile <<'END'
PARTS := $(foreach i,$(shell seq 1 60),part$(i))
CFLAGS := -O1
program: main.o libparts.a ; @$(CC) $^ -o $@
libparts.a: $(PARTS:=.o) ; @$(AR) rcsD $@ $(sort $^)
main.o $(PARTS:=.o): all.h
%.o: %.c ; @$(CC) $(CFLAGS) -c $< -o $@
all.h: Makefile
	@echo '#define COUNT 60' > $@
	@for p in $(PARTS); do echo "int $$p(int);"; done >> $@
main.c: Makefile
	@{ echo '#include <stdio.h>'; echo '#include "all.h"'; echo 'int main(void) { int x = 1;'; \
	for p in $(PARTS); do echo "x = $$p(x) % 10007;"; done; \
	echo 'printf("%d", x); puts(""); }'; } > $@
END
make -j2
./program
make -j2 -q && echo "up to date"
touch part7.c && make -j2 -n | wc -l
sha256sum libparts.a program
