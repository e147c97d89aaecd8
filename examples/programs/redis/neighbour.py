# SPDX-License-Identifier: MIT
"""A neighbour in a control group: holds each size of SIZES (MiB) for ten seconds, in rotation, for
ever, and takes 16 MiB a second where it grows."""
import mmap
import time

MIB = 1 << 20
SIZES = (32, 64, 32, 96)
SECONDS = 10


def piece():
    memory = mmap.mmap(-1, MIB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    for at in range(0, MIB, mmap.PAGESIZE):
        memory[at] = 1
    return memory


def main():
    held = []
    while True:
        for size in SIZES:
            end = time.time() + SECONDS
            while len(held) > size:
                held.pop().close()
            while len(held) < size:
                held.append(piece())
                time.sleep(1 / 16)
            time.sleep(max(0, end - time.time()))


if __name__ == "__main__":
    main()
