#!/usr/bin/env python3
"""Prints, for each room, how many of its lines of code ran while tests did.

    cmake --preset coverage && cmake --build --preset coverage &&
      find build-coverage -name '*.gcda' -delete && ctest --preset coverage
    tests/runner/coverage.py [BUILD]    by default build-coverage
    tests/runner/coverage.py BUILD --files ROOM    each file of a room instead

Libraries and the tool count, not tests. A line counts as run if it did in any of the objects that have it:
templates and inline functions are in several.
"""

import argparse
import collections
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent


def lines_of(notes):
    """What gcov says of an object: (file, line) -> whether it ran. `notes` is its .gcno file; without
    a .gcda beside it, none of its code ran."""
    shown = subprocess.run(["gcov", "--json-format", "--stdout", str(notes)], cwd=notes.parent,
                           check=True, capture_output=True, text=True).stdout
    ran = {}
    for text in shown.splitlines():
        for file in json.loads(text)["files"]:
            for line in file["lines"]:
                at = (file["file"].removeprefix("./"), line["line_number"])
                ran[at] = ran.get(at, False) or line["count"] > 0
    return ran


def room_of(file):
    """The room of a file of the tree, or None. -ffile-prefix-map names files from the root."""
    path = pathlib.PurePath(os.path.relpath(file, ROOT) if file.startswith("/") else file)
    if path.parts[0] in ("..", "tests") or path.parts[0].startswith("build"):
        return None
    return path.parts[0]


def main():
    words = argparse.ArgumentParser(description="Lines of code that tests ran, room by room.")
    words.add_argument("build", nargs="?", default=ROOT / "build-coverage", type=pathlib.Path)
    words.add_argument("--files", metavar="ROOM")
    given = words.parse_args()
    notes = sorted(given.build.resolve().rglob("*.gcno"))
    if not notes:
        sys.exit(f"{given.build}: no .gcno file is there: build the preset coverage first")
    ran = {}
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        for lines in pool.map(lines_of, notes):
            for at, did in lines.items():
                ran[at] = ran.get(at, False) or did
    counts = collections.defaultdict(lambda: [0, 0])
    for (file, _), did in ran.items():
        room = room_of(file)
        if room and (not given.files or room == given.files):
            count = counts[file if given.files else room]
            count[0] += did
            count[1] += 1
    for name, (did, lines) in sorted(counts.items()):
        print(f"{name:40} {did:6} of {lines:6} lines  {100 * did / lines:6.2f} %")


main()
