# SPDX-License-Identifier: MIT
"""Becomes the command slub: slub run -- PROGRAM, slub stats PID, slub doctor."""
import os
import sys

from slub import command


def main():
    os.execv(command(), ["slub"] + sys.argv[1:])


if __name__ == "__main__":
    main()
