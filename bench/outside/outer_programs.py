# SPDX-License-Identifier: MIT
"""The programs of bench/outside/run: commands, what they read, and how their answer is checked."""

import collections
import os
import statistics
import subprocess

# In commands {b}: where mimalloc-bench's programs were built; {s}: its bench/ folder; {t}: a
# folder for files; {n}: how many CPUs.  `count` finds in the output how many operations a
# program did in its fixed time.  `check` has to match the output; a program without one has to
# print the same as without any library, and to write the same `output`.  `before` runs once.
Program = collections.namedtuple("Program", "command count check output before",
                                 defaults=(None, None, None, None))


def figure(samples, part):
    """Of (seconds, KiB): the least time, for what disturbs it only adds to it; the median peak."""
    values = [sample[part] for sample in samples]
    return max(statistics.median(values) if part else min(values), 1e-9)


def counted(command, count):
    return Program(command, count=count, check=count)


def loop(command):
    return Program(command, check="")


LOOPS = {
    "cfrac": loop("{b}/cfrac 17545186520507317056371138836327483792789528"),
    "espresso": loop("{b}/espresso {s}/espresso/largest.espresso"),
    "barnes": loop("{b}/barnes < {s}/barnes/input"),
    "alloc-test1": loop("{b}/alloc-test 1"),
    "alloc-testN": loop("{b}/alloc-test {n}"),
    "larson-sized": counted("{b}/larson-sized 2 8 1000 5000 100 4141 {n}",
                            r"Throughput =\s*([0-9.]+)"),
    "xmalloc-test": counted("{b}/xmalloc-test -w {n} -t 2 -s 64", r"free/sec: ([0-9.]+)"),
    "cache-thrash1": loop("{b}/cache-thrash 1 1000 1 2000000 {n}"),
    "cache-thrashN": loop("{b}/cache-thrash {n} 1000 1 2000000 {n}"),
    "cache-scratch1": loop("{b}/cache-scratch 1 1000 1 2000000 {n}"),
    "cache-scratchN": loop("{b}/cache-scratch {n} 1000 1 2000000 {n}"),
    "malloc-large": loop("{b}/malloc-large"),
    "mstress": loop("{b}/mstress {n} 50 25"),
    "mleak10": loop("{b}/mleak 5"),
    "rptest": loop("{b}/rptest {n} 0 1 2 500 1000 100 8 16000"),
    "glibc-simple": loop("{b}/glibc-simple"),
    "glibc-thread": counted("{b}/glibc-thread {n}", r"^([0-9.]+)"),
    "rbstress1": loop("ruby {s}/rbstress/stress_mem.rb 1"),
    "z3": loop("z3 -smt2 {s}/z3/test1.smt2"),
}

# Of the distribution.  The servers among the real programs are in services.py.
REAL = {
    "python3": Program("{python} {t}/w.py"),
    "python3-malloc": Program("PYTHONMALLOC=malloc {python} {t}/w.py"),
    "node": Program("node {t}/w.js"),
    "ruby": Program("ruby {t}/w.rb"),
    "perl": Program("perl {t}/w.pl"),
    "lua": Program("lua {t}/w.lua"),
    "java": Program("java -Xmx256m -cp {t} W", before="javac -d {t} {t}/W.java"),
    "javac": Program("javac -d {t}/classes {t}/W.java", output="{t}/classes/W.class"),
    "sqlite3": Program("sqlite3 :memory: < {t}/w.sql"),
    "db_bench": Program(
        "db_bench --db={t}/rocks --num=100000 --threads=2 --compression_type=none --seed=7 "
        "--cache_size=33554432 --benchmarks=fillrandom,overwrite,fillseq,readrandom",
        check=r"readrandom .*\((\d+) of \1 found\)"),
    "gcc": Program("gcc -O2 -c -o {t}/w.o {t}/w.c", output="{t}/w.o"),
    "g++": Program("g++ -O1 -w -std=c++17 -c -o {t}/x.o {t}/w.cpp", output="{t}/x.o"),
    "clang++": Program("clang++ -O1 -w -std=c++17 -c -o {t}/y.o {t}/w.cpp", output="{t}/y.o"),
    "git": Program("git -C {repo} log --stat -n 400 {head}"),
    "gs": Program("gs -q -dBATCH -dNOPAUSE -sDEVICE=nullpage {pdf}"),
}

PYTHON = r'''
import json, re
d = [{"id": i, "name": "n%d" % i, "tags": ["t%d" % (i % 97)] * 3} for i in range(60000)]
for _ in range(3):
    s = json.dumps(d)
    d = json.loads(s)
w = {}
for m in re.finditer(r"\w+", s):
    w[m.group()] = w.get(m.group(), 0) + 1
print(len(w), sum(len(x) for x in sorted(w)))
'''

SQL = r'''
create table t(a integer primary key, b text, c real);
with recursive n(i) as (select 1 union all select i + 1 from n where i < 200000)
insert into t select i, 'text ' || (i * 7919 % 100003), i / 3.0 from n;
create index tb on t(b);
select count(*), sum(c) from t where b > 'text 5';
select b, count(*), group_concat(a) from t group by b order by 2 desc limit 5;
update t set b = b || 'x' where a % 3 = 0;
delete from t where a % 5 = 0;
select count(distinct b) from t;
'''

