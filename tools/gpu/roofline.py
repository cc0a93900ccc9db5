#!/usr/bin/env python3
"""What a training step of GPT-2's shapes would take on an H200, by roofline, with no GPU.

  tools/gpu/roofline.py --build build --output docs/gpu_roofline.md

The calls of a step come from build/bench/gpu_launches, what a kernel costs from its machine code
(machine_code.py). The disassembler is found in the Python packages of this interpreter:

  python3 -m venv /tmp/sass
  /tmp/sass/bin/pip install nvidia-cuda-cuobjdump nvidia-cuda-nvdisasm
  /tmp/sass/bin/python tools/gpu/roofline.py --build build --output docs/gpu_roofline.md

A call's time is the longest of four: its bytes, its instructions, its exponentials and divisions,
and its waits for memory, one behind another in a thread; and a constant for each call. Nothing
overlaps. The numbers below are rates that were measured on such cards, not the data sheet's, except
where one is said to be assumed.
"""

import argparse
import dataclasses
import json
import math
import pathlib
import re
import subprocess
import sys
import sysconfig
import tempfile

sys.dont_write_bytecode = True
import machine_code  # noqa: E402

PEAK = 989e12  # Of bf16, by the data sheet: shares are of this.
PRODUCTS = 788e12  # Operations a second of cuBLASLt in bf16.
ATTENTION, ATTENTION_GRAD = 350e12, 250e12  # Of cuDNN, heads of 64, causal. Assumed.
MEMORY = 4.3e12  # Bytes a second.
MULTIPROCESSORS, CLOCK = 132, 1.83e9
SHARED, SHARED_BLOCK = 228 << 10, 1 << 10  # Bytes of a multiprocessor; what a block takes beside.
BUSY = 0.8  # The share of issue slots that long arithmetic fills. Assumed.
INSTRUCTIONS = MULTIPROCESSORS * 4 * 32 * CLOCK * BUSY  # Of threads, a second.
SPECIAL = MULTIPROCESSORS * 16 * CLOCK * BUSY
# Latencies of a load: from memory, from the first cache and shared memory. Assumed.
LATENCY, CACHED = 0.6e-6, 0.03e-6
CALL = 1.0e-6  # From one kernel of a graph to the next. Assumed.
COMMONEST = 0.04  # The share of a text that its commonest token is. Assumed.

SHAPES = (("124m", 32), ("xl", 24))


@dataclasses.dataclass
class Pass:
    """A loop, and how often all threads together go through it."""

    loop: machine_code.Loop
    passes: float
    latency: float = LATENCY


@dataclasses.dataclass
class Row:
    name: str
    label: str
    count: int
    elements: float = 0
    instructions: float = 0  # Of all threads.
    special: float = 0
    bytes: float = 0
    wait: float = 0  # Seconds of one thread.
    flops: float = 0
    rate: float = PRODUCTS

    def parts(self):
        return {"bytes": self.bytes / MEMORY, "instructions": self.instructions / INSTRUCTIONS,
                "exp, 1/x": self.special / SPECIAL, "waits": self.wait,
                "operations": self.flops / self.rate}

    def limit(self):
        parts = self.parts()
        return max(parts, key=parts.get)

    def seconds(self):
        return max(self.parts().values()) + CALL


def wide(loops):
    """Those that go through rows in strips, where there are such."""
    loops = [loop for loop in loops if loop.loads]
    return [loop for loop in loops if max(loop.loads) == 16] or loops


def most(loops, of):
    return max(loops, key=lambda loop: (sum(of(loop)), -loop.instructions))


def of_rows(kernel, tensors, chosen):
    """Each of the chosen loops goes once through the first tensor."""
    loops = wide(kernel.loops)
    return [Pass(loops[i], tensors[0] / max(loops[i].loads)) for i in chosen]


