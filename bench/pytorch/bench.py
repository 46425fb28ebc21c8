"""Images per second of training steps: PyTorch and DAHL, turn by turn, on the same model files.

Every measurement is a process of its own, so that peak memory is that of one case. A step is zero_grad,
forward, cross-entropy, backward and SGD, on a batch that is already in memory. Both sides give the best
and the median of stretches of about a twelfth of the time.
"""

import argparse
import json
import os
import pathlib
import resource
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Model, batch, least ratio.
CASES = [
    ("small-cnn", 10, 5.0), ("small-cnn", 64, 5.0), ("small-cnn", 256, 5.0), ("lenet5", 64, 3.0),
    ("vgg-small", 32, 1.3), ("vgg-small", 128, 1.3), ("small-cnn-512", 32, 5.0), ("resnet18-32", 32, 1.1),
]

# Cores that other processes may use before a comparison says nothing.
QUIET = 0.2


def stretches(once, seconds):
    """Times per step, sorted: stretches of about a twelfth of the time, for at least the time."""
    for _ in range(2):
        once()
    start = time.perf_counter()
    for _ in range(3):
        once()
    steps = max(1, int(seconds / 12 / ((time.perf_counter() - start) / 3)))
    times, end = [], time.perf_counter() + seconds
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        for _ in range(steps):
            once()
        times.append((time.perf_counter() - start) / steps)
    return sorted(times)


def torch_step(model, batch, threads, seconds):
    import torch
    import models

    torch.set_num_threads(threads)
    torch.manual_seed(1)
    network = models.load(ROOT / "crates/dahl-nn/models" / f"{model}.toml")
    pixels = torch.rand(batch, *network.input)
    labels = torch.randint(network.classes, (batch,))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-4)
    loss = torch.nn.CrossEntropyLoss()

    def once():
        optimizer.zero_grad()
        loss(network(pixels), labels).backward()
        optimizer.step()

    times = stretches(once, seconds)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return {"images_per_second": batch / times[0], "median_images_per_second": batch / times[len(times) // 2],
            "peak_rss_bytes": peak}


def roofline(threads):
    """What the machine can do: a large matrix product, and copying an array that fits no cache."""
    import torch

    torch.set_num_threads(threads)
    a, b = torch.rand(1024, 1024), torch.rand(1024, 1024)
    out = torch.empty(1024, 1024)
    product = stretches(lambda: torch.mm(a, b, out=out), 0.6)[0]
    x = torch.rand(32 << 20)
    y = torch.empty_like(x)
    copy = stretches(lambda: y.copy_(x), 0.6)[0]
    return {"gemm_gflops": 2 * 1024**3 / product / 1e9, "copy_gb_per_s": 2 * 4 * x.numel() / copy / 1e9,
            "torch": torch.__version__}


def itself(threads, *arguments):
    environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "MKL_NUM_THREADS": str(threads)}
    command = [sys.executable, __file__, *map(str, arguments)]
    return json.loads(subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout)


