"""ResNet-18 for 32×32 images, trained by PyTorch and by DAHL with the same recipe on the same images: who learns as much?

    python learning.py --dahl PATH [--set NAME] [--images N] [--epochs E] [--seeds S] [--narrower N] [--same]     (bench/pytorch/learn runs it)

Recipe: SGD with Nesterov momentum 0.9, weight decay 5e-4, a rate that falls from 0.05 along half a cosine, batches of 64, random
horizontal flips and random crops with a padding of 4. Every convolution has a quarter of the channels, so that three seeds of both sets
take minutes on two cores; `--narrower 1` is the whole network. Accuracy is on images that were not trained with. The two have other
random numbers and so other weights: what is compared is the mean over seeds, beside how far seeds are apart. Two sets: `fashion`, the
shipped Fashion-MNIST subset with a border and three equal channels; `patterns`, gratings in colour, upright or lying, whose direction and
number of waves are the class, under noise: a flip leaves the class as it is.

The table ends with the differences of both, seed by seed, and the interval of 95 % of their mean by Student's distribution.
`--same` asks another question: with the same first weights, the images in the same order, unchanged, and double precision, both must have the
same loss in every step; the largest relative difference is printed.
"""

import argparse
import gzip
import json
import math
import pathlib
import re
import statistics
import subprocess
import tempfile

import numpy as np
import torch
import torch.nn.functional as F

import models

ROOT = pathlib.Path(__file__).resolve().parents[2]
BATCH, RATE, DECAY, PAD = 64, 0.05, 5e-4, 4


def fashion(count, held):
    """The shipped images with a border of two pixels, three times."""
    folder = ROOT / "crates" / "dahl-data" / "fashion-mnist-small"

    def read(kind, n):
        with gzip.open(folder / f"{kind}-images-idx3-ubyte.gz") as file:
            pixels = np.frombuffer(file.read(16 + n * 784)[16:], np.uint8).reshape(-1, 1, 28, 28)
        with gzip.open(folder / f"{kind}-labels-idx1-ubyte.gz") as file:
            labels = np.frombuffer(file.read(8 + n)[8:], np.uint8)
        return np.pad(pixels, ((0, 0), (0, 0), (2, 2), (2, 2))).repeat(3, 1), labels.astype(np.int64)

    return *read("train", count), *read("t10k", held)


def patterns(count, held):
    """Two directions by five numbers of waves, with a random phase and colour, under noise as strong as they are."""
    random = np.random.default_rng(5)
    n = count + held
    labels = random.integers(0, 10, n)
    lying, waves = labels % 2, 2 + labels // 2
    y, x = np.mgrid[0:32, 0:32] / 32
    phase = random.uniform(0, 2 * math.pi, n)
    along = np.where(lying[:, None, None], y, x)
    wave = np.sin(2 * math.pi * waves[:, None, None] * along + phase[:, None, None])
    colour = random.uniform(0.3, 1.0, (n, 3))
    images = 127.5 + 50 * wave[:, None] * colour[:, :, None, None] + random.normal(0, 50, (n, 3, 32, 32))
    images = images.clip(0, 255).astype(np.uint8)
    return images[:count], labels[:count], images[count:], labels[count:]


def augmented(x, generator):
    """A flip of each image with probability ½, and a crop of its size of the image with zeros around."""
    flip = torch.rand(len(x), generator=generator) < 0.5
    x = torch.where(flip[:, None, None, None], x.flip(3), x)
    at = torch.randint(0, 2 * PAD + 1, (len(x), 2), generator=generator).tolist()
    padded = F.pad(x, (PAD,) * 4)
    return torch.stack([p[:, i:i + 32, j:j + 32] for p, (i, j) in zip(padded, at)])


def accuracy(network, x, y):
    network.eval()
    with torch.no_grad():
        right = sum((network(a).argmax(1) == b).sum().item() for a, b in zip(x.split(250), y.split(250)))
    network.train()
    return 100 * right / len(y)


def network_file(args, folder):
    """The model file with fewer channels."""
    text = (ROOT / "crates/dahl-nn/models" / "resnet18-32.toml").read_text()
    text = re.sub(r"out_channels = (\d+)", lambda m: f"out_channels = {int(m[1]) // args.narrower}", text)
    file = pathlib.Path(folder) / "network.toml"
    file.write_text(text)
    return file


def train(network, x, y, epochs, order, change):
    """The loss and the number of images of every step."""
    step = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=DECAY)
    total, losses = epochs * math.ceil(len(x) / BATCH), []
    for _ in range(epochs):
        for batch in order().split(BATCH):
            step.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * len(losses) / total)) / 2
            step.zero_grad()
            loss = F.cross_entropy(network(change(x[batch])), y[batch])
            loss.backward()
            step.step()
            losses.append((loss.item(), len(batch)))
    return losses


def by_torch(args, model, data, seed):
    x, y, held_x, held_y = (torch.from_numpy(a) for a in data)
    x, held_x = x / 255, held_x / 255
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = models.load(model)
    train(network, x, y, args.epochs, lambda: torch.randperm(len(x), generator=generator), lambda x: augmented(x, generator))
    return accuracy(network, held_x, held_y)


