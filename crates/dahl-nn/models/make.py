"""Writes the larger models of this folder: VGG, ResNets and a perceptron, with torchvision's names of layers.

    python make.py

The files are committed; run it after a change here. Small models are written by hand.
"""

import json
import pathlib

HERE = pathlib.Path(__file__).resolve().parent


class File:
    def __init__(self, name, shape, about):
        self.name = name
        self.text = "".join(f"# {line}\n" for line in about) + f'name = "{name}"\ninput = {list(shape)}\n'

    def imagenet(self):
        self.text += 'normalise = "0.485,0.456,0.406/0.229,0.224,0.225"\n'

    def layer(self, kind, name=None, **keys):
        self.text += "\n[[layers]]\n" + (f'name = "{name}"\n' if name else "") + f'type = "{kind}"\n'
        for key, value in keys.items():
            # JSON writes texts, lists and truth as TOML does.
            self.text += f"{key} = {json.dumps(value)}\n"

    def write(self):
        (HERE / f"{self.name}.toml").write_text(self.text)


def resnet(name, blocks, bottleneck, size, classes, about):
    file = File(name, (3, size, size), about)
    if size == 32:
        file.layer("conv2d", "conv1", out_channels=64, kernel=3, padding=1, bias=False)
    else:
        file.imagenet()
        file.layer("conv2d", "conv1", out_channels=64, kernel=7, stride=2, padding=3, bias=False)
    file.layer("batch_norm2d", "bn1")
    file.layer("relu", "relu1")
    before = "relu1"
    if size != 32:
        file.layer("max_pool2d", "maxpool", kernel=3, stride=2, padding=1)
        before = "maxpool"
    inputs = 64
    for stage, count in enumerate(blocks):
        width, out = 64 << stage, (64 << stage) * (4 if bottleneck else 1)
        for block in range(count):
            stride = 2 if stage > 0 and block == 0 else 1
            at = f"layer{stage + 1}.{block}"
            # Kernel, channels and stride of each convolution.
            convs = [(1, width, 1), (3, width, stride), (1, out, 1)] if bottleneck else [(3, width, stride), (3, width, 1)]
            for i, (kernel, channels, step) in enumerate(convs, 1):
                more = {"stride": step} if step > 1 else {}
                more |= {"padding": 1} if kernel == 3 else {}
                more |= {"from": before} if i == 1 and block_input(file, before) else {}
                file.layer("conv2d", f"{at}.conv{i}", out_channels=channels, kernel=kernel, **more, bias=False)
                file.layer("batch_norm2d", f"{at}.bn{i}")
                if i < len(convs):
                    file.layer("relu")
            short = before
            if stride > 1 or inputs != out:
                more = {"stride": stride} if stride > 1 else {}
                file.layer("conv2d", f"{at}.downsample.0", out_channels=out, kernel=1, **more, bias=False, **{"from": before})
                file.layer("batch_norm2d", f"{at}.downsample.1")
                short = f"{at}.downsample.1"
            file.layer("add", **{"from": [f"{at}.bn{len(convs)}", short]})
            file.layer("relu", f"{at}.out")
            before, inputs = f"{at}.out", out
    file.layer("adaptive_avg_pool2d")
    file.layer("flatten")
    file.layer("linear", "fc", out_features=classes)
    file.write()


def block_input(file, before):
    """Whether the last layer is not the one that a block reads."""
    return f'name = "{before}"' not in file.text.rsplit("[[layers]]", 1)[-1]


def vgg(name, stages, about):
    file = File(name, (3, 224, 224), about)
    file.imagenet()
    at = 0
    for channels, count in stages:
        for _ in range(count):
            file.layer("conv2d", f"features.{at}", out_channels=channels, kernel=3, padding=1)
            file.layer("relu")
            at += 2
        file.layer("max_pool2d", kernel=2)
        at += 1
    file.layer("flatten")
    for place, features in ((0, 4096), (3, 4096), (6, 1000)):
        file.layer("linear", f"classifier.{place}", out_features=features)
        if place < 6:
            file.layer("relu")
            file.layer("dropout")
    file.write()


HE = "(He et al., 2015)"
for depth, blocks, bottleneck in ((18, (2, 2, 2, 2), False), (34, (3, 4, 6, 3), False), (50, (3, 4, 6, 3), True)):
    resnet(f"resnet{depth}", blocks, bottleneck, 224, 1000,
           [f"ResNet-{depth} {HE} for colour images of 224×224, as torchvision has it: names of layers and weights", "are its."])
    if depth > 18:
        resnet(f"resnet{depth}-32", blocks, bottleneck, 32, 10,
               [f"ResNet-{depth} {HE} for colour images of 32×32: a 3×3 stem without pooling, torchvision's names."])
vgg("vgg11", ((64, 1), (128, 1), (256, 2), (512, 2), (512, 2)),
    ["VGG-11 (Simonyan and Zisserman, 2014) for colour images of 224×224, with torchvision's names."])
vgg("vgg16", ((64, 2), (128, 2), (256, 3), (512, 3), (512, 3)),
    ["VGG-16 (Simonyan and Zisserman, 2014) for colour images of 224×224, with torchvision's names."])
mlp = File("mlp", (1, 28, 28), ["A perceptron with two hidden layers, for grey images of 28×28."])
mlp.layer("flatten")
for features in (256, 128):
    mlp.layer("linear", out_features=features)
    mlp.layer("relu")
mlp.layer("linear", out_features=10)
mlp.write()
