"""Times this kernel beside cuDNN's attention and FlashAttention-2 through PyTorch, on the same inputs in one run.

    python compare.py libattention_bench.so [--variants] [--widths 64,128] [--lengths 512,1024] [--json FILE]

bf16, forward, batch x length = 16384, heads x width = 2048; 4*B*H*N^2*D operations, half of that for causal. Inputs
rotate among sets that together exceed the L2 cache; figures are medians over single launches timed with CUDA events,
contenders taking turns. The card's two ceilings are measured in the same run.
"""
import argparse
import ctypes
import json
import math
import statistics
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

TOKENS, WIDTH = 16384, 2048


class Kernel:
    def __init__(self, path):
        self.library = ctypes.CDLL(path)
        self.library.attest_bench_name.restype = ctypes.c_char_p
        self.workspace = torch.empty(64 << 20, dtype=torch.uint8, device="cuda")

    def variants(self, width, few=False):
        """The shapes for this width, those made for few queries or the others."""
        count = self.library.attest_bench_variants()
        return [i for i in range(count)
                if self.library.attest_bench_width(i) == width and self.name(i).startswith("Few") == few]

    def name(self, variant):
        return "attest" if variant < 0 else self.library.attest_bench_name(variant).decode()

    def forward(self, variant, q, k, v, o, lse, causal):
        b, hq, nq, d = q.shape
        message = ctypes.create_string_buffer(256)
        pointer = lambda t: ctypes.c_void_p(t.data_ptr())
        status = self.library.attest_bench_forward(
            variant, int(q.dtype == torch.float16), pointer(q), pointer(k), pointer(v), pointer(o), pointer(lse),
            pointer(self.workspace), *map(ctypes.c_long, (b, hq, k.shape[1], nq, k.shape[2], d)), int(causal),
            ctypes.c_float(1 / math.sqrt(d)), ctypes.c_void_p(torch.cuda.current_stream().cuda_stream), message)
        if status:
            raise RuntimeError(message.value.decode())


def time_in_turns(contenders, sets, repeats):
    """Milliseconds of each launch, contenders in turn, after warming up."""
    times = {name: [] for name in contenders}
    for name, run in contenders.items():
        for i in range(3):
            run(sets[i % len(sets)])
    torch.cuda.synchronize()
    for repeat in range(repeats):
        for name, run in contenders.items():
            start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            run(sets[(repeat + 1) % len(sets)])  # the clock and the pipeline settle on this contender
            start.record()
            run(sets[repeat % len(sets)])
            end.record()
            times[name].append((start, end))
    torch.cuda.synchronize()
    return {name: [a.elapsed_time(b) for a, b in pairs] for name, pairs in times.items()}


def ceilings():
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    big = torch.empty(2 << 30, device="cuda", dtype=torch.uint8)
    other = torch.empty_like(big)
    t = time_in_turns({"multiply": lambda _: torch.matmul(a, b), "copy": lambda _: other.copy_(big)}, [None], 10)
    return 2 * 8192**3 / statistics.median(t["multiply"]) / 1e9, 2 * big.numel() / statistics.median(t["copy"]) / 1e9


