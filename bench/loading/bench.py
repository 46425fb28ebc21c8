"""Images per second from a folder of JPEGs to batches of normalised floats: torchvision's ImageFolder with PyTorch's
DataLoader, and `dahl bench loading`. Both decode, resize to the model's input with antialiasing and normalise; both shuffle.

They are measured in turns, each by the faster of two epochs; PyTorch has one more before, so that starting its worker
processes is left out, as opening the folder is. A ratio is that of one turn.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import tempfile
import time

import torch
import torchvision
from PIL import Image
from torchvision import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
MODEL = """name = "loading"
input = [3, {side}, {side}]
normalise = "0.485,0.456,0.406/0.229,0.224,0.225"
[[layers]]
type = "flatten"
[[layers]]
type = "linear"
out_features = 10
"""


def make(folder, images, sides):
    """Smooth pictures with some noise, about as large as photographs of that size."""
    torch.manual_seed(1)
    random.seed(1)
    for i in range(images):
        size = [random.randint(*sides), random.randint(*sides)]
        coarse = torch.rand(1, 3, 16, 16)
        smooth = torch.nn.functional.interpolate(coarse, size, mode="bicubic").clamp(0, 1)[0]
        picture = (smooth + 0.03 * torch.randn(3, *size)).clamp(0, 1).mul(255).byte()
        place = folder / "train" / f"class{i % 10}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(place / f"{i:05}.jpg", quality=90)
    (folder / "val").symlink_to(folder / "train")


def pytorch(folder, side, batch, threads):
    steps = transforms.Compose([transforms.Resize((side, side)), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    data = torchvision.datasets.ImageFolder(folder / "train", steps)
    loader = torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=threads, persistent_workers=True)
    times = []
    for _ in range(3):
        began = time.perf_counter()
        for _ in loader:
            pass
        times.append(time.perf_counter() - began)
    return len(data) / min(times[1:])


def dahl(binary, folder, model, batch, threads):
    command = [binary, "bench", "loading", str(model), "--data", f"folder:{folder}", "--batch", str(batch),
               "--threads", str(threads), "--rounds", "2", "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(out)["images_per_second"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--folder", type=pathlib.Path, help="pictures that are there already, as this program makes them")
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--sides", type=int, nargs=2, default=[64, 256], help="pixels of a picture's sides, from and to")
    parser.add_argument("--to", type=int, nargs="+", default=[64, 224], help="sides of the model's input")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, os.cpu_count()])
    parser.add_argument("--turns", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = args.folder or pathlib.Path(name)
        if not (folder / "train").is_dir():
            make(folder, args.images, args.sides)
        count = sum(1 for _ in folder.glob("train/*/*"))
        low, high = args.sides
        print(f"{count} JPEGs, sides of {low} to {high} pixels, batches of {args.batch}, {args.turns} turns; "
              f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}\n")
        print("| Input | Threads | PyTorch, images/s | DAHL, images/s | Ratio (least to greatest) |\n|---|---:|---:|---:|---:|")
        for side in args.to:
            model = pathlib.Path(name) / f"loading-{side}.toml"
            model.write_text(MODEL.format(side=side))
            for threads in args.threads:
                turns = [(pytorch(folder, side, args.batch, threads), dahl(args.dahl, folder, model, args.batch, threads))
                         for _ in range(args.turns)]
                theirs, ours = (statistics.median(one) for one in zip(*turns))
                ratios = sorted(o / t for t, o in turns)
                print(f"| 3×{side}×{side} | {threads} | {theirs:.0f} | {ours:.0f} | {statistics.median(ratios):.2f} "
                      f"({ratios[0]:.2f} to {ratios[-1]:.2f}) |", flush=True)
