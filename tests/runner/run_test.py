#!/usr/bin/env python3
"""Runs one test program for ctest: prints little where it passes, and remembers that it passed.

    run_test.py [--pure] [--data PATH]... [--tool FILE]... [--timeout S] -- PROGRAM [ARGUMENT]...

All tests of a GoogleTest program run in one process. Of those that pass only a count is shown; of
one that fails, hangs or crashes, all that it printed.

A test is --pure where its result follows from files alone. It then gets no environment but the
variables that KEPT names, and a pass is remembered in $GANGWAY_RESULTS (by default beside the
compiler cache) under a hash of: the program, its arguments, the files of --data, the programs of
--tool, these variables, the installed packages, and the processor's features. It does not run again
while the hash stays the same; a failure is never remembered. Tests that read clocks, the network or
/proc, and those whose threads race, are not pure.
"""

import argparse
import datetime
import hashlib
import json
import os
import pathlib
import re
import resource
import signal
import subprocess
import sys
import tempfile
import time

import results

KEPT = re.compile(r"^(PATH|HOME|TMPDIR|TZ|LANG|LC_\w+|LD_\w+|MALLOC_\w+|OMP_\w+|DNNL_\w+|ONEDNN_\w+"
                  r"|TBB_\w+|(A|L|T|UB)SAN_\w+|GTEST_\w+|GW_\w+|GANGWAY_\w+)$")
# These variables say where a test writes and when CI began, and change no result.
UNSEEN = {"PATH", "HOME", "TMPDIR", "GANGWAY_RESULTS", "GANGWAY_SAVED", "GANGWAY_CI_BEGAN",
          "GANGWAY_THIRD"}
# The text may follow half a line that a test's child has printed.
ENDED = re.compile(r"\[(       OK |  FAILED  |  SKIPPED )\] (\S+?)(?:, where .*)? \(\d+ ms\)$")
KEEP_DAYS = 30
GRACE_S = 20  # For a crash handler, once a test that takes too long was told to abort.


def files_of(path):
    path = pathlib.Path(path)
    if path.is_dir():
        return sorted(f for f in path.rglob("*") if f.is_file() and "__pycache__" not in f.parts)
    return [path]


def add_file(seen, name, path):
    seen.update(f"{name}\0{path.stat().st_size}\0".encode())
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            seen.update(block)


def machine():
    """The processor's features choose kernels at run time, and their number chooses threads."""
    with open("/proc/cpuinfo") as info:
        flags = next((line for line in info if line.startswith("flags")), "")
    return f"{sorted(flags.split())} {os.cpu_count()}"


def key_of(options, environment, folders):
    seen = hashlib.sha256(machine().encode())
    packages = pathlib.Path("/var/lib/dpkg/status")
    if packages.exists():
        add_file(seen, "packages", packages)
    for name in sorted(set(environment) - UNSEEN):
        value = environment[name]
        for folder in folders:  # The same in every clone.
            value = value.replace(folder, "")
        seen.update(f"{name}={value}\0".encode())
    for place, program in enumerate([options.command[0], *options.tool]):
        add_file(seen, f"program {place}", pathlib.Path(program))
    for argument in options.command[1:]:
        for folder in folders:
            argument = argument.replace(folder, "")
        seen.update(f"argument {argument}\0".encode())
    for root in options.data:
        for file in files_of(root):
            add_file(seen, f"data {os.path.relpath(file, os.path.dirname(root))}", file)
    return seen.hexdigest()


def remembered(key):
    entry = results.folder() / key
    try:
        text = json.loads(entry.read_text())
        entry.touch()  # Entries that are used are kept.
        return text
    except (OSError, ValueError):
        return None


def remember(key, facts):
    folder = results.folder()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        oldest = time.time() - KEEP_DAYS * 24 * 3600
        for old in folder.iterdir():
            if old.is_file() and old.stat().st_mtime < oldest:
                old.unlink(missing_ok=True)
        with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as file:
            json.dump(facts, file)
        os.replace(file.name, folder / key)
    except OSError as error:
        print(f"the result is not remembered: {error}")


class Output:
    """What a GoogleTest program printed, by test."""

    def __init__(self, text):
        self.outside, self.failed, self.running, self.skipped = [], [], None, 0
        self.passed, current = 0, []
        for line in text.splitlines():
            if line.startswith("[ RUN      ] "):
                self.running, current = line[13:].strip(), [line]
            elif self.running and (end := ENDED.search(line)) and end[2] == self.running:
                if end[1] == "  FAILED  ":
                    self.failed.append((self.running, current + [line]))
                elif end[1] == "  SKIPPED ":
                    self.skipped += 1
                else:
                    self.passed += 1
                self.running, current = None, []
            elif self.running:
                current.append(line)
            else:
                self.outside.append(line)
        self.unfinished = current if self.running else []


def run(options, environment):
    """Returns the exit status, None where the time was up, and what was printed."""
    with tempfile.TemporaryFile() as output:
        child = subprocess.Popen(options.command, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=output, stderr=subprocess.STDOUT)
        for caught in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(caught, lambda number, frame: child.send_signal(number))
        try:
            status = child.wait(options.timeout)
        except subprocess.TimeoutExpired:
            child.send_signal(signal.SIGABRT)
            try:
                child.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()
            status = None
        output.seek(0)
        return status, output.read().decode(errors="replace")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pure", action="store_true")
    parser.add_argument("--data", action="append", default=[])
    parser.add_argument("--tool", action="append", default=[])
    parser.add_argument("--timeout", type=float, default=900)
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    name = os.path.basename(options.command[0])

    environment, key = dict(os.environ), None
    if options.pure:
        environment = {k: v for k, v in environment.items() if KEPT.match(k)}
        # ctest runs a test in its folder of the build tree, which lies in the tree of sources.
        here = pathlib.Path(__file__).resolve().parent.parent.parent
        builds = [str(p) for p in pathlib.Path.cwd().parents if (p / "CMakeCache.txt").exists()]
        if (pathlib.Path.cwd() / "CMakeCache.txt").exists():
            builds.append(str(pathlib.Path.cwd()))
        key = key_of(options, environment, [*builds, str(here)])
        before = remembered(key)
        if before is not None:
            print(f"{name}: remembered: {before['what']}, on {before['day']}")
            results.count_saved(before["seconds"])
            return 0

    status, text = run(options, environment)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = used.ru_utime + used.ru_stime
    worked = f"{seconds:.1f} s of processors"
    output = Output(text)
    gtest = "[==========] Running " in text
    if status == 0 and not output.failed and not output.unfinished:
        if gtest:
            what = f"{output.passed} passed, {output.skipped} skipped, {worked}"
            if output.passed + output.skipped == 0 and "GTEST_SHARD_INDEX" not in environment:
                print(f"{name}: ran no test")
                return 1
            print(f"{name}: {what}")
        else:
            what = f"passed, {worked}"
            print(text, end="")
        if key:
            remember(key, {"test": name, "what": what, "seconds": seconds,
                           "day": str(datetime.date.today())})
        return 0

    if not gtest:
        print(text, end="")
    else:
        for line in output.outside:
            if line and not line.startswith(("[-----", "[=====", "Note: ", "Running main()")):
                print(line)
        for _, lines in output.failed:
            print("\n".join(lines))
        if output.unfinished:
            print("\n".join(output.unfinished))
            print(f"{name}: {output.running} did not end")
    if status is None:
        print(f"{name}: ended after {options.timeout:.0f} s, which is its limit")
        return 1
    if status < 0:
        print(f"{name}: ended by {signal.Signals(-status).name}")
        return 128 - status
    return status or 1


sys.exit(main())
