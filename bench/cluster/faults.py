#!/usr/bin/env python3
"""Random faults under `dahl cluster run`: killed and stopped processes, cut cables. At the end the weights must have the
bits of an undisturbed run on one host.

    faults.py --dahl target/release/dahl [--faults 100] [--seed 1] [--kinds kill,stop,cut]

As root: it makes three hosts with `rig/up` and removes them. A fault comes once the run has written a checkpoint since
the last one, at a random moment after it. One JSON line per run, and a last one.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
RIG = os.path.join(HERE, "rig")
NET = "88"
HOSTS = [f"10.{NET}.0.{i}" for i in (1, 2, 3)]
PATIENCE = 2
# So long only what hangs takes, with all that goes wrong before.
HANG = 300


def rig(*command):
    subprocess.run([os.path.join(RIG, command[0]), *command[1:]], check=True, env={**os.environ, "RIG": NET})


def mpirun():
    on = os.path.join(RIG, "on")
    return (
        f"mpirun.openmpi --mca plm rsh --mca plm_rsh_agent {on} --mca plm_rsh_no_tree_spawn 1 "
        "--mca oob_tcp_if_include eth0 --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include eth0"
    )


def digest(path):
    with open(path, "rb") as file:
        return hashlib.sha256(file.read()).hexdigest()


def ranks(dahl, folder):
    """Processes of the nodes that work in a folder."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit():
            continue
        try:
            if os.readlink(f"/proc/{entry}/exe") != dahl or os.readlink(f"/proc/{entry}/cwd") != folder:
                continue
            with open(f"/proc/{entry}/environ", "rb") as file:
                if b"OMPI_COMM_WORLD_RANK=" in file.read():
                    found.append(int(entry))
        except OSError:
            continue
    return found


def cable(host, state):
    name = f"rig{NET}-{host.rsplit('.', 1)[1]}"
    subprocess.run(["ip", "-n", name, "link", "set", "eth0", state], check=True)


class Run:
    def __init__(self, args, folder, number):
        self.args, self.folder, self.random = args, folder, random.Random(f"{args.seed}-{number}")
        self.checkpoint = os.path.join(folder, "points", "checkpoint.safetensors")
        self.cut = None
        train = (
            f"train small-cnn --epochs 1000000 --steps {args.steps} --limit 3200 --val-limit 0 --batch 32 --seed 3 "
            "--profile none --grain sample=8 --workers 1 --quiet"
        )
        self.alone = f"{train} --save one.safetensors"
        self.train = (
            f"{train} --save nodes.safetensors --checkpoint points --checkpoint-every 25 --node-timeout {PATIENCE}"
        )

    def stamp(self):
        try:
            facts = os.stat(self.checkpoint)
            return facts.st_mtime_ns, facts.st_ino
        except OSError:
            return None

    def fault(self):
        kind = self.random.choice(self.args.kinds.split(","))
        if kind == "cut":
            if self.cut:
                return None
            host = self.random.choice(HOSTS[1:])
            cable(host, "down")
            # Until the others have gone on without it, or before they have noticed.
            self.cut = (host, time.monotonic() + self.random.choice([1, 8, 16]))
            return kind
        processes = ranks(self.args.dahl, self.folder)
        if not processes:
            return None
        victim = self.random.choice(processes)
        try:
            os.kill(victim, signal.SIGKILL if kind == "kill" else signal.SIGSTOP)
        except ProcessLookupError:
            return None
        return kind

    def mend(self, now=False):
        if self.cut and (now or time.monotonic() >= self.cut[1]):
            cable(self.cut[0], "up")
            self.cut = None

    def go(self, wanted):
        """Disturbs one run up to so many times."""
        shell = (
            f"cd {self.folder}; exec {self.args.dahl} cluster run --hosts {','.join(HOSTS)} --mpirun '{mpirun()}' "
            f"--restarts 8 -- {self.train}"
        )
        log = open(os.path.join(self.folder, "log"), "w")
        began = time.monotonic()
        child = subprocess.Popen([os.path.join(RIG, "on"), HOSTS[0], shell], stdout=log, stderr=log)
        faults, seen, last = [], None, began
        while child.poll() is None:
            time.sleep(0.02)
            self.mend()
            stamp = self.stamp()
            if stamp != seen and stamp is not None and len(faults) < wanted:
                time.sleep(self.random.uniform(0, 0.3))
                kind = self.fault()
                if kind:
                    faults.append(kind)
                    last = time.monotonic()
                seen = self.stamp()
            if time.monotonic() - last > HANG:
                child.send_signal(signal.SIGKILL)
                return faults, "hang", time.monotonic() - began
        self.mend(now=True)
        log.close()
        time.sleep(0.5)
        left = [name for name in os.listdir(os.path.join(self.folder, "points")) if ".tmp" in name]
        verdict = "same bits"
        if child.returncode != 0:
            verdict = f"exit code {child.returncode}"
        elif digest(os.path.join(self.folder, "nodes.safetensors")) != digest(os.path.join(self.folder, "one.safetensors")):
            verdict = "other bits"
        elif left:
            verdict = f"half-written: {left}"
        elif ranks(self.args.dahl, self.folder):
            verdict = "processes left"
        return faults, verdict, time.monotonic() - began


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--faults", type=int, default=100)
    parser.add_argument("--each", type=int, default=10, help="most faults of one run")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--kinds", default="kill,stop,cut")
    args = parser.parse_args()
    args.dahl = os.path.realpath(args.dahl)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", OMP_NUM_THREADS="1")
    rig("down")
    rig("up", "3")
    total, wrong, seconds = {}, 0, 0.0
    try:
        number = 0
        while sum(total.values()) < args.faults and wrong == 0:
            folder = tempfile.mkdtemp(prefix="dahl-faults-")
            run = Run(args, folder, number)
            subprocess.run([args.dahl, *run.alone.split()], cwd=folder, check=True)
            faults, verdict, took = run.go(min(args.each, args.faults - sum(total.values())))
            print(json.dumps({"faults": faults, "verdict": verdict, "seconds": round(took, 1)}), flush=True)
            for kind in faults:
                total[kind] = total.get(kind, 0) + 1
            seconds += took
            if verdict != "same bits":
                wrong += 1
                print(f"see {folder}/log", file=sys.stderr)
            else:
                shutil.rmtree(folder)
            number += 1
    finally:
        rig("down")
    print(json.dumps({"faults": total, "runs": number, "wrong": wrong, "seconds": round(seconds, 1)}))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
