#!/usr/bin/env python3
"""Several hosts on this machine, DAHL and PyTorch DDP in turns: the tables of `bench/cluster/run`. As root, see `rig/up`."""

import argparse
import hashlib
import json
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
RIG = HERE / "rig"
NET = "89"
INPUT = {"small-cnn": "1x28x28", "vgg-small": "3x32x32", "lenet5": "1x28x28", "resnet18-32": "3x32x32"}


def host(i):
    return f"10.{NET}.0.{i}"


def rig(*command):
    subprocess.run([str(RIG / command[0]), *map(str, command[1:])], check=True, env={**os.environ, "RIG": NET})


def cores(i, which):
    (pathlib.Path("/sys/fs/cgroup/cpuset") / f"rig{NET}-{i}" / "cpuset.cpus").write_text(which)


def mpirun(nodes):
    hosts = ",".join(f"{host(i)}:1" for i in nodes)
    return (
        f"mpirun.openmpi -n {len(nodes)} --host {hosts} --bind-to none --mca plm rsh --mca plm_rsh_agent {RIG / 'on'} "
        "--mca plm_rsh_no_tree_spawn 1 --mca oob_tcp_if_include eth0 --mca pml ob1 --mca btl self,tcp "
        "--mca btl_tcp_if_include eth0"
    )


class Dahl:
    """A run of `dahl train` on hosts."""

    def __init__(self, args, nodes, model, batch, workers=1, epochs=6, images=None, options=""):
        self.folder = tempfile.mkdtemp(prefix="dahl-bench-")
        self.nodes, self.images = nodes, images or 8 * batch
        train = (
            f"{args.dahl} train {model} --data synthetic:{INPUT[model]}:{self.images}:10 --val-limit 0 --batch {batch} "
            f"--epochs {epochs} --optimizer sgd --lr 0.01 --seed 1 --profile none --workers {workers} --metrics m.jsonl "
            f"--save w.safetensors {options}"
        )
        start = f"{mpirun(nodes)} {train}" if len(nodes) > 1 else train
        command = [str(RIG / "on"), host(nodes[0]), f"cd {self.folder}; exec {start}"]
        self.log = open(os.path.join(self.folder, "log"), "w")
        self.child = subprocess.Popen(command, stdout=self.log, stderr=self.log)

    def epochs(self):
        """Images per second of each epoch so far."""
        try:
            lines = open(os.path.join(self.folder, "m.jsonl")).read().splitlines()
        except OSError:
            return []
        rows = [json.loads(line) for line in lines if line.endswith("}")]
        return [row["images_per_second"] for row in rows if row["event"] == "epoch"]

    def processes(self):
        """The processes of its nodes, by rank."""
        found = {}
        for entry in filter(str.isdigit, os.listdir("/proc")):
            try:
                if os.readlink(f"/proc/{entry}/cwd") != self.folder:
                    continue
                text = open(f"/proc/{entry}/environ", "rb").read()
                if os.path.basename(os.readlink(f"/proc/{entry}/exe")) == "dahl" and b"OMPI_COMM_WORLD_RANK=" in text:
                    rank = text.split(b"OMPI_COMM_WORLD_RANK=")[1].split(b"\0")[0]
                    found[int(rank)] = int(entry)
            except OSError:
                continue
        return found

    def end(self):
        self.child.wait()
        self.log.close()
        rates = self.epochs()
        if self.child.returncode != 0:
            raise SystemExit(f"dahl failed: see {self.folder}/log")
        digest = hashlib.sha256(open(os.path.join(self.folder, "w.safetensors"), "rb").read()).hexdigest()[:16]
        shutil.rmtree(self.folder)
        return rates, digest


