# SPDX-License-Identifier: MIT
"""JSON, dictionaries and cycles for the garbage collector."""
import gc
import json


class Node:
    def __init__(self, number, parent):
        self.number = number
        self.parent = parent
        self.children = []
        self.attributes = {"name": f"node-{number}", "weight": number * 7 % 101}
        if parent:
            parent.children.append(self)


def tree(size, salt):
    nodes = [Node(salt, None)]
    for number in range(1, size):
        nodes.append(Node(number + salt, nodes[(number - 1) // 3]))
    return nodes


def document(nodes):
    return {node.attributes["name"]: {
        "parent": node.parent.number if node.parent else None,
        "children": [child.number for child in node.children],
        "text": "x" * (node.number % 300),
    } for node in nodes}


total = 0
for turn in range(12):
    text = json.dumps(document(tree(12000, turn)), sort_keys=True)
    back = json.loads(text)
    total += sum(len(entry["children"]) + len(entry["text"]) for entry in back.values())
    total += len(text)
    gc.collect()
print(total)
