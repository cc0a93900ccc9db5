#!/usr/bin/env python3
"""How long stages of .ci/run would have taken without caches: printed beside what they took.

A stage that takes a result from a cache counts the processor seconds that the result once took
(tests/runner/results.py). This adds what the compiler cache saved, and prints the seconds of all
processors that were counted since it was last called.

What a step of a build costs is known from the last time that it was no hit, in a file beside the
remembered results: a step that took less than HIT_S and once took longer is a hit.
"""

import json
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/runner"))
import results
HIT_S = 1.0


def steps_since(build, seen):
    lines = (build / ".ninja_log").read_text().splitlines()[1:]
    for line in lines[seen.get(build.name, 0):]:
        begin, end, _, output, _ = line.split("\t")
        yield f"{build.name}/{output}", (int(end) - int(begin)) / 1000
    seen[build.name] = len(lines)


def main():
    folder = results.folder()
    folder.mkdir(parents=True, exist_ok=True)
    known_file = folder / "steps.json"
    try:
        known = json.loads(known_file.read_text())
    except (OSError, ValueError):
        known = {}  # Only times are lost, so no check fails for it.
    saved_file = pathlib.Path(os.environ["GANGWAY_SAVED"])
    seen_file = pathlib.Path(f"{saved_file}.seen")
    seen = json.loads(seen_file.read_text()) if seen_file.exists() else {}
    for build in sorted(ROOT.glob("build*")):
        if (build / ".ninja_log").exists():
            for step, took in steps_since(build, seen):
                if took < HIT_S < known.get(step, 0):
                    results.count_saved(known[step] - took)
                else:
                    known[step] = took
    written = known_file.with_suffix(f".{os.getpid()}")
    written.write_text(json.dumps(known))
    written.replace(known_file)
    lines = saved_file.read_text().splitlines() if saved_file.exists() else []
    print(round(sum(map(float, lines)) / os.cpu_count()))
    saved_file.write_text("")
    seen_file.write_text(json.dumps(seen))


main()