PERL = r'''
my %h; my @l;
for my $i (1 .. 300000) { $h{"key" . ($i * 7919 % 200003)} .= "v$i,"; }
for my $k (sort keys %h) { push @l, [split /,/, $h{$k}]; }
my $n = 0; $n += @$_ for @l; print "$n\n";
'''

LUA = r'''
local t = {}
for r = 1, 4 do
  for i = 1, 300000 do t[i] = {name = "n" .. i, id = i, next = t[i - 1]} end
  local s = {}
  for i = 1, #t do s[#s + 1] = t[i].name .. ":" .. t[i].id end
  t = {n = #table.concat(s, ",")}
end
print(t.n)
'''

NODE = r'''
const { createHash } = require("crypto"), zlib = require("zlib");
const held = [];
for (let i = 0; i < 30000; i++) {
  held.push(Buffer.alloc(200 + i * 7919 % 9000, i & 255));
  if (held.length > 3000) held[i * 31 % 3000] = held.pop();
}
const rows = [];
for (let i = 0; i < 60000; i++) rows.push({ id: i, name: "n" + i, tags: ["t" + i % 97] });
let text = "";
for (let i = 0; i < 4; i++) text = JSON.stringify(JSON.parse(text || JSON.stringify(rows)));
const hash = createHash("sha256");
for (const one of held) hash.update(one);
hash.update(zlib.gunzipSync(zlib.gzipSync(text)));
console.log(text.length, hash.digest("hex"));
'''

RUBY = r'''
require "digest"
held, words = [], Hash.new(0)
120000.times do |i|
  line = "n#{i} " * (1 + i % 9)
  held << line.split.map(&:upcase)
  held[i * 31 % 5000] = held.pop if held.size > 5000
  words[line[0, 4 + i % 40]] += 1
end
puts held.size, words.size, Digest::SHA256.hexdigest(held.flatten.sort.join(","))
'''

# Classes, lambdas, threads, buffers outside of the heap: what of a JVM comes from malloc.
JAVA = r'''
import java.nio.ByteBuffer;
import java.util.*;
import java.util.stream.*;
import java.util.zip.*;

public class W {
    record Row(int id, String name, List<String> tags) {}

    static long part(int seed) {
        var rows = IntStream.range(0, 20000).mapToObj(i -> new Row(i * seed, "n" + i,
            List.of("t" + i % 97))).collect(Collectors.groupingBy(r -> r.tags().get(0)));
        long sum = 0;
        for (var group : new TreeMap<>(rows).entrySet())
            sum = sum * 31 + group.getKey().hashCode() + group.getValue().stream()
                .mapToLong(r -> r.id() + r.name().length()).sum();
        return sum;
    }

    static long outside(int seed) throws Exception {
        long sum = 0;
        for (int i = 0; i < 300; i++) {
            var direct = ByteBuffer.allocateDirect(1024 + i * 977 % 60000);
            while (direct.remaining() >= 4)
                direct.putInt(i * seed);
            direct.flip();
            var deflater = new Deflater();
            deflater.setInput(direct);
            deflater.finish();
            var out = new byte[1 << 16];
            int nr = deflater.deflate(out);
            deflater.end();
            var inflater = new Inflater();
            inflater.setInput(out, 0, nr);
            var back = new byte[direct.limit()];
            sum += inflater.inflate(back) + back[i % back.length];
            inflater.end();
        }
        return sum;
    }

    public static void main(String[] arguments) throws Exception {
        var sums = new long[8];
        var threads = new ArrayList<Thread>();
        for (int i = 0; i < sums.length; i++) {
            int at = i;
            threads.add(new Thread(() -> {
                try {
                    sums[at] = part(at + 1) + outside(at + 1);
                } catch (Exception why) {
                    throw new RuntimeException(why);
                }
            }));
        }
        for (var one : threads)
            one.start();
        for (var one : threads)
            one.join();
        System.out.println(Arrays.toString(sums));
    }
}
'''

C = "".join(f"""int f{i}(int *p, int n)
{{
	int s = {i};

	for (int i = 0; i < n; i++)
		s = p[i] & 1 ? s * p[i] + {i} : s - (p[i] >> {i % 7});
	return s;
}}
""" for i in range(400))

CPP = r'''
#include <map>
#include <regex>
#include <string>
int main(int c, char **v) { std::map<std::string, int> m;
return m[v[0]] + std::regex_match(v[0], std::regex("a+b")); }
'''

FILES = {"w.c": C, "w.cpp": CPP, "w.py": PYTHON, "w.sql": SQL, "w.pl": PERL, "w.lua": LUA,
         "w.js": NODE, "w.rb": RUBY, "W.java": JAVA}


def write_files(directory):
    for name, text in FILES.items():
        with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
            file.write(text)
    os.mkdir(os.path.join(directory, "classes"))


def head(repository):
    """Its newest commit now: a branch may move while the rows take turns."""
    said = subprocess.run(["git", "-C", repository, "rev-parse", "HEAD"], text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    return said.stdout.strip() or "HEAD"


def python():
    """The interpreter itself: `python3` may be a script that looks for one."""
    return subprocess.run(["python3", "-c", "import sys; print(sys.executable)"],
                          stdout=subprocess.PIPE, text=True, check=False).stdout.strip()
