#!/usr/bin/env python3
"""What bench/gpu_programs measures, in PyTorch on the same card: the same model, tokens, optimizer.

  torch_peer.py train --model 124m --batch 32     eager, then torch.compile
  torch_peer.py calls

Weights are f32 and products bf16 (autocast), as Gangway's bf16 is; attention is PyTorch's own fused
one, AdamW the fused one, gradients are clipped. --compile layers compiles one layer for all, which
PyTorch advises for deep models: a whole one takes minutes. A line "result: NAME VALUE" for each
number, named and counted as gpu_programs does.
"""

import argparse
import time

import torch
import torch.nn.functional as F
from torch import nn

# layers, dim, heads, vocab, seq
MODELS = {
    "tiny": (2, 64, 2, 512, 64),
    "124m": (12, 768, 12, 50304, 1024),
    "xl": (48, 1600, 25, 50304, 1024),
}


def result(name, value):
    print(f"result: {name} {value:.6g}", flush=True)


def norm(x, weight):
    return F.rms_norm(x, x.shape[-1:], weight.to(x.dtype), 1e-5)


class Block(nn.Module):
    def __init__(self, dim, heads, layers):
        super().__init__()
        self.heads = heads
        small, residual = dim**-0.5, (2 * layers) ** -0.5
        self.attn_norm = nn.Parameter(torch.ones(dim))
        self.ffn_norm = nn.Parameter(torch.ones(dim))
        # q, k and v as one product, as PyTorch's users write it.
        self.qkv = nn.Parameter(torch.randn(3 * dim, dim) * small)
        self.o = nn.Parameter(torch.randn(dim, dim) * small * residual)
        self.up = nn.Parameter(torch.randn(4 * dim, dim) * small)
        self.down = nn.Parameter(torch.randn(dim, 4 * dim) * residual * (4 * dim) ** -0.5)

    def forward(self, x):
        batch, seq, dim = x.shape
        n = norm(x, self.attn_norm)
        parts = F.linear(n, self.qkv).view(batch, seq, 3, self.heads, dim // self.heads)
        q, k, v = parts.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + F.linear(mixed.transpose(1, 2).reshape(batch, seq, dim), self.o)
        n = norm(x, self.ffn_norm)
        return x + F.linear(F.gelu(F.linear(n, self.up), approximate="tanh"), self.down)


class Model(nn.Module):
    def __init__(self, layers, dim, heads, vocab, seq):
        super().__init__()
        self.embed = nn.Parameter(torch.randn(vocab, dim) * dim**-0.5)
        self.pos = nn.Parameter(torch.randn(seq, dim) * dim**-0.5)
        self.final_norm = nn.Parameter(torch.ones(dim))
        self.blocks = nn.ModuleList(Block(dim, heads, layers) for _ in range(layers))

    def ends(self, tokens):
        return (F.embedding(tokens, self.embed) + self.pos).bfloat16()

    def loss(self, x, tokens):
        logits = F.linear(norm(x, self.final_norm), self.embed)
        labels = F.pad(tokens[:, 1:], (0, 1), value=-100)  # The last position predicts nothing.
        return F.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())

    def forward(self, tokens):
        x = self.ends(tokens)
        for block in self.blocks:
            x = block(x)
        return self.loss(x, tokens)


def flops_of(layers, dim, _heads, vocab, seq, batch):
    """Useful operations of a step: as bench/model_products.h."""
    weights = layers * 12 * dim * dim + vocab * dim
    return 6.0 * batch * seq * (weights + layers * seq * dim)


class Device:
    def __init__(self, name):
        self.name = name
        self.cuda = name == "cuda"

    def wait(self):
        if self.cuda:
            torch.cuda.synchronize()


