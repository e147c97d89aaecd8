# SPDX-License-Identifier: MIT
# cargo and rustc: a small crate without dependencies is built offline, tested and run.
# needs: cargo rustc
# owner: cargo
cargo new -q --vcs none --name churn crate
cp "$PROGRAMS/churn.rs" crate/src/main.rs
cd crate
cargo build -q --offline --release -j2
cargo test -q --offline -j2 2>&1 | grep -o 'test result: ok. [0-9]* passed'
./target/release/churn
