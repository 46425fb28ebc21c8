"""PyTorch as an engine of `dahl experiment`: speaks its protocol, one JSON object a line, and measures nothing.

A step is zero_grad, forward, cross-entropy, backward and the optimiser, on a batch that is already in memory: what
DAHL's own peer does. Models are the files that DAHL reads (`bench/pytorch/models.py`).

    --channels-last   images and filters in that order of memory
    --fused           the optimiser as one kernel
    --compile         torch.compile of the network
"""

import argparse
import json
import pathlib
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "pytorch"))

# Factors that need no answer here, with the levels that mean what PyTorch does anyway.
KNOWN = {"model", "engine", "threads", "batch", "dtype", "optimizer", "lr", "seed"}


def say(**reply):
    print(json.dumps(reply), flush=True)


def optimizer(torch, name, parameters, fused):
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if name not in kinds:
        raise ValueError(f"optimizer {name!r} is not known here; there are {', '.join(kinds)}")
    return kinds[name](parameters, lr=1e-4, fused=fused or None)


def load(cell, args):
    unknown = set(cell) - KNOWN
    if unknown:
        raise ValueError(f"PyTorch has no factor {', '.join(sorted(unknown))}: let it vary for DAHL alone with [[only]]")
    import torch
    import models

    threads = int(cell.get("threads", 1))
    torch.set_num_threads(threads)
    torch.manual_seed(int(cell.get("seed", 1)))
    torch.set_default_dtype({"f32": torch.float32, "f64": torch.float64}[cell.get("dtype", "f32")])
    path = pathlib.Path(cell["model"])
    network = models.load(path if path.suffix == ".toml" else ROOT / "crates/dahl-nn/models" / f"{path}.toml")
    batch = int(cell.get("batch", 32))
    pixels = torch.rand(batch, *network.input)
    labels = torch.randint(network.classes, (batch,))
    if args.channels_last:
        network = network.to(memory_format=torch.channels_last)
        pixels = pixels.to(memory_format=torch.channels_last)
    update = optimizer(torch, cell.get("optimizer", "adam"), network.parameters(), args.fused)
    loss = torch.nn.CrossEntropyLoss()
    forward = torch.compile(network) if args.compile else network
    last = [None]

    def once():
        update.zero_grad()
        value = loss(forward(pixels), labels)
        value.backward()
        update.step()
        last[0] = value

    # Compiles, allocates, touches.
    for _ in range(3):
        once()
    return once, batch, lambda: last[0].item(), f"PyTorch {torch.__version__}, {threads} threads"


def window(once, seconds):
    """Steps for about so long; looking at the clock every step costs less than a microsecond."""
    end, steps = time.perf_counter() + seconds, 0
    while True:
        once()
        steps += 1
        if time.perf_counter() >= end:
            return steps


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true")
    args = parser.parse_args()
    once = None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            once, batch, last, engine = load(request["load"], args)
            say(ready={"engine": engine})
        elif "run" in request:
            say(began={})
            steps = window(once, request["run"]["seconds"])
            say(ended={"steps": steps, "images": steps * batch, "loss": last()})
        elif "stop" in request:
            return


if __name__ == "__main__":
    try:
        main()
    except Exception as error:  # noqa: BLE001 - whatever it is, the harness is told
        say(error=f"{type(error).__name__}: {error}")
        sys.exit(1)
