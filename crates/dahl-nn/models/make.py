"""Writes the larger models of this folder: VGG, ResNets, MobileNets, ConvNeXts, a U-Net and a perceptron, with
torchvision's names of layers where it has the model.

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


def strided(stride):
    return {"stride": stride} if stride > 1 else {}


def mobilenet(name, size, classes, about):
    """Expansion, channels, blocks and first stride of each stage are those of the paper; small images keep more pixels."""
    file = File(name, (3, size, size), about)
    small = size == 32
    if not small:
        file.imagenet()

    def norm(at, bounded=True):
        file.layer("batch_norm2d", at)
        if bounded:
            file.layer("relu6")

    file.layer("conv2d", "features.0.0", out_channels=32, kernel=3, **strided(1 if small else 2), padding=1, bias=False)
    norm("features.0.1")
    inputs, place, before = 32, 1, None
    for expand, out, count, stride in ((1, 16, 1, 1), (6, 24, 2, 1 if small else 2), (6, 32, 3, 2), (6, 64, 4, 2),
                                       (6, 96, 3, 1), (6, 160, 3, 2), (6, 320, 1, 1)):
        for block in range(count):
            step = stride if block == 0 else 1
            at, hidden, i = f"features.{place}.conv", inputs * expand, 0
            more = {"from": before} if before else {}
            if expand > 1:
                file.layer("conv2d", f"{at}.{i}.0", out_channels=hidden, kernel=1, bias=False, **more)
                norm(f"{at}.{i}.1")
                i, more = i + 1, {}
            file.layer("conv2d", f"{at}.{i}.0", out_channels=hidden, kernel=3, **strided(step), padding=1, groups=hidden,
                       bias=False, **more)
            norm(f"{at}.{i}.1")
            file.layer("conv2d", f"{at}.{i + 1}", out_channels=out, kernel=1, bias=False)
            norm(f"{at}.{i + 2}", bounded=False)
            end = f"{at}.{i + 2}"
            if step == 1 and inputs == out:
                file.layer("add", f"features.{place}", **{"from": [before, end]})
                end = f"features.{place}"
            before, inputs, place = end, out, place + 1
    file.layer("conv2d", f"features.{place}.0", out_channels=1280, kernel=1, bias=False)
    norm(f"features.{place}.1")
    file.layer("adaptive_avg_pool2d")
    file.layer("flatten")
    file.layer("dropout", p=0.2)
    file.layer("linear", "classifier.1", out_features=classes)
    file.write()


def convnext(name, size, stem, stages, classes, about):
    """`stem` is the size of the first patches; `stages` are channels and blocks."""
    file = File(name, (3, size, size), about)
    if size != 32:
        file.imagenet()
    eps = 1e-6
    file.layer("conv2d", "features.0.0", out_channels=stages[0][0], kernel=stem, stride=stem)
    file.layer("layer_norm2d", "features.0.1", eps=eps)
    before, place = "features.0.1", 1
    for stage, (width, count) in enumerate(stages):
        if stage:
            file.layer("layer_norm2d", f"features.{place}.0", eps=eps)
            file.layer("conv2d", f"features.{place}.1", out_channels=width, kernel=2, stride=2)
            before, place = f"features.{place}.1", place + 1
        for block in range(count):
            at = f"features.{place}.{block}"
            file.layer("conv2d", f"{at}.block.0", out_channels=width, kernel=7, padding=3, groups=width)
            file.layer("layer_norm2d", f"{at}.block.2", eps=eps)
            file.layer("linear2d", f"{at}.block.3", out_features=4 * width)
            file.layer("gelu")
            file.layer("linear2d", f"{at}.block.5", out_features=width)
            file.layer("layer_scale", at)
            file.layer("add", f"{at}.out", **{"from": [at, before]})
            before = f"{at}.out"
        place += 1
    file.layer("adaptive_avg_pool2d")
    file.layer("layer_norm2d", "classifier.0", eps=eps)
    file.layer("flatten")
    file.layer("linear", "classifier.2", out_features=classes)
    file.write()


def unet(name, size, widths, about):
    """Two convolutions a level; down by pooling, up by transposed convolutions, the last one by upsampling."""
    file = File(name, (3, size, size), about)

    def level(at, channels):
        for i in (1, 2):
            file.layer("conv2d", f"{at}.conv{i}", out_channels=channels, kernel=3, padding=1, bias=False)
            file.layer("batch_norm2d", f"{at}.bn{i}")
            file.layer("relu", f"{at}.out" if i == 2 else None)

    for i, channels in enumerate(widths[:-1]):
        level(f"down{i}", channels)
        file.layer("max_pool2d", kernel=2)
    level("middle", widths[-1])
    for i, channels in reversed(list(enumerate(widths[:-1]))):
        if i:
            file.layer("conv_transpose2d", f"up{i}.up", out_channels=channels, kernel=2, stride=2)
        else:
            file.layer("upsample", scale_factor=2, mode="bilinear")
            file.layer("conv2d", f"up{i}.up", out_channels=channels, kernel=1)
        file.layer("concat", **{"from": [f"up{i}.up", f"down{i}.out"]})
        level(f"up{i}", channels)
    file.layer("conv2d", "head", out_channels=1, kernel=1)
    file.layer("flatten")
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

SANDLER, LIU, RONNEBERGER = "(Sandler et al., 2018)", "(Liu et al., 2022)", "(Ronneberger et al., 2015)"
mobilenet("mobilenet-v2", 224, 1000,
          [f"MobileNetV2 {SANDLER} for colour images of 224×224, with torchvision's names."])
mobilenet("mobilenet-v2-32", 32, 10,
          [f"MobileNetV2 {SANDLER} for colour images of 32×32: the first two strides are 1, torchvision's names."])
convnext("convnext-tiny", 224, 4, ((96, 3), (192, 3), (384, 9), (768, 3)), 1000,
         [f"ConvNeXt-T {LIU} for colour images of 224×224, with torchvision's names. Without stochastic depth."])
convnext("convnext-32", 32, 2, ((48, 2), (96, 2), (192, 4), (384, 2)), 10,
         [f"A small ConvNeXt {LIU} for colour images of 32×32: patches of 2×2, torchvision's names. Without stochastic",
          "depth."])
unet("unet-32", 32, (16, 32, 64),
     [f"A small U-Net {RONNEBERGER} for colour images of 32×32: a number per pixel, for targets that are values",
      "(--loss bce_with_logits or mse)."])
