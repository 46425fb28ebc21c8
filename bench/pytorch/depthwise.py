"""Depthwise convolutions in single precision, PyTorch and DAHL in turns.

    python depthwise.py --dahl PATH [--threads N] [--turns T] [--seconds S] [CASE…]     (bench/pytorch/depthwise runs it)

A case is samples,channels,side,kernel,stride; the padding keeps the side. Each turn of a side is a process of its own. The table
has the best time of all turns, in milliseconds, and the ratio of the medians of the turns' medians.
"""

import argparse
import json
import statistics
import subprocess
import sys
import time

# MobileNetV2 for 32×32 and for 224×224, ConvNeXt for 224×224.
CASES = ["32,96,32,3,1", "32,96,32,3,2", "32,144,16,3,1", "32,384,8,3,1", "32,960,4,3,1",
         "4,96,112,3,2", "8,144,56,3,1", "8,576,14,3,1", "16,960,7,3,1",
         "4,96,56,7,1", "8,192,28,7,1", "8,384,14,7,1", "16,768,7,7,1"]
PASSES = ["forward", "input", "filter"]


def by_torch(threads, seconds, cases):
    import torch
    torch.set_num_threads(threads)
    for case in cases:
        n, c, side, k, stride = map(int, case.split(","))
        x, w = torch.rand(n, c, side, side) - 0.5, torch.rand(c, 1, k, k) - 0.5
        dy = torch.nn.functional.conv2d(x, w, stride=stride, padding=k // 2, groups=c)

        def backward(mask):
            return torch.ops.aten.convolution_backward(
                dy, x, w, None, [stride] * 2, [k // 2] * 2, [1, 1], False, [0, 0], c, mask)

        calls = {"forward": lambda: torch.nn.functional.conv2d(x, w, stride=stride, padding=k // 2, groups=c),
                 "input": lambda: backward([True, False, False]), "filter": lambda: backward([False, True, False])}
        for name in PASSES:
            times, begin = [], time.perf_counter()
            with torch.no_grad():
                while len(times) < 5 or time.perf_counter() - begin < seconds:
                    start = time.perf_counter()
                    calls[name]()
                    times.append((time.perf_counter() - start) * 1e3)
            print(json.dumps({"case": case, "pass": name, "best": min(times), "median": statistics.median(times)}))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=0.15)
    parser.add_argument("--torch", action="store_true", help="PyTorch's turn, as lines of JSON")
    parser.add_argument("cases", nargs="*", default=CASES)
    args = parser.parse_args()
    if args.torch:
        return by_torch(args.threads, args.seconds, args.cases)
    given = [str(args.threads), str(args.seconds), *args.cases]
    sides = {"PyTorch": [sys.executable, __file__, "--dahl", "", "--torch", "--threads", given[0], "--seconds", given[1], *args.cases],
             "DAHL": [args.dahl, *given]}
    found = {}
    for turn in range(args.turns):
        for side in sorted(sides, reverse=turn % 2):
            lines = subprocess.run(sides[side], check=True, capture_output=True, text=True).stdout.splitlines()
            for line in map(json.loads, lines):
                found.setdefault((line["case"], line["pass"], side), []).append(line)
    print("| samples, channels, side, kernel, stride | threads | pass | PyTorch ms | DAHL ms | times | of medians |")
    print("|---|--:|---|--:|--:|--:|--:|")
    for case in args.cases:
        for name in PASSES:
            rows = [found[case, name, side] for side in ("PyTorch", "DAHL")]
            best = [min(r["best"] for r in row) for row in rows]
            middle = [statistics.median(r["median"] for r in row) for row in rows]
            print(f"| {case.replace(',', ', ')} | {args.threads} | {name} | {best[0]:.3f} | {best[1]:.3f} | {best[0] / best[1]:.2f} | "
                  f"{middle[0] / middle[1]:.2f} |")


if __name__ == "__main__":
    main()
