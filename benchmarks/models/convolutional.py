"""Convolutional networks: a ResNet with batch norm, and a separable network of depthwise blocks."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.workload import Batch, Size, Workload, class_loss

CLASSES = 10


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch norm and a projected shortcut; the second is grouped and dilated."""

    def __init__(self, channels_in: int, channels: int, stride: int, groups: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels_in, channels, 3, stride, padding=1, bias=False)
        self.first_norm = nn.BatchNorm2d(channels)
        self.second = nn.Conv2d(channels, channels, 3, padding=dilation, groups=groups, dilation=dilation, bias=False)
        self.second_norm = nn.BatchNorm2d(channels)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x: Tensor) -> Tensor:
        y = functional.relu(self.first_norm(self.first(x)), inplace=True)
        return functional.relu(self.second_norm(self.second(y)) + self.shortcut(x), inplace=True)


class ResNet(nn.Module):
    """Images [batch, 3, height, width] to logits [batch, CLASSES]: a strided stem, max pooling, stages that halve the resolution."""

    def __init__(self, width: int, blocks: tuple[int, ...], groups: int = 1, dilation: int = 1) -> None:
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, width, 7, stride=2, padding=3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, padding=1)
        )
        layers: list[nn.Module] = []
        channels = width
        for stage, count in enumerate(blocks):
            for block in range(count):
                out = width << stage
                layers.append(ResidualBlock(channels, out, stride=2 if stage and not block else 1, groups=groups, dilation=dilation))
                channels = out
        self.stages = nn.Sequential(*layers)
        self.head = nn.Linear(channels, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(functional.adaptive_avg_pool2d(self.stages(self.stem(images)), 1).flatten(1))


class InvertedResidual(nn.Module):
    """MobileNet's block: pointwise to more channels, depthwise, pointwise back without an activation (Sandler et al., 2018)."""

    def __init__(self, channels_in: int, channels: int, stride: int, expansion: int = 4) -> None:
        super().__init__()
        hidden = expansion * channels_in
        self.layers = nn.Sequential(
            nn.Conv2d(channels_in, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, padding=1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, channels, 1, bias=False),
            nn.BatchNorm2d(channels),
        )
        self.keeps_shape = stride == 1 and channels_in == channels

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.keeps_shape else self.layers(x)


class ConvNextBlock(nn.Module):
    """A 7x7 depthwise convolution, then a layer norm and an MLP over the channels, which are last for these (Liu et al., 2022)."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.norm = nn.LayerNorm(channels)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Linear(4 * channels, channels))
        self.scale = nn.Parameter(torch.full((channels,), 0.1))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.scale * self.mlp(self.norm(self.depthwise(x).permute(0, 2, 3, 1)))).permute(0, 3, 1, 2)


class SeparableNet(nn.Module):
    """Images [batch, 3, height, width] to logits [batch, CLASSES]: inverted residuals, then ConvNeXt blocks at a lower resolution."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(width), nn.Hardswish())
        self.inverted = nn.Sequential(
            *(InvertedResidual(width, width, stride=1) for _ in range(blocks)), InvertedResidual(width, 2 * width, stride=2)
        )
        self.convnext = nn.Sequential(*(ConvNextBlock(2 * width) for _ in range(blocks)))
        self.head = nn.Linear(2 * width, CLASSES)

    def forward(self, images: Tensor) -> Tensor:
        return self.head(self.convnext(self.inverted(self.stem(images))).mean((2, 3)))


def resnet(size: Size) -> ResNet:
    """ResNet-18's shape when large; when small, two stages with grouped and dilated convolutions."""
    return ResNet(8, (1, 1), groups=2, dilation=2) if size == "small" else ResNet(64, (2, 2, 2, 2))


def separable(size: Size) -> SeparableNet:
    return SeparableNet(8, 1) if size == "small" else SeparableNet(32, 3)


def image_batch(size: Size) -> Batch:
    count, side = (4, 32) if size == "small" else (8, 112)
    return Batch((torch.randn(count, 3, side, side),), (torch.randint(CLASSES, (count,)),))


def channels_last_resnet(size: Size) -> nn.Module:
    return resnet(size).to(memory_format=torch.channels_last)


def channels_last_image_batch(size: Size) -> Batch:
    batch = image_batch(size)
    return Batch((batch.inputs[0].contiguous(memory_format=torch.channels_last),), batch.targets)


WORKLOADS = (
    Workload("resnet", resnet, image_batch, class_loss),
    Workload("resnet channels_last", channels_last_resnet, channels_last_image_batch, class_loss),
    Workload("separable", separable, image_batch, class_loss),
)
