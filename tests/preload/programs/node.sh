# SPDX-License-Identifier: MIT
# node: json, buffers, worker threads, child processes.
# needs: node
# owner: node
node "$PROGRAMS/node.js"