def dahl_rate(args, nodes, model, batch, **options):
    """Images per second: the median of epochs, the first half left out, where shares are still found."""
    rates, _ = Dahl(args, nodes, model, batch, **options).end()
    return statistics.median(rates[len(rates) // 2 :])


def ddp(args, nodes, model, batch, threads=1, seconds=4, steps=0, shares=""):
    children = []
    for rank, node in enumerate(nodes):
        line = (
            f"RANK={rank} WORLD_SIZE={len(nodes)} MASTER_ADDR={host(nodes[0])} MASTER_PORT=29400 GLOO_SOCKET_IFNAME=eth0 "
            f"OMP_NUM_THREADS={threads} {args.torch} {HERE / 'ddp.py'} --model {model} --batch {batch} --threads {threads} "
            f"--seconds {seconds} --steps {steps}"
        )
        line += f" --shares {shares}" if shares else ""
        command = [str(RIG / "on"), host(node), line]
        children.append(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True))
    outputs = [child.communicate()[0] for child in children]
    return json.loads(outputs[0].splitlines()[-1])


def table(title, heads, rows):
    print(f"\n## {title}\n")
    print("| " + " | ".join(heads) + " |")
    print("|" + "---|" * len(heads))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |", flush=True)


def pair_against_one(args):
    rows = []
    for model, batch, bar in (("vgg-small", 128, 0.95), ("small-cnn", 256, 0.85)):
        many = 1 if model == "vgg-small" else 40
        one, two, torch_one, torch_two = [], [], [], []
        for _ in range(args.rounds):
            cores(1, "0-1")
            one.append(dahl_rate(args, [1], model, batch, workers=2, images=8 * batch * many))
            if args.torch:
                torch_one.append(ddp(args, [1], model, batch, threads=2)["images_per_second"])
            cores(1, "0")
            two.append(dahl_rate(args, [1, 2], model, batch, images=8 * batch * many))
            if args.torch:
                torch_two.append(ddp(args, [1, 2], model, batch)["images_per_second"])
        middle = statistics.median
        cells = [f"{middle(one):.0f}", f"{middle(two):.0f}", f"{middle(two) / middle(one):.3f}", bar]
        if args.torch:
            cells += [f"{middle(torch_one):.0f}", f"{middle(torch_two):.0f}", f"{middle(torch_two) / middle(torch_one):.3f}"]
        rows.append([model, batch, *cells])
    table(
        "Two nodes of one core against one node of two cores, images/s",
        ["model", "batch", "DAHL one", "DAHL two", "ratio", "bar", "DDP one", "DDP two", "ratio"],
        rows,
    )


def unequal(args):
    rows = []
    model, batch = "vgg-small", 128
    alone, both, even, by_hand = [], [], [], []
    for _ in range(args.rounds):
        rig("quota", host(2), 0)
        alone.append(dahl_rate(args, [1], model, batch))
        rig("quota", host(2), 50)
        both.append(dahl_rate(args, [1, 2], model, batch, epochs=10))
        if args.torch:
            even.append(ddp(args, [1, 2], model, batch)["images_per_second"])
            by_hand.append(ddp(args, [1, 2], model, batch, shares="2:1")["images_per_second"])
    rig("quota", host(2), 0)
    middle = statistics.median
    row = [model, batch, f"{middle(alone):.0f}", f"{middle(both):.0f}", f"{middle(both) / middle(alone):.3f}", 1.38]
    if args.torch:
        row += [f"{middle(even):.0f}", f"{middle(by_hand):.0f}"]
        row += [f"{middle(both) / middle(even):.2f}", f"{middle(both) / middle(by_hand):.2f}"]
    rows.append(row)
    table(
        "Unequal nodes, speeds 1 and 0.5, images/s",
        ["model", "batch", "fast alone", "both, auto", "ratio", "bar", "DDP even", "DDP 2:1", "DAHL / even", "DAHL / 2:1"],
        rows,
    )


def slows_down(args):
    rig("quota", host(2), 0)
    run = Dahl(args, [1, 2], "vgg-small", 128, epochs=24)
    while len(run.epochs()) < 8 and run.child.poll() is None:
        time.sleep(0.05)
    rig("quota", host(2), 50)
    at = len(run.epochs())
    log = os.path.join(run.folder, "log")
    run.child.wait()
    changes = [line for line in open(log).read().splitlines() if line.startswith("shares by speed")]
    rates, _ = run.end()
    rig("quota", host(2), 0)
    before, after = statistics.median(rates[at // 2 : at]), statistics.median(rates[at + 4 :])
    table(
        "A node slows down to half in the run (vgg-small, batch 128), images/s",
        ["before", "after", "new optimum (3/4)", "of it", "bar", "changes of shares"],
        [[f"{before:.0f}", f"{after:.0f}", f"{0.75 * before:.0f}", f"{after / (0.75 * before):.3f}", 0.9, len(changes)]],
    )


def cpu_seconds(process):
    fields = open(f"/proc/{process}/stat").read().rsplit(") ", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process):
    lines = open(f"/proc/{process}/status").read().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:"))


def sent(i):
    out = subprocess.run(["ip", "-j", "-s", "-n", f"rig{NET}-{i}", "link", "show", "eth0"], capture_output=True, check=True)
    return json.loads(out.stdout)[0]["stats64"]["tx"]["bytes"]


def idle_and_memory(args):
    rows = []
    # Stands still for a node that waits for another: the first is stopped, the second has nothing to do but wait.
    run = Dahl(args, [1, 2], "small-cnn", 64, epochs=100000, images=64 * 50, options="--node-timeout 60")
    while len(run.epochs()) < 20 and run.child.poll() is None:
        time.sleep(0.05)
    processes = run.processes()
    rows = {rank: [resident(p)] for rank, p in processes.items()}
    first, bytes_first = len(run.epochs()), {i: sent(i) for i in (1, 2)}
    while len(run.epochs()) < first + 40 and run.child.poll() is None:
        time.sleep(0.05)
    last, bytes_last = len(run.epochs()), {i: sent(i) for i in (1, 2)}
    steps = 50 * (last - first)
    for rank, process in processes.items():
        rows[rank].append(resident(process))
    os.kill(processes[0], 19)
    time.sleep(1)
    begun = cpu_seconds(processes[1])
    time.sleep(5)
    idle = (cpu_seconds(processes[1]) - begun) / 5
    os.kill(processes[0], 18)
    time.sleep(0.2)
    os.kill(processes[0], 15)
    run.child.wait()
    run.log.close()
    shutil.rmtree(run.folder)
    table(
        "A rank that waits, of a core",
        ["used", "bar"],
        [[f"{100 * idle:.2f} %", "< 2 %"]],
    )
    table(
        f"Resident memory over {steps} steps (small-cnn, batch 64), KiB",
        ["node", "before", "after"],
        [[rank, *values] for rank, values in sorted(rows.items())],
    )
    parameters = 6810 * 4
    table(
        "Bytes on the wire per step, small-cnn, batch 64, headers and signs of life included",
        ["node", "sent", "a ring of the gradients, 2·V·(P−1)/P"],
        [[i - 1, f"{(bytes_last[i] - bytes_first[i]) / steps:.0f}", parameters] for i in (1, 2)],
    )


def same_bits(args):
    cores(1, "0-1")
    cores(2, "0-1")
    rows = []
    for nodes, shares in (([1], ""), ([1, 2], "auto"), ([1, 2], "3:1"), ([1, 2, 3], "5:2:1"), ([1, 2, 3, 4], "auto")):
        options = f"--grain sample=8 --steps 100 --shares {shares}" if shares else "--grain sample=8 --steps 100"
        _, digest = Dahl(args, nodes, "lenet5", 64, epochs=20, options=options).end()
        rows.append(["DAHL", len(nodes), shares, digest])
    if args.torch:
        for nodes in ([1], [1, 2], [1, 2, 3, 4]):
            rows.append(["PyTorch DDP", len(nodes), "even", ddp(args, nodes, "lenet5", 64, steps=100)["weights"]])
    table(
        "Same bits? LeNet-5, batch 64, 100 steps of SGD: checksum of the weights",
        ["", "nodes", "shares", "weights"],
        rows,
    )


def milliseconds(text):
    number, unit = text.split()[:2]
    return float(number) * {"s": 1e3, "ms": 1.0, "µs": 1e-3, "us": 1e-3}[unit]


class Predicted:
    """Steps on hosts as the run itself says beforehand and after its first 40: milliseconds."""

    def __init__(self, args, model, batch, options="", quota=0):
        self.args, self.model, self.batch, self.options = args, model, batch, options
        self.home = tempfile.mkdtemp(prefix="dahl-bench-home-")
        for i in range(1, 5):
            rig("quota", host(i), quota)
        for i in (1, 2, 3, 4):
            cores(i, str((i - 1) % 2))
        line = f"calibrate --model {model} --batch {batch} --workers 1 --optimizer sgd --seconds 0.3 {self.parts()}"
        self.on(1, f"{args.dahl} {line}")

    def parts(self):
        words = self.options.split()
        return " ".join(words[words.index("--micro-batches") :][:2]) if "--micro-batches" in words else ""

    def on(self, i, command):
        line = f"cd {self.home}; export XDG_DATA_HOME={self.home}; exec {command}"
        done = subprocess.run([str(RIG / "on"), host(i), line], capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{command}: {done.stderr}")
        return done.stdout + done.stderr

    def ask(self, nodes, options=""):
        """What was expected of a step, and what was seen."""
        launch = f"{mpirun(nodes)} -x XDG_DATA_HOME"
        train = (
            f"{self.args.dahl} train {self.model} --data synthetic:{INPUT[self.model]}:{8 * self.batch}:10 --val-limit 0 "
            f"--batch {self.batch} --epochs 6 --optimizer sgd --lr 0.01 --seed 1 --workers 1 {self.options} {options}"
        )
        out = self.on(nodes[0], f"{launch} {train}")
        said = {line.split(": ")[0]: line.split(": ")[1] for line in out.splitlines() if line.startswith(("expected", "seen"))}
        return milliseconds(said["expected"]), milliseconds(said["seen"])

    def end(self):
        shutil.rmtree(self.home)
        for i in range(1, 5):
            rig("quota", host(i), 0)


def conclude(errors):
    sizes = [abs(e) for e in errors]
    print(f"\nerror: mean {100 * statistics.mean(sizes):.2f} %, worst {100 * max(sizes):.2f} %", flush=True)


def pipelines(args):
    rows, errors = [], []
    for nodes in (2, 3, 4):
        # Three and four hosts share two cores.
        run = Predicted(args, "vgg-small", 64, "--micro-batches 8", quota=0 if nodes == 2 else 50)
        for schedule in ("gpipe", "1f1b", "zb-h1"):
            for _ in range(args.rounds):
                told, seen = run.ask(range(1, nodes + 1), f"--pipeline {nodes}:{schedule}")
                errors.append(told / seen - 1)
                rows.append([f"{nodes}:{schedule}", f"{told:.1f}", f"{seen:.1f}", f"{100 * errors[-1]:+.1f} %"])
        run.end()
    table("Pipelines of vgg-small 64, 8 micro-batches: ms a step", ["pipeline", "expected", "seen", "error"], rows)
    conclude(errors)


def shared(args):
    rows, errors = [], []
    for model, batch in (("vgg-small", 128), ("lenet5", 256)):
        run = Predicted(args, model, batch)
        for rate in ("0", "1gbit", "100mbit"):
            for i in (1, 2):
                subprocess.run(["tc", "-n", f"rig{NET}-{i}", "qdisc", "del", "dev", "eth0", "root"], stderr=subprocess.DEVNULL)
                if rate != "0":
                    limit = f"tc -n rig{NET}-{i} qdisc add dev eth0 root tbf rate {rate} burst 128kb latency 50ms"
                    subprocess.run(limit.split(), check=True)
            for _ in range(args.rounds):
                told, seen = run.ask([1, 2], "--shares 1:1")
                errors.append(told / seen - 1)
                rows.append([f"{model} {batch}", rate, f"{told:.1f}", f"{seen:.1f}", f"{100 * errors[-1]:+.1f} %"])
        run.end()
    table("Two hosts with even shares: ms a step", ["model, batch", "rate", "expected", "seen", "error"], rows)
    conclude(errors)


TABLES = {
    "pair": pair_against_one,
    "unequal": unequal,
    "slows": slows_down,
    "idle": idle_and_memory,
    "bits": same_bits,
    "shared": shared,
    "pipelines": pipelines,
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--torch", default="", help="a Python with PyTorch; none: DAHL alone")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("tables", nargs="*", default=list(TABLES), help=", ".join(TABLES))
    args = parser.parse_args()
    args.dahl = os.path.realpath(args.dahl)
    os.environ.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    rig("down")
    rig("up", 4)
    try:
        for name in args.tables:
            cores(1, "0")
            cores(2, "1")
            TABLES[name](args)
    finally:
        rig("down")


if __name__ == "__main__":
    sys.exit(main())
