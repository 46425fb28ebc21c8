#!/usr/bin/env python3
"""Same bits? Runs steps on 1 to 4 nodes of this computer, with all kinds of shares, launchers, policies and instruction
levels, and counts different weights: `bench/cluster/bits.py --dahl target/release/dahl [--steps 100] [MODEL…]`. ResNet-18
with its own channels takes a quarter of an hour on two cores, and runs if it is named. Needs no root; the `local` transport has
the same cases in `crates/dahl-nn/tests/cluster.rs`."""

import argparse
import hashlib
import os
import pathlib
import random
import re
import subprocess
import tempfile

DROPOUT = """name = "dropout"
input = [1, 28, 28]
layers = [
    { type = "conv2d", out_channels = 6, kernel = 3 },
    { type = "batch_norm2d" },
    { type = "relu" },
    { type = "max_pool2d", kernel = 2 },
    { type = "dropout", p = 0.3 },
    { type = "flatten" },
    { type = "linear", out_features = 10 },
]
"""

# Model, images, batch, options.
CASES = (
    ("small-cnn", "1x28x28", 64, "--optimizer sgd --lr 0.01"),
    ("lenet5", "1x28x28", 64, "--optimizer adam --clip-norm 1"),
    ("dropout.toml", "1x28x28", 64, "--optimizer adam --clip-norm 1"),
    ("resnet18-narrow.toml", "3x32x32", 8, "--optimizer sgd --lr 0.01"),
    ("resnet18-32", "3x32x32", 8, "--optimizer sgd --lr 0.01"),
)
POLICIES = ("eager", "ws", "dmda")
LAUNCHERS = ("mpirun.openmpi --oversubscribe --bind-to none", "mpiexec.mpich")


def narrow(text):
    """A model file with a quarter of the channels."""
    return re.sub(r"out_channels = (\d+)", lambda m: f"out_channels = {int(m[1]) // 4}", text)


def placements(dice):
    for nodes in (2, 3, 4):
        yield nodes, "even", ":".join(["1"] * nodes)
        yield nodes, "3:1", ":".join((["3", "1"] * 2)[:nodes])
        if nodes == 3:
            yield nodes, "5:2:1", "5:2:1"
        yield nodes, "random", ":".join(f"{dice.random() + 0.05:.3f}" for _ in range(nodes))


def train(args, folder, case, nodes=1, shares="", launcher="", policy="ws", levels=()):
    model, image, batch, options = case
    out = os.path.join(folder, "w.safetensors")
    line = (
        f"{args.dahl} train {model} --data synthetic:{image}:{16 * batch}:10 --val-limit 0 --batch {batch} --epochs 1000 "
        f"--steps {args.steps} {options} --seed 1 --profile none --workers 1 --policy {policy} "
        f"--grain sample=8 --save {out}"
    )
    if nodes > 1:
        line += f" --shares {shares}"
        if levels:
            line = f"{launcher} " + " : ".join(f"-n 1 env DAHL_SIMD={level} {line}" for level in levels)
        else:
            line = f"{launcher} -n {nodes} {line}"
    elif levels:
        line = f"env DAHL_SIMD={levels[0]} {line}"
    done = subprocess.run(line.split(), cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        last = (done.stderr.strip().splitlines() or ["?"])[-1]
        return f"refused or failed: {last}"
    weights = hashlib.sha256(pathlib.Path(out).read_bytes()).hexdigest()[:16]
    os.remove(out)
    return weights


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("models", nargs="*", help=f"which, of {', '.join(case[0] for case in CASES)} and levels")
    args = parser.parse_args()
    args.dahl = os.path.realpath(args.dahl)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    dice, folder = random.Random(args.seed), tempfile.mkdtemp(prefix="dahl-bits-")
    pathlib.Path(folder, "dropout.toml").write_text(DROPOUT)
    toml = subprocess.run([args.dahl, "models", "resnet18-32", "--toml"], capture_output=True, text=True, check=True).stdout
    pathlib.Path(folder, "resnet18-narrow.toml").write_text(narrow(toml))
    print("| model | steps | launcher | runs (nodes 2, 3, 4 × shares × policies) | weights of one node | runs with others |")
    print("|---|--:|---|--:|---|--:|", flush=True)
    for case in CASES:
        if case[0] not in (args.models or [other[0] for other in CASES[:-1]]):
            continue
        alone = train(args, folder, case)
        for launcher in LAUNCHERS:
            runs, others = 0, []
            for i, (nodes, kind, shares) in enumerate(placements(dice)):
                policy = POLICIES[i % len(POLICIES)]
                got = train(args, folder, case, nodes, shares, launcher, policy)
                runs += 1
                if got != alone:
                    others.append(f"{nodes} {shares} {policy}: {got}")
            print(f"| {case[0]} | {args.steps} | {launcher.split()[0]} | {runs} | {alone} | {len(others)} |", flush=True)
            for line in others:
                print(f"<!-- {line} -->")
    if args.models and "levels" not in args.models:
        return
    print("\n| instruction levels of two nodes | weights | of one node at the lower level |\n|---|---|---|")
    for levels in (("avx512", "avx2"), ("avx2", "portable"), ("portable", "avx512")):
        lower = next(level for level in ("portable", "avx2") if level in levels)
        alone = train(args, folder, CASES[1], levels=(lower,))
        got = train(args, folder, CASES[1], 2, "1:1", LAUNCHERS[0], levels=levels)
        print(f"| {', '.join(levels)} | {got} | {alone} |", flush=True)


if __name__ == "__main__":
    main()