def passes_of(name, kernel, call):
    tensors = [size for size, _ in call["tensors"]]
    written = sum(size for size, kind in call["tensors"] if kind != "r")
    if "_held_" in name:  # A pass for each strip.
        return [Pass(max(kernel.loops, key=lambda loop: loop.instructions), tensors[0] / 16)]
    if re.match(r"norm_rows_", name):
        return of_rows(kernel, tensors, [1])  # The first is layer norm's.
    if re.match(r"norm_grad_param_", name):
        loop = most(kernel.loops, lambda loop: loop.loads)
        # x and dy; the statistics of a row are read beside them.
        narrow = [width for width in loop.loads if width == min(loop.loads)]
        return [Pass(loop, (tensors[0] + tensors[1]) / sum(narrow))]
    if re.match(r"join_|columns_|rows_|squares_", name):
        loop = most(kernel.loops, lambda loop: loop.loads)
        return [Pass(loop, tensors[0] / sum(loop.loads))]
    if re.match(r"norm_grad_", name):
        return of_rows(kernel, tensors, [0, 1])
    if re.match(r"norm_", name):
        return of_rows(kernel, tensors, [1, 3])
    if re.match(r"cross_entropy_and_grad_", name):
        # All copies of a row are under way at once; the other loops read it in shared memory.
        copy, *others = kernel.loops
        strips = tensors[0] / 16
        return [Pass(copy, strips)] + [
            Pass(dataclasses.replace(loop, waits=1), strips, CACHED) for loop in others]
    if re.match(r"cross_entropy", name):
        return of_rows(kernel, tensors, [0])
    if name == "scatter_sort_tiles":  # Two keys of a tile of 1024 are put in order at a time.
        steps = sum(range(1, 11))
        loop = max(kernel.loops, key=lambda loop: loop.instructions)
        return [Pass(dataclasses.replace(loop, loads=[1]), tensors[0] / 4 / 2 * steps, CACHED)]
    if name == "scatter_merge":  # Keys are few enough for the second cache.
        n = tensors[0] / 8
        return [Pass(next(loop for loop in kernel.loops if loop.loads), n * math.log2(n) / 2,
                     LATENCY / 2)]
    if re.match(r"scatter_pieces_", name):
        loop = wide(kernel.loops)[-1]
        return [Pass(loop, tensors[1] / max(loop.loads))]
    if re.match(r"scatter_join_", name):
        return []
    stores = [loop for loop in kernel.loops if loop.stores and (loop.loads or len(tensors) == 1)]
    if not stores:
        stores = [loop for loop in kernel.loops if loop.stores]
    if not stores:
        return []
    loop = most(stores, lambda loop: loop.stores)
    return [Pass(loop, written / sum(loop.stores))]


# apply_*: the loop holds every op and is none of the innermost. The instructions were counted along
# the path of an addition.
APPLY_INSTRUCTIONS = 36


def bytes_of(name, call):
    sizes = [size for size, _ in call["tensors"]]
    written = sum(size for size, kind in call["tensors"] if kind != "r")
    if name.startswith("gather_rows"):
        return 2 * written + sizes[1]
    if name.startswith("move_"):
        return 2 * written
    if name.startswith("scatter_pieces"):
        return 2 * sizes[1]  # Few rows have updates.
    if name.startswith("scatter_join"):
        return sizes[0]
    return sum(size * (2 if kind == "rw" else 1) for size, kind in call["tensors"])


def elements_of(name, call):
    """Of the largest tensor."""
    sizes = [size for size, _ in call["tensors"]]
    if name.startswith("gather_rows"):
        sizes = sizes[1:]
    widths = {"bool": 1, "bf16": 2, "i32": 4, "f32": 4, "f64": 8}
    found = [widths[t] for t in re.findall(r"bool|bf16|i32|f32|f64", name)]
    digits = re.search(r"_(\d+)$", name)
    width = found[0] if found else int(digits[1]) if digits else 4
    return max(sizes) / width