def dahl(args, model, file, *more):
    """The lines that a run of DAHL wrote as its metrics."""
    command = [args.dahl, "train", model, "--data", f"npz:{file}", "--batch", BATCH, "--epochs", args.epochs,
               "--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--weight-decay", DECAY, "--lr", RATE,
               "--schedule", "cosine", "--normalise", "none", "--workers", args.threads, "--metrics", "-",
               "--profile", "none", "--quiet", *more]
    done = subprocess.run([str(c) for c in command], capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(done.stderr)
    return [json.loads(line) for line in done.stdout.splitlines()]


def by_dahl(args, model, file, seed):
    lines = dahl(args, model, file, "--augment", f"flip,crop:{PAD}", "--seed", seed)
    epochs = [line["val_accuracy"] for line in lines if line.get("val_accuracy") is not None]
    return 100 * epochs[-1]


def write_weights(path, tensors):
    """A file of safetensors: the length of a description, the description, the bytes of all values."""
    head, at, parts = {}, 0, []
    for key, tensor in tensors.items():
        values = tensor.detach().numpy()
        parts.append(values.tobytes())
        head[key] = {"dtype": {"float64": "F64", "int64": "I64"}[str(values.dtype)], "shape": list(values.shape),
                     "data_offsets": [at, at + len(parts[-1])]}
        at += len(parts[-1])
    text = json.dumps(head).encode()
    path.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))


def same(args, model, file, data):
    """Both with the same first weights and images: how far apart the losses of the same steps are, and the accuracies at the end."""
    torch.set_default_dtype(torch.float64)
    x, y, held_x, held_y = (torch.from_numpy(a) for a in data)
    network = models.load(model)
    weights = pathlib.Path(file).parent / "first.safetensors"
    write_weights(weights, network.tensors())
    theirs = iter(train(network, x / 255, y, args.epochs, lambda: torch.arange(len(x)), lambda x: x))
    right = accuracy(network, held_x / 255, held_y)
    torch.set_default_dtype(torch.float32)
    lines = dahl(args, model, file, "--init", weights, "--no-shuffle", "--dtype", "f64", "--metrics-every", 1)
    # A line has the loss of all images since the line before, an epoch's that of all its images.
    worst, compared, loss, images = 0.0, 0, 0.0, 0
    for line in lines:
        if line["event"] == "done":
            continue
        ended = line["event"] == "epoch"
        more = len(x) - images if ended else line["samples"]
        ours = line["loss"] * len(x) - loss if ended else (line["loss"] or 0.0) * more
        if more == 0:
            continue
        sum_of_theirs, seen = 0.0, 0
        while seen < more:
            mean, n = next(theirs)
            sum_of_theirs, seen, compared = sum_of_theirs + mean * n, seen + n, compared + 1
        worst = max(worst, abs(ours / sum_of_theirs - 1))
        loss, images = (0.0, 0) if ended else (loss + ours, images + more)
    print(f"{compared} steps with the same weights and images: losses at most {worst:.1e} apart; "
          f"accuracy {right:.2f} % (PyTorch), {100 * lines[-1]['val_accuracy']:.2f} % (DAHL)")


def interval(values):
    """Mean and half the interval of 95 % of the mean, by Student's distribution."""
    student = [12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131]
    n = len(values)
    half = statistics.stdev(values) / math.sqrt(n) * (student[n - 2] if n - 2 < len(student) else 1.96) if n > 1 else math.inf
    return statistics.mean(values), half


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--set", choices=["fashion", "patterns"], action="append")
    parser.add_argument("--narrower", type=int, default=4)
    parser.add_argument("--images", type=int, default=4000)
    parser.add_argument("--held", type=int, default=2000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--first-seed", type=int, default=1)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--same", action="store_true", help="the same weights and images for both, in double precision")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"ResNet-18, channels divided by {args.narrower}, {args.images} images, {args.epochs} epochs, PyTorch {torch.__version__}\n")
    if not args.same:
        print("| set | seed | PyTorch % | DAHL % |\n|---|---|--:|--:|", flush=True)
    for name in args.set or ["fashion", "patterns"]:
        data = {"fashion": fashion, "patterns": patterns}[name](args.images, args.held)
        with tempfile.TemporaryDirectory() as folder:
            file, model = pathlib.Path(folder) / f"{name}.npz", network_file(args, folder)
            np.savez(file, x_train=data[0], y_train=data[1], x_test=data[2], y_test=data[3])
            if args.same:
                print(f"{name}: ", end="", flush=True)
                same(args, model, file, data)
                continue
            rows = []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                rows.append((by_torch(args, model, data, seed), by_dahl(args, model, file, seed)))
                print(f"| {name} | {seed} | {rows[-1][0]:.2f} | {rows[-1][1]:.2f} |", flush=True)
        cells = [f"{statistics.mean(c):.2f} ± {statistics.stdev(c) if len(c) > 1 else 0:.2f}" for c in zip(*rows)]
        mean, half = interval([ours - theirs for theirs, ours in rows])
        print(f"| {name} | mean ± deviation | {cells[0]} | {cells[1]} |", flush=True)
        print(f"| {name} | DAHL less PyTorch | | {mean:+.2f} ± {half:.2f} |", flush=True)


if __name__ == "__main__":
    main()
