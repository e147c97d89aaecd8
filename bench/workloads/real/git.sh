#!/bin/sh
# SPDX-License-Identifier: MIT
# Imitates work with a repository: FILES files are added and committed, changed and committed
# again, looked through and packed. The folder it is given is empty before and removed after.
set -e
folder=$1 files=$2
export GIT_CONFIG_NOSYSTEM=1 HOME="$folder"
mkdir -p "$folder"
cd "$folder"
git init -q repository
cd repository
git config user.name bench
git config user.email bench@localhost
git config gc.auto 0
git config core.fsync none
for round in 1 2; do
	awk -v files="$files" -v round=$round 'BEGIN {
		for (i = 0; i < files; i++) {
			name = "file" i
			for (j = 0; j < 20 + i % 200; j++)
				print "line", j, "of", i, j % 17 == round, j * i > name
			close(name)
		}
	}'
	git add .
	git commit -q -m "round $round"
done
git log -p --stat >log
git repack -q -a -d -f --threads=2
git fsck --no-progress >/dev/null 2>&1
commits=$(git rev-list --count HEAD)
changed=$(git ls-files | wc -l)
cd /
rm -rf "$folder"
echo "@done $commits $changed"
