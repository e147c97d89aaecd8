# SPDX-License-Identifier: MIT
# git: a repository of 300 commits is made, cloned, repacked, collected, searched and checked.
# needs: git
# owner: git
export GIT_AUTHOR_NAME=A GIT_AUTHOR_EMAIL=a@example.org GIT_AUTHOR_DATE='1700000000 +0000'
export GIT_COMMITTER_NAME=A GIT_COMMITTER_EMAIL=a@example.org GIT_COMMITTER_DATE='1700000000 +0000'
export GIT_CONFIG_NOSYSTEM=1 HOME=$PWD GIT_ADVICE=0
stream() {
	for commit in $(seq 1 300); do
		printf 'commit refs/heads/main\ncommitter A <a@example.org> %d +0000\n' \
			$((1700000000 + commit))
		printf 'data <<E\ncommit %d\nE\n' "$commit"
		for file in 1 2 3; do
			printf 'M 100644 inline dir%d/file%d\ndata <<E\n' \
				$((commit % 7)) $((commit * file % 40))
			for line in $(seq 1 $((commit % 30 + file))); do
				echo "line $line of commit $commit in file $file"
			done
			echo E
		done
		echo
	done
}
git init -q -b main origin
stream | git -C origin fast-import --quiet
git -C origin reset -q --hard main
git -C origin rev-parse HEAD
git clone -q --no-local origin copy 2>&1
cd copy
git log --stat --format='%H %s' | sha256sum
git log -p -S'commit 77 ' --format=%s | sha256sum
git blame -s dir3/file9 | sha256sum
git repack -adfq --depth=50 --window=50
git gc -q --aggressive --prune=now
git fsck --full --strict
git count-objects -v | grep -E 'count|in-pack|packs|garbage'
git grep -c 'line 1[0-9]' | sha256sum
git checkout -q -b side HEAD~100
echo change > dir1/new && git add . && git commit -qm side
git merge -q -m merge main 2>&1
git rev-parse HEAD^{tree}
git diff --stat HEAD~5 | sha256sum
git bundle create -q ../all.bundle --all 2>/dev/null
git bundle verify ../all.bundle 2>&1 | tail -1
git archive HEAD | sha256sum