def measure(name, forward, model, tokens, shape, device, steps, seconds):
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True
    )

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast(device.name, dtype=torch.bfloat16):
            loss = forward(tokens)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        return loss

    if device.cuda:
        torch.cuda.reset_peak_memory_stats()
    begin = time.perf_counter()
    first = step().item()
    for _ in range(3):
        step().item()
    result(name + "first_steps_s", time.perf_counter() - begin)
    begin = time.perf_counter()
    step().item()
    steps = max(3, min(steps, int(seconds / (time.perf_counter() - begin))))
    device.wait()
    cpu, begin = time.process_time(), time.perf_counter()
    for _ in range(steps):
        loss = step()
    last = loss.item()
    device.wait()
    step_s = (time.perf_counter() - begin) / steps
    assert last < first, f"the loss of one batch must fall, was {first}, is {last}"
    result(name + "steps", steps)
    result(name + "step_ms", step_s * 1e3)
    result(name + "tokens_per_s", tokens.numel() / step_s)
    result(name + "tflops", flops_of(*shape, tokens.shape[0]) / step_s * 1e-12)
    result(name + "cpu_ms", (time.process_time() - cpu) / steps * 1e3)
    result(name + "first_loss", first)
    result(name + "last_loss", last)
    if device.cuda:
        result(name + "peak_mib", torch.cuda.max_memory_allocated() / 2**20)


def compiled(model, what):
    if what == "model":
        return torch.compile(model)
    for block in model.blocks:
        block.compile()
    model.ends = torch.compile(model.ends)
    model.loss = torch.compile(model.loss)
    return model


def train(options, device):
    shape = MODELS[options.model]
    vocab, seq = shape[3:]
    index = torch.arange(options.batch * seq, dtype=torch.int64)
    tokens = index * 2654435761 % 4294967296 // 256 % vocab
    tokens = tokens.view(options.batch, seq).to(device.name)
    torch.manual_seed(1)
    with torch.device(device.name):
        model = Model(*shape)
    for kind in ("torch_eager", "torch_compile"):
        name = f"train.{options.model}.bf16.{kind}."
        result(name + "batch", options.batch)
        try:
            forward = model if kind == "torch_eager" else compiled(model, options.compile)
            measure(name, forward, model, tokens, shape, device, options.steps, options.seconds)
        except torch.OutOfMemoryError as error:
            print(f"{name} out of memory: {error}", flush=True)
        model.zero_grad(set_to_none=True)
        if device.cuda:
            torch.cuda.empty_cache()


def median(values):
    return sorted(values)[len(values) // 2]


def calls(device):
    """A chain of 128 additions: eager, and replayed as one CUDA graph."""
    x = torch.ones((), device=device.name)

    def chain():
        y = x
        for _ in range(128):
            y = y + 1.0
        return y

    def us_per_node(run, runs):
        rounds = []
        for round_ in range(-3, 50):
            begin = time.perf_counter()
            for _ in range(runs):
                run()
            device.wait()
            if round_ >= 0:
                rounds.append((time.perf_counter() - begin) * 1e6 / runs / 128)
        return median(rounds)

    result("calls.torch_eager.chained_128_waited.us_per_node", us_per_node(chain, 1))
    result("calls.torch_eager.chained_128_ahead.us_per_node", us_per_node(chain, 8))
    if not device.cuda:
        return
    chain()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        chain()
    result("calls.torch_graph.chained_128_ahead.us_per_node", us_per_node(graph.replay, 8))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    for name in ("train", "calls"):
        command = commands.add_parser(name)
        command.add_argument("--device", default="cuda", choices=("cpu", "cuda"))
    command = commands.choices["train"]
    command.add_argument("--model", default="124m", choices=sorted(MODELS))
    command.add_argument("--batch", type=int, default=8)
    command.add_argument("--compile", default="model", choices=("model", "layers"))
    command.add_argument("--steps", type=int, default=20)
    command.add_argument("--seconds", type=float, default=10)
    options = parser.parse_args()
    device = Device(options.device)
    card = torch.cuda.get_device_name() if device.cuda else "cpu"
    print(f"PyTorch {torch.__version__} on {card}", flush=True)
    if options.command == "train":
        train(options, device)
    else:
        calls(device)


if __name__ == "__main__":
    main()
