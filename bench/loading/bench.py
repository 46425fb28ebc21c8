"""Images per second from a folder of JPEGs to batches of normalised floats: torchvision's ImageFolder with PyTorch's
DataLoader, and `dahl bench loading`. Both decode, resize to 224×224 with antialiasing and normalise; both shuffle.
"""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile
import time

import torch
import torchvision
from PIL import Image
from torchvision import transforms

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def make(folder, images, side):
    """Smooth pictures with some noise, about as large as photographs of that size."""
    torch.manual_seed(1)
    for i in range(images):
        coarse = torch.rand(1, 3, 16, 16)
        smooth = torch.nn.functional.interpolate(coarse, (side, side), mode="bicubic").clamp(0, 1)[0]
        picture = (smooth + 0.03 * torch.randn(3, side, side)).clamp(0, 1).mul(255).byte()
        place = folder / "train" / f"class{i % 10}"
        place.mkdir(parents=True, exist_ok=True)
        Image.fromarray(picture.permute(1, 2, 0).numpy()).save(place / f"{i:05}.jpg", quality=90)
    (folder / "val").symlink_to(folder / "train")


def pytorch(folder, batch, threads, rounds):
    steps = transforms.Compose([transforms.Resize((224, 224)), transforms.ToTensor(), transforms.Normalize(MEAN, STD)])
    data = torchvision.datasets.ImageFolder(folder / "train", steps)
    best = float("inf")
    for _ in range(rounds):
        loader = torch.utils.data.DataLoader(data, batch, shuffle=True, num_workers=threads)
        began = time.perf_counter()
        for _ in loader:
            pass
        best = min(best, time.perf_counter() - began)
    return len(data) / best


def dahl(binary, folder, batch, threads, rounds):
    command = [binary, "bench", "loading", "resnet18", "--data", f"folder:{folder}", "--batch", str(batch),
               "--threads", str(threads), "--rounds", str(rounds), "--json"]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(out)["images_per_second"]


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--dahl", required=True)
    parser.add_argument("--images", type=int, default=1000)
    parser.add_argument("--side", type=int, default=320)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=os.cpu_count())
    parser.add_argument("--rounds", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        make(folder, args.images, args.side)
        theirs = pytorch(folder, args.batch, args.threads, args.rounds)
        ours = dahl(args.dahl, folder, args.batch, args.threads, args.rounds)
    print(f"{args.images} JPEGs of {args.side}×{args.side} to 224×224, batches of {args.batch}, {args.threads} threads, "
          f"best of {args.rounds}")
    print(f"PyTorch {torch.__version__}, torchvision {torchvision.__version__}: {theirs:.0f} images/s")
    print(f"DAHL: {ours:.0f} images/s, {ours / theirs:.2f} ×")
