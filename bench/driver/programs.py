# SPDX-License-Identifier: MIT
"""Real programs under the preload; each says at its end what it did, and that is checked."""
import os

from job import Job

REAL = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))),
                    "workloads", "real")


def _python():
    """Debian's own python3: a program, where others put a script on PATH."""
    return "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else "python3"


def _script(name):
    return os.path.join(REAL, name)


def _sqlite(_folder, _mode):
    return [f"--input={_script('sqlite.sql')}", "--expect=30000 60000 59000", "--", "sqlite3"]


def _objects_py(_folder, mode):
    rounds, expected = (3, "150003") if mode == "quick" else (8, "400008")
    return [f"--expect={expected}", "--", _python(), _script("objects.py"), str(rounds)]


def _objects_js(_folder, mode):
    rounds, expected = (3, "29297550") if mode == "quick" else (12, "117190200")
    return [f"--expect={expected}", "--", "node", _script("objects.js"), str(rounds)]


def _objects_rb(_folder, mode):
    rounds, expected = (4, "688000") if mode == "quick" else (12, "2064000")
    return [f"--expect={expected}", "--", "ruby", _script("objects.rb"), str(rounds)]


def _gcc(folder, _mode):
    made = os.path.join(folder, "compiled.o")
    return ["--whole", "--expect=compiled", "--", "sh", "-c",
            'rm -f "$2"; g++ -O1 -c -o "$2" "$1" && test -s "$2" && echo @done compiled',
            "sh", _script("compile.cc"), made]


def _git(folder, mode):
    files = 60 if mode == "quick" else 120
    return ["--whole", f"--expect=2 {files}", "--", "sh", _script("git.sh"),
            os.path.join(folder, "git"), str(files)]


def _redis(folder, mode):
    socket = os.path.join(folder, "redis.sock")
    requests = 10000 if mode == "quick" else 60000
    client = f"sh {_script('redis-client.sh')} {socket} {requests}"
    return [f"--client={client}", "--expect=20000", "--", "redis-server", "--port", "0",
            "--unixsocket", socket, "--save", "", "--appendonly", "no",
            "--enable-debug-command", "local", "--dir", folder]


def _program(name, title, real, seconds, rounds=(3, 5), **more):
    return Job(name, title, "workloads/launch", "", "", rounds, seconds, kind="program", real=real,
               threads=True, **more)


JOBS = [
    _program("redis", "redis-server under redis-benchmark: ms", _redis, (0.35, 1.2),
             needs=("redis-server", "redis-benchmark", "redis-cli"), rests=True, libc_first=True),
    _program("sqlite", "sqlite3: inserts, indexes, joins: ms", _sqlite, (0.35, 0.35),
             needs=("sqlite3",), rests=True),
    _program("python", "python3 with PYTHONMALLOC=malloc, objects and JSON: ms", _objects_py,
             (0.35, 0.8), needs=("python3",), rests=True, env={"PYTHONMALLOC": "malloc"}),
    _program("node", "node: buffers, texts, compression: ms", _objects_js, (0.4, 0.9),
             rounds=(0, 5), needs=("node",), rests=True),
    _program("ruby", "ruby: hashes, arrays, texts: ms", _objects_rb, (0.4, 0.7), rounds=(0, 5),
             needs=("ruby",), rests=True),
    _program("gcc", "g++ -O1 of a file with heavy headers: ms", _gcc, (1.2, 1.2), rounds=(0, 5),
             needs=("g++",)),
    _program("git", "git: add, commit, log, repack, fsck: ms", _git, (0.8, 1.3), rounds=(0, 5),
             needs=("git",)),
]
