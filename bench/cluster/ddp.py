#!/usr/bin/env python3
"""One process of PyTorch's DistributedDataParallel with gloo, for `bench.py`: trains on random images and prints a JSON line.

RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say who it is. `--shares 2:1` gives processes parts of the batch that are not
even: DDP averages gradients, so each process scales its loss by its part.
"""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "pytorch"))


def parts(batch, shares):
    """Samples of each process: whole ones, all of the batch."""
    total, given, out = sum(shares), 0, []
    for i in range(len(shares)):
        until = round(batch * sum(shares[: i + 1]) / total)
        out.append(until - given)
        given = until
    return out


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--seconds", type=float, default=0)
    parser.add_argument("--steps", type=int, default=0)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--shares", default="")
    args = parser.parse_args()
    import torch
    import torch.distributed as dist
    import models

    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    torch.set_num_threads(args.threads)
    torch.manual_seed(1)
    network = models.load(ROOT / "crates/dahl-nn/models" / f"{args.model}.toml")
    pixels = torch.rand(args.batch, *network.input)
    labels = torch.randint(network.classes, (args.batch,))
    shares = [float(s) for s in args.shares.split(":")] if args.shares else [1.0] * world
    sizes = parts(args.batch, shares)
    own = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    pixels, labels = pixels[own], labels[own]
    trained = network
    if world > 1:
        dist.init_process_group("gloo")
        trained = torch.nn.parallel.DistributedDataParallel(network)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-2)
    loss = torch.nn.CrossEntropyLoss()
    scale = sizes[rank] * world / args.batch

    def once():
        optimizer.zero_grad()
        (loss(trained(pixels), labels) * scale).backward()
        optimizer.step()

    once()
    steps, began, windows = 0, time.perf_counter(), []
    if args.steps:
        for _ in range(args.steps - 1):
            once()
        steps = args.steps
    else:
        # All processes must do the same number of steps: the first says when it is enough.
        go_on = torch.ones(1)
        while go_on.item():
            start = time.perf_counter()
            for _ in range(4):
                once()
            windows.append((time.perf_counter() - start) / 4)
            steps += 4
            go_on[0] = 1.0 if time.perf_counter() - began < args.seconds else 0.0
            if world > 1:
                dist.broadcast(go_on, 0)
    digest = hashlib.sha256()
    for parameter in network.parameters():
        digest.update(parameter.detach().numpy().tobytes())
    windows.sort()
    middle = windows[len(windows) // 2] if windows else float("nan")
    print(json.dumps({"rank": rank, "images_per_second": args.batch / middle, "weights": digest.hexdigest()[:16]}))


if __name__ == "__main__":
    main()
