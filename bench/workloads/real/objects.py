# SPDX-License-Identifier: MIT
"""Imitates a script over data: objects, dictionaries, texts and JSON built up and dropped.

PYTHONMALLOC=malloc is set for it, so that Python's own pools do not stand between.
"""
import json
import sys


class Record:
    def __init__(self, number):
        self.number = number
        self.name = f"record {number}"
        self.tags = [f"tag {number % k}" for k in range(1, 6)]
        self.place = {"x": number % 360, "y": number % 180}


def main(rounds):
    total = 0
    for step in range(rounds):
        records = [Record(step * 10000 + i) for i in range(10000)]
        by_name = {record.name: record for record in records}
        text = json.dumps([vars(record) for record in records])
        back = json.loads(text)
        words = " ".join(record.name for record in records).split()
        total += len(by_name) + len(back) + len(set(words)) + len(sorted(words, reverse=True))
    print("@done", total, flush=True)
    del records, by_name, text, back, words
    sys.stdin.read()


main(int(sys.argv[1]))
