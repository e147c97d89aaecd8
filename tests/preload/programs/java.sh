# SPDX-License-Identifier: MIT
# java: javac compiles a multithreaded program, which runs with two collectors and native buffers.
# needs: java javac
# owner: java
export JAVA_TOOL_OPTIONS=
cp "$PROGRAMS/Churn.java" .
javac -J-Xmx256m Churn.java
for collector in SerialGC G1GC; do
	java -XX:+Use$collector -Xmx128m -Xms32m Churn
done
