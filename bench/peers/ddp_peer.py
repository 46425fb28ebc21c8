"""PyTorch's DistributedDataParallel (gloo) as an engine of `dahl experiment`.

The harness speaks with the first process; it starts the others, one for each node, and tells them when a window ends: all
of them must do the same number of steps. Factors: those of `torch_peer.py`, `nodes`, and `shares` (`2:1`; `auto` is even).
Nodes are processes of this computer, or the hosts of DAHL_HOSTS (`a,b,c`, reached by ssh, this folder at the same path).
"""

import json
import os
import pathlib
import shlex
import socket
import subprocess
import sys
import time

import torch_peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "bench" / "cluster"))
from ddp import parts  # noqa: E402

# Steps between two looks at the clock, each of which is a message to all.
PIECE = 4


def start_others(cell, nodes):
    """Starts the other processes; they die with the connection to this one."""
    hosts = [h for h in os.environ.get("DAHL_HOSTS", "").split(",") if h]
    if hosts and len(hosts) < nodes:
        raise ValueError(f"{nodes} nodes, and DAHL_HOSTS names {len(hosts)} hosts")
    with socket.socket() as probe:
        probe.bind(("", 0))
        port = probe.getsockname()[1]
    meet = {"WORLD_SIZE": str(nodes), "MASTER_ADDR": hosts[0] if hosts else "127.0.0.1", "MASTER_PORT": str(port)}
    os.environ.update(meet, RANK="0")
    others = []
    for rank in range(1, nodes):
        variables = [f"{name}={value}" for name, value in {**meet, "RANK": rank, "DAHL_CELL": json.dumps(cell)}.items()]
        command = ["env", *variables, sys.executable, str(pathlib.Path(__file__).resolve()), *sys.argv[1:]]
        if hosts:
            command = ["ssh", hosts[rank], shlex.join(command)]
        others.append(subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr))
    return others


def load(cell, args):
    """One process of several: what `torch_peer.load` gives, for a part of the batch."""
    import torch
    import torch.distributed as dist

    rank, nodes = int(os.environ.get("RANK", 0)), int(cell.get("nodes", 1))
    batch = int(cell.get("batch", 32))
    shares = cell.get("shares", "auto")
    shares = [1.0] * nodes if shares == "auto" else [float(s) for s in str(shares).split(":")]
    if len(shares) != nodes:
        raise ValueError(f"{nodes} nodes have {len(shares)} shares")
    sizes = parts(batch, shares)
    part = slice(sum(sizes[:rank]), sum(sizes[: rank + 1]))
    wrap = lambda network: network  # noqa: E731
    if nodes > 1:
        dist.init_process_group("gloo")
        wrap = torch.nn.parallel.DistributedDataParallel
    once, _, last, engine = torch_peer.load(cell, args, part, wrap, sizes[rank] * nodes / batch)
    return once, batch, last, f"{engine}, DDP on {nodes} node{'' if nodes == 1 else 's'}"


def window(once, seconds):
    """Steps for about so long: the first process has the clock, the others hear from it whether to go on."""
    import torch
    import torch.distributed as dist

    end, steps = time.perf_counter() + seconds, 0
    go_on = torch.ones(1)
    while go_on.item():
        for _ in range(PIECE):
            once()
        steps += PIECE
        go_on[0] = float(time.perf_counter() < end)
        if dist.is_initialized():
            dist.broadcast(go_on, 0)
    return steps


def follow(args):
    """Another process: windows, one after the other, until the first goes away."""
    once, *_ = load(json.loads(os.environ["DAHL_CELL"]), args)
    try:
        while True:
            window(once, 0.0)
    except RuntimeError:
        # The first has ended, and with it what joined us.
        os._exit(0)


def lead(args):
    others = []

    def begin(cell):
        nodes = int(cell.get("nodes", 1))
        if nodes > 1:
            others.extend(start_others(cell, nodes))
        return load(cell, args)

    try:
        torch_peer.serve(begin, window)
    finally:
        for other in others:
            other.kill()


if __name__ == "__main__":
    chosen = torch_peer.options(__doc__)
    if "DAHL_CELL" in os.environ:
        follow(chosen)
    else:
        torch_peer.told(lambda: lead(chosen))
