"""PyTorch's version of a model file: any chain or DAG that DAHL reads, layer for layer.

Keys of weights are those of DAHL: the layer's name, or its index where it has none, then `.weight` and
so on. Modules may not have dots in their names, so the names are kept beside the modules.
"""

import math
import tomllib

import torch
from torch import nn


class GroupedBatchNorm2d(nn.BatchNorm2d):
    """Batch norm of each group of samples, one after another; a batch counts once."""

    def __init__(self, channels, group):
        super().__init__(channels)
        self.group = group

    def forward(self, x):
        if not self.training:
            return super().forward(x)
        before = self.num_batches_tracked.clone()
        y = torch.cat([super(GroupedBatchNorm2d, self).forward(part) for part in x.split(self.group)])
        self.num_batches_tracked.copy_(before + 1)
        return y


def pair(value):
    return tuple(value) if isinstance(value, list) else (value, value)


class Add(nn.Module):
    def forward(self, *inputs):
        total = inputs[0]
        for other in inputs[1:]:
            total = total + other
        return total


class Concat(nn.Module):
    def forward(self, *inputs):
        return torch.cat(inputs, 1)


class LayerNorm2d(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Linear2d(nn.Linear):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class LayerScale(nn.Module):
    def __init__(self, channels, init):
        super().__init__()
        self.layer_scale = nn.Parameter(torch.full((channels, 1, 1), init))

    def forward(self, x):
        return x * self.layer_scale


def make(layer, shape):
    """The module of a layer whose (first) input has this shape, without the batch."""
    kind = layer["type"]
    if kind == "conv2d":
        return nn.Conv2d(shape[0], layer["out_channels"], pair(layer["kernel"]), pair(layer.get("stride", 1)),
                         pair(layer.get("padding", 0)), pair(layer.get("dilation", 1)), layer.get("groups", 1),
                         bias=layer.get("bias", True))
    if kind == "conv_transpose2d":
        return nn.ConvTranspose2d(shape[0], layer["out_channels"], pair(layer["kernel"]), pair(layer.get("stride", 1)),
                                  pair(layer.get("padding", 0)), pair(layer.get("output_padding", 0)),
                                  layer.get("groups", 1), layer.get("bias", True), pair(layer.get("dilation", 1)))
    if kind == "upsample":
        size, factor = layer.get("size"), layer.get("scale_factor")
        mode = layer.get("mode", "nearest")
        return nn.Upsample(size and pair(size), factor and tuple(map(float, pair(factor))), mode,
                           layer.get("align_corners", False) if mode == "bilinear" else None)
    if kind == "adaptive_avg_pool2d":
        return nn.AdaptiveAvgPool2d(pair(layer.get("output_size", 1)))
    if kind == "layer_norm2d":
        return LayerNorm2d(shape[0], layer.get("eps", 1e-5))
    if kind == "layer_scale":
        return LayerScale(shape[0], layer.get("init", 1e-6))
    if kind == "linear2d":
        return Linear2d(shape[0], layer["out_features"], bias=layer.get("bias", True))
    if kind in ("max_pool2d", "avg_pool2d"):
        pool = nn.MaxPool2d if kind == "max_pool2d" else nn.AvgPool2d
        kernel = pair(layer["kernel"])
        return pool(kernel, pair(layer.get("stride", list(kernel))), pair(layer.get("padding", 0)))
    if kind == "linear":
        return nn.Linear(shape[0], layer["out_features"], bias=layer.get("bias", True))
    if kind == "dropout":
        return nn.Dropout(layer.get("p", 0.5))
    if kind == "batch_norm2d":
        if "norm_group" in layer:
            return GroupedBatchNorm2d(shape[0], layer["norm_group"])
        return nn.BatchNorm2d(shape[0])
    if kind == "layer_norm":
        return nn.LayerNorm(layer.get("normalized_shape", list(shape)), layer.get("eps", 1e-5),
                            layer.get("elementwise_affine", True), layer.get("bias", True))
    if kind == "group_norm":
        return nn.GroupNorm(layer["num_groups"], shape[0], layer.get("eps", 1e-5), layer.get("affine", True))
    if kind == "leaky_relu":
        return nn.LeakyReLU(layer.get("negative_slope", 0.01))
    if kind == "elu":
        return nn.ELU(layer.get("alpha", 1.0))
    if kind == "gelu":
        return nn.GELU(layer.get("approximate", "none"))
    plain = {"relu": nn.ReLU, "sigmoid": nn.Sigmoid, "tanh": nn.Tanh, "silu": nn.SiLU, "flatten": nn.Flatten, "add": Add,
             "concat": Concat, "relu6": nn.ReLU6}
    return plain[kind]()


class Network(nn.Module):
    """The layers of a model file in their order; `wires` says whose outputs each of them takes."""

    def __init__(self, text):
        super().__init__()
        file = tomllib.loads(text)
        self.name, self.input = file["name"], file["input"]
        self.labels, self.wires, self.layers = [], [], nn.ModuleList()
        shapes, named = [], {}
        for i, layer in enumerate(file["layers"]):
            sources = layer.get("from")
            if sources is None:
                wires = [i - 1]
            else:
                sources = [sources] if isinstance(sources, str) else sources
                wires = [-1 if s == "input" else named[s] for s in sources]
            before = shapes[wires[0]] if wires[0] >= 0 else tuple(self.input)
            module = make(layer, before)
            with torch.no_grad():
                # Two samples, because a batch norm cannot train on one value; eval keeps its statistics.
                probe = [torch.zeros(2, *(shapes[w] if w >= 0 else self.input)) for w in wires]
                shapes.append(tuple(module.eval()(*probe).shape[1:]))
            if "name" in layer:
                named[layer["name"]] = i
            self.labels.append(layer.get("name", str(i)))
            self.wires.append(wires)
            self.layers.append(module.train())
        self.classes = math.prod(shapes[-1])
        last = {}
        for i, wires in enumerate(self.wires):
            for w in wires:
                last[w] = i
        self.dead = [[w for w in set(wires) if last[w] == i] for i, wires in enumerate(self.wires)]

    def forward(self, x):
        values = {-1: x}
        for i, (layer, wires) in enumerate(zip(self.layers, self.wires)):
            values[i] = layer(*(values[w] for w in wires))
            for w in self.dead[i]:
                del values[w]
        return values[len(self.layers) - 1]

    def tensors(self):
        """Weights and statistics by DAHL's keys, layer by layer."""
        found = {}
        for label, layer in zip(self.labels, self.layers):
            for key, tensor in layer.state_dict(keep_vars=True).items():
                found[f"{label}.{key}"] = tensor
        return found


def load(path):
    with open(path, encoding="utf-8") as file:
        return Network(file.read())
