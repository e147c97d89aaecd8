# SPDX-License-Identifier: MIT
# go: its programs have an allocator of their own and must start; with cgo they call malloc.
# needs: go gcc
# The first run fills the user's build cache; the second still starts every tool.
export GOPATH=$PWD/path GOFLAGS=-mod=mod GOTOOLCHAIN=local GO111MODULE=on
mkdir plain cgo
cp "$PROGRAMS/plain.go" plain/main.go
cp "$PROGRAMS/cgo.go" cgo/main.go
for kind in plain cgo; do
	cd $kind
	printf 'module example.org/%s\ngo 1.16\n' $kind > go.mod
	CGO_ENABLED=$([ $kind = cgo ] && echo 1 || echo 0) go build -p 2 -o program .
	./program
	cd ..
done
