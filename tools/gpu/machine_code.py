"""Kernels as machine code, with no GPU: compiled by nvcc and ptxas, read by cuobjdump.

ptxas says registers, spills and shared memory; the PTX says how many instructions were asked for;
the disassembly says what a pass of each loop costs. The toolkit has no disassembler on every
machine: the Python packages nvidia-cuda-cuobjdump and nvidia-cuda-nvdisasm bring one.

Loops are ranges of addresses that end in a branch backwards; those inside of another count once
there. What lies behind a call in a loop (divisions and square roots of odd numbers) is not counted,
nor what the compiler put outside of the range: both are rare paths.
"""

import concurrent.futures
import dataclasses
import os
import pathlib
import re
import shutil
import subprocess

ROOT = pathlib.Path(__file__).resolve().parents[2]
KERNELS = ROOT / "executor/devices/cuda/kernels"


class Missing(Exception):
    """A program of the toolkit is not there."""


def find_program(name, folders=()):
    for folder in (*folders, "/usr/local/cuda/bin"):
        path = pathlib.Path(folder) / name
        if path.exists():
            return str(path)
    found = shutil.which(name)
    if found is None:
        raise Missing(f"{name} is not installed")
    return found


@dataclasses.dataclass
class Loop:
    begin: int
    end: int
    instructions: int = 0  # Of one pass, of one thread.
    special: int = 0  # Of those, on the unit of exp and 1/x.
    loads: list = dataclasses.field(default_factory=list)  # Bytes of each, from global memory.
    stores: list = dataclasses.field(default_factory=list)
    waits: int = 0  # How often a pass waits for memory: loads behind a store wait anew.
    copies: int = 0  # From global to shared memory, which a pass does not wait for.


@dataclasses.dataclass
class Kernel:
    name: str
    registers: int = 0
    spills: int = 0  # Bytes of stores and loads.
    ptx: int = 0  # Instructions.
    instructions: int = 0  # Of machine code, padding left out.
    loops: list = dataclasses.field(default_factory=list)
    around: list = dataclasses.field(default_factory=list)  # Loops that hold others.


# --- what ptxas says ------------------------------------------------------------------------------


