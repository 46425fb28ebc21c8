"""Writes NAME.safetensors, images.npz and NAME.json, the scores, of torchvision's networks into a folder.

    python torchvision.py FOLDER NAME…      (needs torch, torchvision, numpy and safetensors)

Weights are as torchvision draws them; statistics of batch norms, which would be zeros and ones, are drawn as well.
"""

import json
import pathlib
import sys

# Beside this file nothing is to be imported: its name is that of the package.
sys.path = [p for p in sys.path if pathlib.Path(p).resolve() != pathlib.Path(__file__).resolve().parent]

import numpy as np  # noqa: E402
import torch  # noqa: E402
import torchvision  # noqa: E402
from safetensors.torch import save_file  # noqa: E402

folder = pathlib.Path(sys.argv[1])
torch.manual_seed(19)
images = torch.randint(0, 256, (2, 3, 224, 224), dtype=torch.uint8)
labels = np.array([3, 7])
np.savez(folder / "images.npz", x_train=images.numpy(), y_train=labels, x_test=images.numpy(), y_test=labels)
mean, deviation = (torch.tensor(v, dtype=torch.float64)[:, None, None] for v in ([0.485, 0.456, 0.406], [0.229, 0.224, 0.225]))
for name in sys.argv[2:]:
    network = getattr(torchvision.models, name)().eval()
    state = network.state_dict()
    for key, tensor in state.items():
        if key.endswith("running_mean"):
            tensor.normal_(0, 0.1)
        if key.endswith("running_var"):
            tensor.uniform_(0.5, 1.5)
    save_file(state, folder / f"{name}.safetensors")
    with torch.no_grad():
        scores = network.double()((images.double() / 255 - mean) / deviation)
    (folder / f"{name}.json").write_text(json.dumps(scores.tolist()))
