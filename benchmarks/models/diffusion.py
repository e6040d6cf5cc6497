"""A diffusion U-Net: group norm, transposed convolutions, interpolation, skip connections and a time embedding."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.models.workload import Batch, Size, Workload


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with group norm and SiLU; the time embedding is added between them."""

    def __init__(self, channels_in: int, channels: int, time_width: int) -> None:
        super().__init__()
        self.first_norm, self.second_norm = nn.GroupNorm(4, channels_in), nn.GroupNorm(4, channels)
        self.first, self.second = nn.Conv2d(channels_in, channels, 3, padding=1), nn.Conv2d(channels, channels, 3, padding=1)
        self.time = nn.Linear(time_width, channels)
        self.shortcut = nn.Conv2d(channels_in, channels, 1) if channels_in != channels else nn.Identity()

    def forward(self, x: Tensor, time: Tensor) -> Tensor:
        y = self.first(functional.silu(self.first_norm(x))) + self.time(time)[:, :, None, None]
        return self.shortcut(x) + self.second(functional.silu(self.second_norm(y)))


class UNet(nn.Module):
    """Noisy images [batch, 3, side, side] and times [batch] to the predicted noise."""

    def __init__(self, width: int) -> None:
        super().__init__()
        time_width = 2 * width
        self.register_buffer("frequencies", torch.exp(torch.linspace(0, 5, width // 2)), persistent=False)
        self.time = nn.Sequential(nn.Linear(width, time_width), nn.SiLU(), nn.Linear(time_width, time_width))
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.down = nn.ModuleList([ResidualBlock(width, width, time_width), ResidualBlock(width, 2 * width, time_width)])
        self.reduce = nn.ModuleList([nn.Conv2d(width, width, 3, 2, padding=1), nn.Conv2d(2 * width, 2 * width, 3, 2, padding=1)])
        self.middle = ResidualBlock(2 * width, 2 * width, time_width)
        self.enlarge = nn.ConvTranspose2d(2 * width, 2 * width, 4, 2, padding=1)
        self.up = nn.ModuleList([ResidualBlock(4 * width, width, time_width), ResidualBlock(2 * width, width, time_width)])
        self.head = nn.Sequential(nn.GroupNorm(4, width), nn.SiLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, images: Tensor, times: Tensor) -> Tensor:
        angles = times[:, None] * self.frequencies
        time = self.time(torch.cat([angles.sin(), angles.cos()], 1).to(images.dtype))
        x = self.stem(images)
        skips = []
        for block, reduce in zip(self.down, self.reduce, strict=True):
            x = block(x, time)
            skips.append(x)
            x = reduce(x)
        x = self.enlarge(self.middle(x, time))
        x = self.up[0](torch.cat([x, skips.pop()], 1), time)
        x = functional.interpolate(x, scale_factor=2.0, mode="nearest")
        x = self.up[1](torch.cat([x, skips.pop()], 1), time)
        smooth = functional.interpolate(images, scale_factor=0.5, mode="bilinear", align_corners=False)
        return self.head(x) + functional.interpolate(smooth, size=images.shape[2:], mode="bilinear", align_corners=True)


def noise_loss(predicted: Tensor, batch: Batch) -> Tensor:
    return functional.mse_loss(predicted.float(), batch.targets[0])


def unet(size: Size) -> UNet:
    return UNet(8) if size == "small" else UNet(64)


def noise_batch(size: Size) -> Batch:
    count, side = (2, 16) if size == "small" else (4, 64)
    return Batch((torch.randn(count, 3, side, side), torch.rand(count)), (torch.randn(count, 3, side, side),))


WORKLOADS = (Workload("unet", unet, noise_batch, noise_loss),)