def dahl_step(binary, model, batch, threads, seconds):
    command = [binary, "bench", "step", str(ROOT / "crates/dahl-nn/models" / f"{model}.toml"), "--batch", str(batch), "--workers",
               str(threads), "--dtype", "f32", "--optimizer", "sgd", "--seconds", str(seconds), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def busy():
    """Processor seconds that the whole machine has used, and that our finished children have used."""
    with open("/proc/stat", encoding="ascii") as file:
        user, nice, system, _idle, _wait, irq, soft = map(int, file.readline().split()[1:8])
    own = os.times()
    total = (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")
    return time.perf_counter(), total, own.user + own.system + own.children_user + own.children_system


def others(before, after):
    """How many cores other processes kept busy meanwhile."""
    return max(0.0, (after[1] - before[1]) - (after[2] - before[2])) / (after[0] - before[0])


def measure(args):
    rows = []
    for model, batch, bar in CASES:
        if args.only and args.only not in model:
            continue
        for threads in (1, 2):
            best = {"torch": None, "dahl": None}
            for turn in range(args.rounds):
                order = ["torch", "dahl"] if turn % 2 == 0 else ["dahl", "torch"]
                for engine in order:
                    before = busy()
                    if engine == "torch":
                        found = itself(threads, "--torch", model, batch, threads, args.seconds)
                    else:
                        found = dahl_step(args.dahl, model, batch, threads, args.seconds)
                    rows.append({"engine": engine, "model": model, "batch": batch, "threads": threads,
                                 "round": turn, "others": others(before, busy()),
                                 **{k: found[k] for k in ("images_per_second", "median_images_per_second",
                                                          "peak_rss_bytes")}})
                    if not best[engine] or found["images_per_second"] > best[engine]["images_per_second"]:
                        best[engine] = found
            disturbed = max(r["others"] for r in rows[-2 * args.rounds:])
            yield model, batch, bar, threads, best["torch"], best["dahl"], disturbed, rows


def save(path, roofs, rows):
    """All raw rows so far, so that a run that is stopped leaves what it has."""
    with open(path, "w", encoding="utf-8") as file:
        for n, r in roofs.items():
            file.write(json.dumps({"engine": "roofline", "threads": n, **r}) + "\n")
        for r in rows:
            file.write(json.dumps(r) + "\n")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--dahl", help="the binary")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each measurement")
    parser.add_argument("--rounds", type=int, default=2, help="turns that each side gets")
    parser.add_argument("--only", help="models whose name contains this")
    parser.add_argument("--json", help="write the raw rows here")
    parser.add_argument("--torch", nargs=4, metavar=("MODEL", "BATCH", "THREADS", "SECONDS"), help=argparse.SUPPRESS)
    parser.add_argument("--roofline", type=int, metavar="THREADS", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.torch:
        model, batch, threads, seconds = args.torch
        return print(json.dumps(torch_step(model, int(batch), int(threads), float(seconds))))
    if args.roofline:
        return print(json.dumps(roofline(args.roofline)))
    if not args.dahl:
        parser.error("--dahl is needed")

    roofs = {n: itself(n, "--roofline", n) for n in (1, 2)}
    rows, alone = [], {}
    print("| model | batch | threads | PyTorch images/s | DAHL images/s | ratio | of medians | bar | met "
          "| PyTorch MB | DAHL MB | 2 against 1 worker |")
    print("|---|--:|--:|--:|--:|--:|--:|--:|---|--:|--:|--:|")
    missed = unknown = 0
    for model, batch, bar, threads, torch, dahl, disturbed, rows in measure(args):
        speed = dahl["images_per_second"]
        ratio = speed / torch["images_per_second"]
        medians = dahl["median_images_per_second"] / torch["median_images_per_second"]
        if threads == 1:
            alone[model, batch] = speed
        scaling = f"{speed / alone[model, batch]:.2f}" if threads == 2 else ""
        met = ratio >= bar and dahl["peak_rss_bytes"] < torch["peak_rss_bytes"]
        # Threads that wait for each other lose far more than their share to other processes.
        quiet = disturbed < QUIET
        missed += quiet and not met
        unknown += not quiet
        verdict = ("yes" if met else "no") if quiet else f"? ({disturbed:.1f} cores busy)"
        print(f"| {model} | {batch} | {threads} | {torch['images_per_second']:.0f} | {speed:.0f} | {ratio:.2f} "
              f"| {medians:.2f} | {bar:.1f} | {verdict} | {torch['peak_rss_bytes'] / 1e6:.0f} "
              f"| {dahl['peak_rss_bytes'] / 1e6:.0f} | {scaling} |", flush=True)
        if args.json:
            save(args.json, roofs, rows)
    print(f"\nRoofline, by PyTorch {roofs[1]['torch']}: "
          + "; ".join(f"{n} thread{'s' * (n > 1)}: product of 1024×1024 matrices {r['gemm_gflops']:.0f} GFLOP/s, "
                      f"copy {r['copy_gb_per_s']:.1f} GB/s read and written" for n, r in roofs.items()) + ".")
    print(f"{missed} of these miss their bar (speed, or memory below PyTorch's); {unknown} say nothing, because "
          "other processes used the machine.")


if __name__ == "__main__":
    main()