def resident_threads(kernel, call):
    block = call["block"]
    blocks = min(32, 2048 // block, 65536 // (math.ceil(max(kernel.registers, 1) / 8) * 8 * block),
                 SHARED // (call["shared_bytes"] + SHARED_BLOCK))
    return MULTIPROCESSORS * max(blocks, 1) * block


def wait_of(name, kernel, call, passes):
    grid = math.prod(call["grid"])
    threads = grid * call["block"]
    turns = math.ceil(threads / resident_threads(kernel, call))
    if name.startswith("scatter_join"):
        # The block of the commonest token adds up its pieces of 32, one behind another.
        pieces = call["tensors"][0][0] / 8 / 32
        columns = call["tensors"][1][0] / pieces / 2 / 4
        return pieces * COMMONEST * (math.ceil(columns / call["block"]) + 1) * LATENCY
    busy = threads
    if name.startswith("columns_"):  # Few lines: most threads have none.
        busy = min(threads, max(call["tensors"][-1][0] / 4, 1))
    of_copies = LATENCY if any(p.loop.copies for p in passes) else 0
    return turns * (of_copies + sum(
        math.ceil(p.passes / busy) * max(p.loop.waits, 1 if p.loop.loads else 0) * p.latency
        for p in passes))


def around(name, kernel):
    """What a thread does outside of loops. Blocks that reduce do most of it."""
    if not re.match(r"norm_|cross_entropy|softmax|rows_|squares_", name):
        return 30
    return max(kernel.instructions - sum(loop.instructions for loop in kernel.loops), 0) / 2


# Calls over many tensors: number of arguments of each tensor, and of all together, which come last.
MANY = {"adamw": (7, 4), "squares": (1, 1), "join_squares": (1, 1)}


def as_one_tensor(call, each, of_all):
    packed = len(call["tensors"]) - of_all
    tensors = [[sum(size for size, _ in call["tensors"][i:packed:each]), call["tensors"][i][1]]
               for i in range(each)]
    return {**call, "tensors": tensors + call["tensors"][packed:]}


def kernel_row(call, kernel):
    name = call["kernel"]
    many = re.match(r"(adamw|squares|join_squares)_\d+_", name)
    if many:
        call = as_one_tensor(call, *MANY[many[1]])
    row = Row(call["label"] if name == "chain" else name, call["label"], call["count"])
    row.elements = elements_of(name, call)
    row.bytes = bytes_of(name, call)
    if name.startswith("apply_"):
        row.instructions = row.elements * APPLY_INSTRUCTIONS
        per_thread = math.ceil(row.elements / math.prod(call["grid"]) / call["block"])
        row.wait = per_thread * LATENCY * math.ceil(
            math.prod(call["grid"]) * call["block"] / resident_threads(kernel, call))
        return row
    passes = passes_of(name, kernel, call)
    threads = math.prod(call["grid"]) * call["block"]
    row.instructions = sum(p.passes * p.loop.instructions for p in passes)
    row.instructions += threads * around(name, kernel)
    row.special = sum(p.passes * p.loop.special for p in passes)
    row.wait = wait_of(name, kernel, call, passes)
    return row


def chain_width(source):
    """Bytes of an element of the first tensor that is written."""
    found = re.search(r"Global<(\w+)> out0", source)
    return {"bool": 1, "bf16": 2, "int32_t": 4, "float": 4, "double": 8}[found[1]]


def rows_of(step, sources, kernels):
    rows = []
    for call in step["calls"]:
        if call["kind"] in ("product", "attention", "attention_grad"):
            rate = {"product": PRODUCTS, "attention": ATTENTION,
                    "attention_grad": ATTENTION_GRAD}[call["kind"]]
            rows.append(Row(f"{call['kind'].replace('_', ' ')} {call['kernel']}", call["label"],
                            call["count"], flops=call["flops"], rate=rate,
                            bytes=sum(size for size, _ in call["tensors"])))
        elif call["kind"] == "copy":
            rows.append(Row("copy", call["label"], call["count"],
                            bytes=sum(size for size, _ in call["tensors"])))
        elif call["source"] >= 0:
            source = sources[call["source"]]
            written = [size for size, kind in call["tensors"] if kind != "r"]
            row = kernel_row(call, kernels[source]["chain"])
            row.elements = written[0] / chain_width(source)
            rows.append(row)
        else:
            rows.append(kernel_row(call, kernels["own"][call["kernel"]]))
    return rows


# --- the table ------------------------------------------------------------------------------------


def short(label):
    return re.sub(r"^\w[\w.]*: %\d+ ", "", label)


def table(step, rows):
    total = sum(row.count * row.seconds() for row in rows)
    calls = sum(row.count for row in rows)
    share = step["useful_flops"] / total / PEAK
    lines = [f"## GPT-2 {'1.5B' if step['model'] == 'xl' else '124M'}, batch {step['batch']}, "
             f"{step['dtype']}", "",
             f"{calls} calls, {total * 1e3:.1f} ms a step by this roofline, "
             f"{step['tokens'] / total:,.0f} tokens a second, **{share * 100:.1f} %** of 989 "
             "TFLOP/s.", "",
             "| call | times | million elements | instructions an element | bytes an element | "
             "us each | ms a step | share | by |",
             "| --- | --: | --: | --: | --: | --: | --: | --: | --- |"]
    small = []
    for row in sorted(rows, key=lambda row: -row.count * row.seconds()):
        ms = row.count * row.seconds() * 1e3
        if ms < total * 1e3 * 0.003:
            small.append(row)
            continue
        per = [f"{row.elements / 1e6:.2f}", f"{row.instructions / row.elements:.1f}",
               f"{row.bytes / row.elements:.1f}"] if row.elements else ["", "", ""]
        lines.append(f"| {short(row.name)} | {row.count} | {' | '.join(per)} | "
                     f"{row.seconds() * 1e6:.1f} | {ms:.2f} | {ms / total / 10:.1f} % | "
                     f"{row.limit()} |")
    ms = sum(row.count * row.seconds() for row in small) * 1e3
    lines.append(f"| {len(small)} others | {sum(row.count for row in small)} | | | | | {ms:.2f} | "
                 f"{ms / total / 10:.1f} % | |")
    groups = {"products": 0.0, "attention": 0.0, "all else": 0.0}
    for row in rows:
        group = next((g for g in ("product", "attention") if row.name.startswith(g)), "all else")
        groups[{"product": "products"}.get(group, group)] += row.count * row.seconds()
    lines += ["", "; ".join(f"{name} {s * 1e3:.1f} ms" for name, s in groups.items()) + ".", ""]
    return lines


HEAD = """# A step on an H200, by roofline

Made by `tools/gpu/roofline.py` from the calls that a card would get (`gpu_launches`) and from the
machine code of their kernels (sm_90a), on a machine with no GPU. **Nothing here was measured on a
card**: it says which kernels can't be fast, and why, not that the others are.

A call takes the longest of these, and 1 us beside: its bytes at 4.3 TB/s; its instructions at 24.7
T a second (80 % of the issue slots of 132 multiprocessors at 1.83 GHz); exponentials and 1/x at an
eighth of that; waits for memory of 0.6 us each, as a thread has them one behind another, in as many
turns as the threads need; products at 788 TFLOP/s, attention at 350 and its gradient at 250. The
rates of bytes and products were measured on such cards; the rest is assumed.

"Instructions" are those of a thread. "By" is what a call waits for.
"""


def packages_folder():
    return pathlib.Path(sysconfig.get_paths()["purelib"]) / "nvidia/cu13/bin"


def step_of(build, model, batch, folder):
    folder.mkdir()
    done = subprocess.run([str(build / "bench/gpu_launches"), "--model", model, "--batch",
                           str(batch), "--sources", str(folder)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"gpu_launches: {done.stderr}")
    step = json.loads(done.stdout)
    count = max((call["source"] for call in step["calls"]), default=-1) + 1
    return step, [folder / f"chain-{i}.cu" for i in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--build", type=pathlib.Path, default=machine_code.ROOT / "build")
    parser.add_argument("--output", type=pathlib.Path, help="else to the terminal")
    options = parser.parse_args()
    lines = HEAD.splitlines() + [""]
    with tempfile.TemporaryDirectory() as made:
        made = pathlib.Path(made)
        folders = [packages_folder()]
        own = {}
        # Attention and products run a library's kernels here, except for experts.
        sources = [path for path in machine_code.own_sources() if path.parent.name != "tiled"]
        for kernels in machine_code.read_sources(sources, made, folders).values():
            own.update(kernels)
        for model, batch in SHAPES:
            folder = made / model
            step, paths = step_of(options.build, model, batch, folder)
            texts = [path.read_text() for path in paths]
            compiled = machine_code.read_sources(paths, folder, folders)
            kernels = {text: compiled[path] for text, path in zip(texts, paths)}
            lines += table(step, rows_of(step, texts, {**kernels, "own": own}))
    text = "\n".join(lines)
    if options.output:
        options.output.write_text(text)
    else:
        print(text)


if __name__ == "__main__":
    main()