def decoding(kernel, repeats, few_variants):
    """One query over many keys, batch 16, 16 heads, D 128: bandwidth in TB/s, the bytes of K and V alone counted."""
    cells = []
    for n in 8192, 65536:
        b, h, d = 16, 16, 128
        tensor = lambda length: torch.randn(b, h, length, d, device="cuda", dtype=torch.bfloat16)
        sets = [[tensor(1), tensor(n), tensor(n)] for _ in range(2)]
        out = torch.empty_like(sets[0][0])
        lse = torch.empty(b, h, 1, device="cuda")
        contenders = {"attest": lambda qkv: kernel.forward(-1, *qkv, out, lse, False)}
        for variant in few_variants:
            contenders[kernel.name(variant)] = lambda qkv, variant=variant: kernel.forward(variant, *qkv, out, lse, False)
        for name, backend in ("cudnn", SDPBackend.CUDNN_ATTENTION), ("flash2", SDPBackend.FLASH_ATTENTION):
            def run(qkv, backend=backend):
                with sdpa_kernel(backend):
                    return torch.nn.functional.scaled_dot_product_attention(*qkv)
            try:
                expected = run(sets[0]).float()
                contenders[name] = run
            except RuntimeError as error:
                print(f"decode N {n}: {name} refuses: {str(error).splitlines()[0]}")
        contenders["attest"](sets[0])
        difference = ((out.float() - expected).norm() / expected.norm()).item()
        if not difference < 5e-3:
            print(f"decode N {n}: differs by {difference}")
        times = time_in_turns(contenders, sets, repeats)
        cell = {"length": n, "tbps": {name: 4 * b * h * n * d / statistics.median(t) / 1e9 for name, t in times.items()}}
        cells.append(cell)
        print(f"decode N {n:5}: " + ", ".join(f"{name} {v:.2f} TB/s" for name, v in cell["tbps"].items()), flush=True)
        del sets, expected
    return cells


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("library")
    parser.add_argument("--variants", action="store_true")
    parser.add_argument("--widths", default="64,128,256")
    parser.add_argument("--lengths", default="512,1024,2048,4096,8192,16384")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--json")
    parser.add_argument("--masks", default="full,causal")
    parser.add_argument("--no-decode", action="store_true")
    args = parser.parse_args()
    kernel = Kernel(args.library)
    multiply, copy = ceilings()
    print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}, cuDNN {torch.backends.cudnn.version()}, "
          f"8192^3 bf16 product {multiply:.0f} TFLOP/s, copy {copy:.2f} TB/s", flush=True)
    cells = []
    for d in map(int, args.widths.split(",")):
        for causal in [mask == "causal" for mask in args.masks.split(",")]:
            for n in map(int, args.lengths.split(",")):
                b, h = TOKENS // n, WIDTH // d
                torch.manual_seed(n + d)
                tensor = lambda: torch.randn(b, h, n, d, device="cuda", dtype=torch.bfloat16)
                sets = [[tensor() for _ in range(3)] for _ in range(3)]
                out = torch.empty_like(sets[0][0])
                lse = torch.empty(b, h, n, device="cuda")

                def torch_attention(backend):
                    def run(qkv):
                        with sdpa_kernel(backend):
                            return torch.nn.functional.scaled_dot_product_attention(*qkv, is_causal=causal)
                    return run

                contenders = {"cudnn": torch_attention(SDPBackend.CUDNN_ATTENTION),
                              "flash2": torch_attention(SDPBackend.FLASH_ATTENTION)}
                expected = contenders["cudnn"](sets[0]).float()
                chosen = [-1] + (kernel.variants(d) if args.variants else [])
                for variant in chosen:
                    run = lambda qkv, variant=variant: kernel.forward(variant, *qkv, out, lse, causal)
                    out.fill_(float("nan"))
                    run(sets[0])
                    difference = ((out.float() - expected).norm() / expected.norm()).item()
                    if not difference < 5e-3:
                        print(f"D {d} N {n} causal {causal} {kernel.name(variant)}: differs from cuDNN by {difference}")
                        continue
                    contenders[kernel.name(variant)] = run
                del expected
                times = time_in_turns(contenders, sets, args.repeats)
                work = 4 * b * h * n * n * d / (2 if causal else 1)
                cell = {"width": d, "causal": causal, "length": n, "tflops": {}, "spread": {}}
                for name, t in times.items():
                    middle = statistics.median(t)
                    cell["tflops"][name] = work / middle / 1e9
                    cell["spread"][name] = (max(t) - min(t)) / middle
                cells.append(cell)
                best = cell["tflops"]
                print(f"D {d:3} {'causal' if causal else 'full  '} N {n:5}: " +
                      ", ".join(f"{name} {v:.0f} ({v / best['cudnn']:.2f})" for name, v in best.items()), flush=True)
                del sets, out, lse
    decode_cells = [] if args.no_decode else decoding(kernel, args.repeats, kernel.variants(128, few=True) if args.variants else [])
    ratios = [c["tflops"]["attest"] / c["tflops"]["cudnn"] for c in cells if "attest" in c["tflops"]]
    print(f"attest / cudnn over {len(ratios)} cells: geometric mean "
          f"{math.exp(sum(map(math.log, ratios)) / len(ratios)):.3f}, least {min(ratios):.3f}")
    if args.json:
        with open(args.json, "w") as f:
            json.dump({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                       "cudnn": torch.backends.cudnn.version(), "product_tflops": multiply, "copy_tbps": copy,
                       "cells": cells, "decode": decode_cells}, f, indent=1)


if __name__ == "__main__":
    sys.exit(main())
