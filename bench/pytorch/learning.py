"""ResNet-18 for 32×32 images, trained by PyTorch and by DAHL with the same recipe on the same images: who learns as much?

    python learning.py --dahl PATH [--set NAME] [--images N] [--epochs E] [--seeds S] [--narrower N]     (bench/pytorch/learn runs it)

Recipe: SGD with Nesterov momentum 0.9, weight decay 5e-4, a rate that falls from 0.05 along half a cosine, batches of 64, random
horizontal flips and random crops with a padding of 4. Every convolution has a quarter of the channels, so that three seeds of both sets
take minutes on two cores; `--narrower 1` is the whole network. Accuracy is on images that were not trained with. The two have other
random numbers and so other weights: what is compared is the mean over seeds, beside how far seeds are apart. Two sets: `fashion`, the
shipped Fashion-MNIST subset with a border and three equal channels; `patterns`, gratings in colour whose angle and frequency are the
class, under noise.
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
    """Five angles by two frequencies, with a random phase and colour, under noise as strong as they are."""
    random = np.random.default_rng(5)
    n = count + held
    labels = random.integers(0, 10, n)
    angle, waves = labels % 5 * math.pi / 5, 3 + 2 * (labels // 5)
    y, x = np.mgrid[0:32, 0:32] / 32
    phase = random.uniform(0, 2 * math.pi, n)
    along = np.cos(angle)[:, None, None] * x + np.sin(angle)[:, None, None] * y
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


def by_torch(args, model, data, seed):
    x, y, held_x, held_y = (torch.from_numpy(a) for a in data)
    x, held_x = x / 255, held_x / 255
    torch.manual_seed(seed)
    generator = torch.Generator().manual_seed(seed)
    network = models.load(model)
    step = torch.optim.SGD(network.parameters(), lr=RATE, momentum=0.9, nesterov=True, weight_decay=DECAY)
    total, done = args.epochs * math.ceil(len(x) / BATCH), 0
    for _ in range(args.epochs):
        for batch in torch.randperm(len(x), generator=generator).split(BATCH):
            step.param_groups[0]["lr"] = RATE * (1 + math.cos(math.pi * done / total)) / 2
            step.zero_grad()
            F.cross_entropy(network(augmented(x[batch], generator)), y[batch]).backward()
            step.step()
            done += 1
    return accuracy(network, held_x, held_y)


def by_dahl(args, model, file, seed):
    with tempfile.TemporaryDirectory() as folder:
        metrics = pathlib.Path(folder) / "run.jsonl"
        command = [args.dahl, "train", model, "--data", f"npz:{file}", "--batch", BATCH, "--epochs", args.epochs,
                   "--optimizer", "sgd", "--momentum", "0.9", "--nesterov", "--weight-decay", DECAY, "--lr", RATE,
                   "--schedule", "cosine", "--augment", f"flip,crop:{PAD}", "--normalise", "none", "--seed", seed,
                   "--workers", args.threads, "--metrics", metrics, "--profile", "none", "--quiet"]
        subprocess.run([str(c) for c in command], check=True, capture_output=True)
        lines = [json.loads(line) for line in metrics.read_text().splitlines()]
        epochs = [line["val_accuracy"] for line in lines if line.get("val_accuracy") is not None]
        return 100 * epochs[-1]


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
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    print(f"ResNet-18, channels divided by {args.narrower}, {args.images} images, {args.epochs} epochs, PyTorch {torch.__version__}\n")
    print("| set | seed | PyTorch % | DAHL % |\n|---|---|--:|--:|", flush=True)
    for name in args.set or ["fashion", "patterns"]:
        data = {"fashion": fashion, "patterns": patterns}[name](args.images, args.held)
        with tempfile.TemporaryDirectory() as folder:
            file, model = pathlib.Path(folder) / f"{name}.npz", network_file(args, folder)
            np.savez(file, x_train=data[0], y_train=data[1], x_test=data[2], y_test=data[3])
            rows = []
            for seed in range(args.first_seed, args.first_seed + args.seeds):
                rows.append((by_torch(args, model, data, seed), by_dahl(args, model, file, seed)))
                print(f"| {name} | {seed} | {rows[-1][0]:.2f} | {rows[-1][1]:.2f} |", flush=True)
        cells = [f"{statistics.mean(c):.2f} ± {statistics.stdev(c) if len(c) > 1 else 0:.2f}" for c in zip(*rows)]
        print(f"| {name} | mean ± deviation | {cells[0]} | {cells[1]} |", flush=True)


if __name__ == "__main__":
    main()
