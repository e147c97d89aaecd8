# SPDX-License-Identifier: MIT
"""Work for Python's heap; every line printed is a function of the computation alone."""

import collections
import gc
import hashlib
import json
import multiprocessing
import random
import re
import subprocess
import sys
import threading
import zlib

random.seed(1)


def tree(depth):
    if depth == 0:
        return random.choice([None, 1.5, "text" * random.randrange(9), random.getrandbits(200)])
    return {f"key{i}": tree(depth - 1) for i in range(random.randrange(1, 6))}


def digest(value):
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]


def garbage():
    for _ in range(20000):
        one, other = [], []
        one.append(other)
        other.append(one)
    return gc.collect() >= 0


def worker(n):
    return digest([tree_of(n), n])


def tree_of(seed):
    generator = random.Random(seed)
    return [generator.random() for _ in range(2000)]


def main():
    documents = [tree(5) for _ in range(60)]
    print("json", digest(documents), digest(json.loads(json.dumps(documents))))
    print("garbage", garbage(), len(gc.garbage))

    results = {}
    threads = [threading.Thread(target=lambda i=i: results.update({i: worker(i)}))
               for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    print("threads", digest(results))

    outputs = [subprocess.run([sys.executable, "-c", f"print({i}**50)"], capture_output=True,
                              text=True, check=True).stdout for i in range(5)]
    print("subprocess", digest(outputs))
    with multiprocessing.get_context("fork").Pool(3) as pool:
        print("fork", digest(pool.map(worker, range(20))))

    words = re.findall(r"\w+", json.dumps(documents))
    print("words", len(words), digest(collections.Counter(words).most_common(20)))
    data = bytes(random.getrandbits(8) for _ in range(200000)) * 10
    print("zlib", zlib.crc32(zlib.decompress(zlib.compress(data))))
    number = 3 ** 40000
    print("integer", hashlib.sha256(str(number % 10 ** 4000).encode()).hexdigest()[:16])
    buffer = bytearray()
    for i in range(3000):
        buffer += bytes([i % 256]) * i
    print("growth", len(buffer), zlib.crc32(buffer))


if __name__ == "__main__":
    main()
