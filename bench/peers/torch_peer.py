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
import signal
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "pytorch"))

# Factors that need no answer here, with the levels that mean what PyTorch does anyway.
KNOWN = {"model", "engine", "threads", "batch", "dtype", "optimizer", "lr", "seed", "nodes", "shares"}


def say(**reply):
    print(json.dumps(reply), flush=True)


def optimizer(torch, name, parameters, fused):
    kinds = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    if name not in kinds:
        raise ValueError(f"optimizer {name!r} is not known here; there are {', '.join(kinds)}")
    return kinds[name](parameters, lr=1e-4, fused=fused or None)


def load(cell, args, part=slice(None), wrap=lambda network: network, scale=1.0):
    """What one step is, its batch, the last loss and what computes. Of several processes each has a part of the batch,
    wraps the network, and scales its loss by its part."""
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
    pixels, labels = pixels[part], labels[part]
    if args.channels_last:
        network = network.to(memory_format=torch.channels_last)
        pixels = pixels.to(memory_format=torch.channels_last)
    update = optimizer(torch, cell.get("optimizer", "adam"), network.parameters(), args.fused)
    loss = torch.nn.CrossEntropyLoss()
    forward = wrap(torch.compile(network) if args.compile else network)
    last = [None]

    def once():
        update.zero_grad()
        value = loss(forward(pixels), labels) * scale
        value.backward()
        update.step()
        last[0] = value

    # Compiles, allocates, touches; the warm-up does the rest.
    once()
    return once, batch, lambda: last[0].item(), configuration(torch, threads)


def window(once, seconds):
    """Steps for about so long; looking at the clock every step costs less than a microsecond."""
    end, steps = time.perf_counter() + seconds, 0
    while True:
        once()
        steps += 1
        if time.perf_counter() >= end:
            return steps


def configuration(torch, threads):
    """What computes: version, instruction set and libraries of this build."""
    parts = [f"PyTorch {torch.__version__}", torch.backends.cpu.get_cpu_capability()]
    parts += [name for name, there in (("oneDNN", torch.backends.mkldnn), ("MKL", torch.backends.mkl)) if there.is_available()]
    return ", ".join([*parts, f"{threads} thread{'' if threads == 1 else 's'}"])


def options(description):
    """The variants of PyTorch."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--channels-last", action="store_true")
    parser.add_argument("--fused", action="store_true")
    parser.add_argument("--compile", action="store_true")
    return parser.parse_args()


def serve(load, window, align=lambda loaded: None):
    """Speaks the protocol: `load` gives what `window` runs, `align` waits until one can begin."""
    loaded = None
    for line in sys.stdin:
        request = json.loads(line)
        if "load" in request:
            loaded, batch, last, engine = load(request["load"])
            say(ready={"engine": engine})
        elif "run" in request:
            align(loaded)
            say(began={})
            start = time.perf_counter()
            steps = window(loaded, request["run"]["seconds"])
            took = time.perf_counter() - start
            say(ended={"steps": steps, "images": steps * batch, "loss": last(), "measures": {"seconds": took}})
        elif "stop" in request:
            return


def told(run):
    """Runs; whatever goes wrong, the harness is told. A terminal's Ctrl-C is for the harness, which ends this process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run()
    except Exception as error:  # noqa: BLE001 - whatever it is
        say(error=f"{type(error).__name__}: {error}")
        sys.exit(1)


if __name__ == "__main__":
    args = options(__doc__)
    told(lambda: serve(lambda cell: load(cell, args), window))
