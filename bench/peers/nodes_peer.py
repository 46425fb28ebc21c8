"""DAHL on several nodes as an engine of `dahl experiment`: `mpirun dahl train`, whose epochs are the steps.

Training goes on from the moment it is ready; a window begins and ends with an epoch. Factors: `model`, `nodes`, `shares`,
`batch`, `threads` (workers of a node, 1). Nodes are processes of this computer, or the hosts of DAHL_HOSTS (`a,b,c`).
Usage: nodes_peer.py PROGRAM [--even], where PROGRAM is `dahl`; with --even all nodes have the same share, unless the cell
says otherwise.
"""

import json
import os
import pathlib
import queue
import select
import subprocess
import sys
import tempfile
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

    def __init__(self, program, cell, even):
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
                     "--shares", str(cell.get("shares", ":".join(["1"] * nodes) if even else "auto"))]
        # Kept for the case that it fails: what it says of being stopped is no news.
        self.said = tempfile.TemporaryFile("w+", encoding="utf-8")
        self.child = subprocess.Popen(train, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.said, text=True)
        self.ending, self.told = threading.Lock(), False
        self.losses = queue.SimpleQueue()
        threading.Thread(target=self.listen, daemon=True).start()
        threading.Thread(target=self.watch, daemon=True).start()
        self.loss = self.epoch()

    def listen(self):
        """Hears of every epoch as it ends, so that none waits in a pipe and is taken for a later one."""
        for line in self.child.stdout:
            event = json.loads(line)
            if event.get("event") == "epoch":
                self.losses.put(event["loss"])
        self.losses.put(None)

    def watch(self):
        """Ends training as soon as the harness has gone, which nobody notices who waits for an epoch."""
        gone = select.poll()
        gone.register(sys.stdin, 0)
        gone.poll()
        self.stop()

    def epoch(self):
        """Waits for the end of an epoch."""
        loss = self.losses.get()
        if loss is None:
            code = self.child.wait()
            self.said.seek(0)
            raise RuntimeError(f"training ended with {code}: {self.said.read().strip()[-2000:]}")
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
        """Ends it before the harness, which has little patience, ends this process. Open MPI may hang if it is told twice;
        nodes end with their launcher."""
        with self.ending:
            if self.told:
                return
            self.told = True
            self.child.terminate()
            try:
                self.child.wait(1.5)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()


def main():
    running = []

    def load(cell):
        running.append(Training(sys.argv[1], cell, "--even" in sys.argv[2:]))
        batch = running[0].images // BATCHES
        nodes = cell.get("nodes", 1)
        return running[0], batch, lambda: running[0].loss, f"DAHL on {nodes} node{'' if nodes == 1 else 's'}"

    try:
        torch_peer.serve(load, Training.window, Training.align)
    finally:
        for training in running:
            training.stop()


if __name__ == "__main__":
    torch_peer.told(main)
