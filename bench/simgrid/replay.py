#!/usr/bin/python3
"""Performs runs that `dahl simulate … --export F` wrote again in SimGrid, and compares time and joules.

Needs SimGrid's Python module: Debian's python3-simgrid, for the system's Python.

  bench/simgrid/replay.py F...               one line per file; exit code 1 if any differs by more than --within
  bench/simgrid/replay.py --network LV08 F   with SimGrid's default network model instead of the file's exact one

One actor per unit and one per lane of a link; each performs its activities in order, after what they wait for. Tasks
compute on the unit's host in their frequency state, transfers are SimGrid communications over the platform's routes.
Seconds and the joules of units and nodes are SimGrid's (its plugin host_energy). The joules of links are bytes times the
link's figure: the plugin link_energy counts the latency of a communication as if bytes were moving.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

# The plugin prints six decimals: watts are scaled so that these are enough.
SCALE = 1e6

# Small enough for tasks of a microsecond; SimGrid's own are made for seconds. Its solver of linear inequalities crashes
# on some platforms with a precision below 1e-10.
PRECISION = ["--cfg=surf/precision:1e-12", "--cfg=maxmin/precision:1e-9"]


def scaled(platform, network):
    """The platform with wattages times SCALE, and without its network settings if another model is asked for."""

    def times(match):
        states = match.group(2).split(",")
        states = [":".join(repr(float(w) * SCALE) for w in s.split(":")) for s in states]
        return match.group(1) + ", ".join(states) + '"'

    text = re.sub(r'(<prop id="wattage_per_state" value=")([^"]*)"', times, platform)
    if network:
        text = re.sub(r"<config>.*?</config>", "", text, flags=re.S)
    return text


def perform(path, network):
    """Runs a file in this process and prints SimGrid's clock and the joules of links as one line of JSON."""
    from simgrid import Actor, Comm, Engine, Host, Semaphore, this_actor

    with open(path) as file:
        replay = json.load(file)
    if replay["version"] != 1:
        sys.exit(f"{path}: version {replay['version']}, this program reads 1")
    model = [f"--cfg=network/model:{network}"] if network else []
    engine = Engine(["replay", "--cfg=plugin:host_energy", "--log=host_energy.thres:info"] + PRECISION + model)
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(scaled(replay["platform"], network))
        file.flush()
        engine.load_platform(file.name)
    activities = replay["activities"]
    # An activity's semaphore is released once by each that it waits for.
    gates = [Semaphore(0) for _ in activities]
    successors = [[] for _ in activities]
    for i, a in enumerate(activities):
        for before in a["after"]:
            if not 0 <= before < i:
                sys.exit(f"{path}: activity {i} waits for {before}, which does not stand before it")
            successors[before].append(i)
    links = [0.0]
    end = [0.0]

    def work(own, do):
        for i in own:
            for _ in activities[i]["after"]:
                gates[i].acquire()
            do(activities[i])
            end[0] = max(end[0], Engine.clock)
            for n in successors[i]:
                gates[n].release()

    def task(a):
        host = Host.current()
        if a["delay"] > 0:
            this_actor.sleep_for(a["delay"])
        if host.pstate != a["state"]:
            host.pstate = a["state"]
        if a["seconds"] > 0:
            this_actor.execute(a["seconds"] * host.speed)

    def transfer(a):
        source, target, joules = replay["links"][a["link"]]
        Comm.sendto(Host.by_name(source), Host.by_name(target), a["bytes"])
        links[0] += a["bytes"] * joules

    lists = {}
    for i, a in enumerate(activities):
        key = ("unit", a["unit"]) if a["kind"] == "task" else ("link", a["link"], a["lane"])
        lists.setdefault(key, []).append(i)
    for key, own in lists.items():
        if key[0] == "unit":
            Actor.create(f"unit {key[1]}", Host.by_name(replay["units"][key[1]]), work, own, task)
        else:
            host = Host.by_name(replay["links"][key[1]][0])
            Actor.create(f"link {key[1]}.{key[2]}", host, work, own, transfer)
    engine.run()
    print(json.dumps({"seconds": end[0], "links": links[0]}), flush=True)


def replayed(path, network=None):
    """SimGrid's seconds and joules of a file, and ours: [[seconds, seconds], [joules, joules]]."""
    with open(path) as file:
        replay = json.load(file)
    command = [sys.executable, os.path.abspath(__file__), "--perform", path]
    command += ["--network", network] if network else []
    done = subprocess.run(command, capture_output=True, text=True)
    total = re.search(r"Total energy consumption: ([0-9.]+) Joules", done.stderr)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not total or not lines:
        raise RuntimeError(f"{path}: SimGrid failed: {done.stderr[-2000:]}")
    found = json.loads(lines[-1])
    joules = float(total.group(1)) / SCALE + found["links"] + replay["unseen_joules"]
    return [[replay["seconds"], found["seconds"]], [replay["joules"], joules]]


def relative(pair):
    """How far two figures are apart, compared with ours."""
    ours, theirs = pair
    return abs(theirs - ours) / max(abs(ours), 1e-300) if ours != theirs else 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="F")
    parser.add_argument("--network", metavar="MODEL", help="SimGrid's network model, such as LV08, its default")
    parser.add_argument("--within", type=float, default=1e-6, help="the largest relative difference [1e-6]")
    parser.add_argument("--perform", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.perform:
        return perform(args.files[0], args.network)
    worst = [0.0, 0.0]
    for path in args.files:
        pairs = replayed(path, args.network)
        off = [relative(p) for p in pairs]
        worst = [max(w, o) for w, o in zip(worst, off)]
        (ours, theirs), (joules, their_joules) = pairs
        print(
            f"{os.path.basename(path)}: {ours:.9e} s here, {theirs:.9e} s there ({off[0]:.1e}); "
            f"{joules:.9e} J here, {their_joules:.9e} J there ({off[1]:.1e})"
        )
    print(f"{len(args.files)} runs: largest difference {worst[0]:.1e} of the seconds, {worst[1]:.1e} of the joules")
    if not args.network and max(worst) > args.within:
        sys.exit(1)


if __name__ == "__main__":
    main()
