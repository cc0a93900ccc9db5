#!/usr/bin/env python3
"""Registers, spills and PTX instructions of every kernel, as `ptxas -v` says them for sm_90a.

  tests/cuda_module/kernel_counts.py build            fails where a count grew by more than 2 %, and
                                                      says where one shrank by as much
  tests/cuda_module/kernel_counts.py build --accept   writes the counts of now to kernel_counts.txt

Needs no GPU. Chains are those of a training step of GPT-2's 124M shape. Counts belong to one version
of nvcc; with another the test skips. What did not change since the last time is not compiled again:
counts are remembered beside the results of tests.
"""

import argparse
import hashlib
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[1] / "tools/gpu"))
sys.dont_write_bytecode = True
import machine_code  # noqa: E402
sys.path.insert(0, str(HERE.parent / "runner"))
import results  # noqa: E402

COUNTS = HERE / "kernel_counts.txt"
FIELDS = ("registers", "bytes of spills", "PTX instructions")
GROWS = 0.02


def nvcc_version():
    said = subprocess.run([machine_code.find_program("nvcc"), "--version"], capture_output=True,
                          text=True, check=True).stdout
    return said.strip().splitlines()[-1]


def chains(build, folder):
    """Files of generated sources, each with what it fuses."""
    done = subprocess.run([str(build / "bench/gpu_launches"), "--model", "124m", "--dtype", "bf16",
                           "--batch", "8", "--sources", str(folder)],
                          capture_output=True, text=True, check=True)
    names = {}
    for call in json.loads(done.stdout)["calls"]:
        if call["source"] >= 0:
            label = call["label"].split(" ", 2)[2]
            names.setdefault(call["source"], label)
    return {folder / f"chain-{source}.cu": label for source, label in sorted(names.items())}


def counted(sources, cache, version):
    """Kernels by source, from the cache where neither the source nor a header changed."""
    headers = b"".join(path.read_bytes()
                       for suffix in ("*.h", "*.cuh")
                       for path in sorted(machine_code.KERNELS.rglob(suffix)))
    cache.mkdir(parents=True, exist_ok=True)
    known, new = {}, {}
    for source in sources:
        key = hashlib.sha256(version.encode() + headers + source.read_bytes()).hexdigest()
        kept = cache / f"{key}.json"
        if kept.exists():
            known[source] = json.loads(kept.read_text())
        else:
            new[source] = kept
    with tempfile.TemporaryDirectory() as made:
        for source, kernels in machine_code.read_sources(list(new), made).items():
            known[source] = {name: [k.registers, k.spills, k.ptx] for name, k in kernels.items()}
            new[source].write_text(json.dumps(known[source]))
    return known


def counts_of_now(build, version):
    counts = {}
    with tempfile.TemporaryDirectory() as folder:
        labels = chains(build, pathlib.Path(folder))
        own = machine_code.own_sources()
        found = counted([*own, *labels], results.folder() / "kernel_counts", version)
        for source in own:
            for name, numbers in sorted(found[source].items()):
                counts[f"{source.stem}: {name}"] = numbers
        for source, label in labels.items():
            name, again = f"chain: {label}", 1
            while name in counts:
                again += 1
                name = f"chain: {label} ({again})"
            counts[name] = found[source]["chain"]
    return counts


def read_counts():
    before, version = {}, None
    for line in COUNTS.read_text().splitlines():
        if line.startswith("# nvcc: "):
            version = line.removeprefix("# nvcc: ")
        elif line and not line.startswith("#"):
            *numbers, name = line.split(None, 3)
            before[name] = [int(number) for number in numbers]
    return before, version


def write_counts(counts, version):
    lines = ["# Registers, bytes of spills and PTX instructions of each kernel for sm_90a. Set by",
             "# kernel_counts.py, which says how.", f"# nvcc: {version}"]
    lines += [f"{r:5} {s:5} {p:6}  {name}" for name, (r, s, p) in counts.items()]
    COUNTS.write_text("\n".join(lines) + "\n")


def compare(before, now, accept):
    grew = shrank = False
    for name, numbers in now.items():
        if name not in before:
            print(f"not in {COUNTS.name}: {name}")
            grew = True
            continue
        for field, old, new in zip(FIELDS, before[name], numbers):
            if new > old * (1 + GROWS):
                print(f"{name}: {field}: expected at most {old}, got {new}")
                grew = True
            elif new < old * (1 - GROWS):
                print(f"{name}: {field}: {new}, were {old}")
                shrank = True
    for name in before:
        if name not in now:
            print(f"not counted: {name}")
            grew = True
    if grew:
        print(f"Over 2 % more than {COUNTS.name} says, or other kernels. If that is meant:")
    elif shrank:
        print(f"Over 2 % less than {COUNTS.name} says. To keep it so:")
    if grew or shrank:
        print(f"  {accept}")
    return 1 if grew else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=pathlib.Path)
    parser.add_argument("--accept", action="store_true")
    options = parser.parse_args()
    try:
        version = nvcc_version()
        machine_code.find_program("ptxas")
        machine_code.find_program("c++filt")
    except machine_code.Missing as missing:
        print(f"skipped: {missing}")
        return 0
    before, of_version = read_counts() if COUNTS.exists() else ({}, version)
    if version != of_version and not options.accept:
        print(f"skipped: counts are those of {of_version}, this is {version}")
        return 0
    now = counts_of_now(options.build, version)
    if options.accept:
        write_counts(now, version)
        print(COUNTS.read_text(), end="")
        return 0
    status = compare(before, now, f"{sys.argv[0]} {options.build} --accept")
    print(f"{len(now)} kernels")
    return status


if __name__ == "__main__":
    sys.exit(main())
