"""DAHL on several nodes as an engine of `dahl experiment`: `mpirun dahl train`, whose epochs are the steps.

Training goes on from the moment it is ready; a window begins and ends with an epoch. Factors: `model`, `nodes`, `shares`,
`batch`, `threads` (workers of a node, 1). Nodes are processes of this computer, or the hosts of DAHL_HOSTS (`a,b,c`).
Usage: nodes_peer.py PROGRAM, where PROGRAM is `dahl`.
"""

import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
import tomllib

import torch_peer

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Batches of an epoch: long beside a batch, short beside a window.
BATCHES = 8
KNOWN = {"model", "engine", "nodes", "shares", "batch", "threads", "optimizer"}


class Training:
    """`dahl train` that never ends by itself."""

    def __init__(self, program, cell):
        unknown = set(cell) - KNOWN
        if unknown:
            raise ValueError(f"several nodes have no factor {', '.join(sorted(unknown))}")
        nodes, batch = int(cell.get("nodes", 1)), int(cell.get("batch", 32))
        path = pathlib.Path(str(cell["model"]))
        path = path if path.suffix == ".toml" else ROOT / "crates/dahl-nn/models" / f"{path}.toml"
        shape = "x".join(map(str, tomllib.loads(path.read_text(encoding="utf-8"))["input"]))
        self.images = BATCHES * batch
        train = [program, "train", str(cell["model"]), "--data", f"synthetic:{shape}:{self.images}:10", "--val-limit", "0",
                 "--batch", str(batch), "--epochs", "1000000", "--optimizer", str(cell.get("optimizer", "adam")),
                 "--workers", str(cell.get("threads", 1)), "--quiet", "--metrics", "-"]
        if nodes > 1:
            hosts = os.environ.get("DAHL_HOSTS", "")
            where = ["--host", ",".join(f"{h}:1" for h in hosts.split(",")[:nodes])] if hosts else ["--oversubscribe"]
            root = ["--allow-run-as-root"] if os.geteuid() == 0 else []
            train = ["mpirun", *where, *root, "--bind-to", "none", "-n", str(nodes), *train,
                     "--shares", str(cell.get("shares", "auto"))]
        self.child = subprocess.Popen(train, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.losses = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()
        self.loss = self.epoch()

    def listen(self):
        """Hears of every epoch as it ends, so that none waits in a pipe and is taken for a later one."""
        for line in self.child.stdout:
            event = json.loads(line)
            if event.get("event") == "epoch":
                self.losses.put(event["loss"])
        self.losses.put(None)

    def epoch(self):
        """Waits for the end of an epoch."""
        loss = self.losses.get()
        if loss is None:
            raise RuntimeError(f"training ended with {self.child.wait()}: what it said stands above")
        return loss

    def align(self):
        """Waits for the end of the epoch that runs now."""
        while not self.losses.empty():
            self.epoch()
        self.epoch()

    def window(self, seconds):
        end, epochs = time.perf_counter() + seconds, 0
        while epochs == 0 or time.perf_counter() < end:
            self.loss = self.epoch()
            epochs += 1
        return epochs * BATCHES

    def stop(self):
        self.child.terminate()
        try:
            self.child.wait(10)
        except subprocess.TimeoutExpired:
            self.child.kill()


def main():
    running = []

    def load(cell):
        running.append(Training(sys.argv[1], cell))
        batch = running[0].images // BATCHES
        return running[0], batch, lambda: running[0].loss, f"DAHL on {cell.get('nodes', 1)} nodes"

    try:
        torch_peer.serve(load, Training.window, Training.align)
    finally:
        for training in running:
            training.stop()


if __name__ == "__main__":
    torch_peer.told(main)
