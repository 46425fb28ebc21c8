"""What the scripts here share: the models, the program, and whether the machine was quiet meanwhile."""
import json, os, resource, subprocess, sys, tempfile, time

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")
MODELS = [("small-cnn", 64), ("lenet5", 64), ("vgg-small", 32), ("resnet18-32", 32), ("small-cnn-512", 32)]

# Cores that other processes may keep busy: beyond this, two workers do not have two cores.
OTHERS = 0.2
# How often a measurement is tried before a disturbed one is taken, which the table then shows.
TRIES = 3


def dahl(home, *args):
    """What a command prints, as JSON if it was asked for that; nothing calibrated elsewhere decides."""
    binary = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(ROOT, "target")), "release", "dahl")
    command = [binary, *map(str, args)]
    run = subprocess.run(command, env=dict(os.environ, DAHL_HOME=home), stdin=subprocess.DEVNULL,
                         capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)}: {run.stderr.strip()}")
    return json.loads(run.stdout) if "--json" in command else run.stdout


def busy():
    """Core-seconds that the machine worked, others' stolen ones included, and those of our own processes."""
    with open("/proc/stat") as stat:
        ticks = [int(t) for t in stat.readline().split()[1:9]]
    user, nice, system, _, _, irq, softirq, steal = ticks
    everybody = (user + nice + system + irq + softirq + steal) / os.sysconf("SC_CLK_TCK")
    ours = resource.getrusage(resource.RUSAGE_CHILDREN)
    return everybody, ours.ru_utime + ours.ru_stime


def quiet(measure):
    """A measurement during which others kept few cores busy, and how many; the quietest of a few tries."""
    best = None
    for _ in range(TRIES):
        with tempfile.TemporaryDirectory() as home:
            before, start = busy(), time.monotonic()
            found = measure(home)
            after, end = busy(), time.monotonic()
        others = max(0.0, (after[0] - before[0]) - (after[1] - before[1])) / (end - start)
        if best is None or others < best[1]:
            best = found, others
        if best[1] <= OTHERS:
            break
    return best