def compile_ptx(source, made, architecture="90a"):
    """`source` to the file `made`."""
    command = [find_program("nvcc"), "-std=c++20", "-O3", f"-arch=compute_{architecture}", "-ptx",
               f"-I{ROOT}", str(source), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{source}: {done.stderr}")


def assemble(ptx, made, architecture="90a"):
    """What `ptxas -v` says, as kernels by their mangled names."""
    command = [find_program("ptxas"), "-v", f"-arch=sm_{architecture}", str(ptx), "-o", str(made)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{ptx}: {done.stderr}")
    kernels, now = {}, None
    for line in done.stderr.splitlines():
        if found := re.search(r"entry function '(\w+)'", line):
            now = kernels.setdefault(found[1], Kernel(found[1]))
        elif now and (found := re.search(r"(\d+) bytes spill stores, (\d+) bytes spill", line)):
            now.spills = int(found[1]) + int(found[2])
        elif now and (found := re.search(r"Used (\d+) registers", line)):
            now.registers = int(found[1])
    return kernels


def count_ptx(text):
    """Instructions of each entry, by its mangled name."""
    counts, name, depth = {}, None, 0
    for line in text.splitlines():
        line = line.strip()
        if found := re.search(r"\.entry (\w+)\(", line):
            name, depth = found[1], 0
            counts[name] = 0
        if name is None:
            continue
        depth += line.count("{") - line.count("}")
        if line == "}" and depth <= 0:
            name = None
        elif line.endswith(";") and not line.startswith((".", "//", "$")):
            counts[name] += 1
    return counts


# --- names ----------------------------------------------------------------------------------------


def plain(text):
    for long, short in (("gangway::cuda::", ""), ("unsigned char", "uint8_t"),
                        ("unsigned short", "uint16_t"), ("unsigned int", "uint32_t"),
                        ("unsigned long", "uint64_t"), ("int32_t", "int"), ("uint", "u_int"),
                        ("u_int", "uint")):
        text = re.sub(rf"\b{long}", short, text)
    return re.sub(r"\s", "", text)


def given_names(text):
    """What GW_INSTANCE calls each instance: by the instance. Also those that a macro makes of types,
    GW_OF_TYPES(NAME, TYPES...)."""
    pairs = re.findall(r'GW_INSTANCE\(\s*"(\w+)",\s*([^"]*?>)\)', text)
    by_types = re.findall(r'GW_INSTANCE\(\s*"(\w+)" of,\s*([^"]*?)__VA_ARGS__>\)', text)
    for of, types in re.findall(r'GW_OF_TYPES\("(\w+)",([^)]*)\)', text):
        pairs += [(name + of, f"{instance}{types}>") for name, instance in by_types]
    return {plain(instance): name for name, instance in pairs}


def demangled(names):
    done = subprocess.run([find_program("c++filt")], input="\n".join(names), text=True,
                          capture_output=True, check=True)
    return dict(zip(names, done.stdout.split("\n")))


def rename(kernels, source):
    """By the names that a driver knows."""
    given = given_names(pathlib.Path(source).read_text())
    readable = demangled(list(kernels))
    renamed = {}
    for mangled, kernel in kernels.items():
        full = re.sub(r"^void ", "", readable[mangled])
        instance = plain(full.split("(")[0])
        kernel.name = given.get(instance, instance)
        renamed[kernel.name] = kernel
    return renamed


# --- machine code ---------------------------------------------------------------------------------

WIDTHS = {"U8": 1, "S8": 1, "U16": 2, "S16": 2, "64": 8, "128": 16}
LINE = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(?:@!?U?P\w+\s+)?([A-Z][\w.]*)\s*(.*?);")


def width_of(opcode):
    return next((WIDTHS[part] for part in opcode.split(".") if part in WIDTHS), 4)


def read_loops(code):
    """`code`: (address, opcode, operands) of one kernel."""
    loops = []
    for at, opcode, operands in code:
        target = re.search(r"\b0x([0-9a-f]+)", operands)
        if opcode.split(".")[0] == "BRA" and target and int(target[1], 16) < at:
            loops.append(Loop(int(target[1], 16), at))
    holds = [any(a.begin <= b.begin and b.end <= a.end and (a.begin, a.end) != (b.begin, b.end)
                 for b in loops) for a in loops]
    for loop in loops:
        count_loop(loop, [line for line in code if loop.begin <= line[0] <= loop.end])
    inner = [loop for loop, outer in zip(loops, holds) if not outer]
    return inner, [loop for loop, outer in zip(loops, holds) if outer]


def blocks_of(code):
    """Runs of instructions between branches and what branches go to."""
    targets = {int(t, 16) for _, opcode, operands in code if opcode.split(".")[0] == "BRA"
               for t in re.findall(r"\b0x([0-9a-f]+)", operands)}
    blocks, now = [], []
    for line in code:
        if now and line[0] in targets:
            blocks.append(now)
            now = []
        now.append(line)
        if line[1].split(".")[0] in ("BRA", "CALL", "RET", "EXIT"):
            blocks.append(now)
            now = []
    return blocks + [now]


def count_loop(loop, code):
    loading = False
    for block in blocks_of(code):
        if any(opcode.startswith("CALL") for _, opcode, _ in block):
            continue
        loop.instructions += len(block)
        for _, opcode, _ in block:
            base = opcode.split(".")[0]
            if base == "MUFU":
                loop.special += 1
            elif base == "LDG":
                loop.loads.append(width_of(opcode))
                loop.waits += not loading
                loading = True
            elif base == "LDGSTS":
                loop.copies += 1
            elif base == "STG":
                loop.stores.append(width_of(opcode))
                loading = False


def disassemble(cubin, kernels, folders=()):
    """Adds instructions and loops to `kernels`, which are known by their mangled names."""
    cuobjdump = find_program("cuobjdump", folders)
    environment = dict(os.environ)
    environment["PATH"] = f"{pathlib.Path(cuobjdump).parent}:{environment.get('PATH', '')}"
    done = subprocess.run([cuobjdump, "-sass", str(cubin)], capture_output=True, text=True,
                          env=environment)
    if done.returncode != 0:
        raise RuntimeError(f"{cubin}: {done.stderr}")
    code = {}
    name = None
    for line in done.stdout.splitlines():
        if found := re.search(r"Function : (\w+)", line):
            name = found[1]
            code[name] = []
        elif name and (found := LINE.match(line)):
            code[name].append((int(found[1], 16), found[2], found[3]))
    for name, lines in code.items():
        while lines and (lines[-1][1] == "NOP" or f"0x{lines[-1][0]:x}" in lines[-1][2]):
            lines.pop()  # Behind the last EXIT.
        kernels[name].instructions = len(lines)
        kernels[name].loops, kernels[name].around = read_loops(lines)


# --- all of them ----------------------------------------------------------------------------------


def read_source(source, folder, folders=None):
    """The kernels of one source, by name; `folders` of the disassembler, None: not asked for."""
    stem = pathlib.Path(folder) / pathlib.Path(source).stem
    ptx, cubin = stem.with_suffix(".ptx"), stem.with_suffix(".cubin")
    compile_ptx(source, ptx)
    kernels = assemble(ptx, cubin)
    for name, count in count_ptx(ptx.read_text()).items():
        if name in kernels:
            kernels[name].ptx = count
    if folders is not None:
        disassemble(cubin, kernels, folders)
    return rename(kernels, source)


def read_sources(sources, folder, folders=None):
    """The same of many, by source."""
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        return dict(zip(sources, pool.map(lambda s: read_source(s, folder, folders), sources)))


def own_sources():
    return sorted(KERNELS.rglob("*.cu"))
