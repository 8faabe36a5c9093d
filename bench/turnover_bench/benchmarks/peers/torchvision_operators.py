"""Declares two operators of torchvision, whose compiled part cannot be loaded beside torch's build for the CPU.

quanda needs transforms and networks of torchvision, which are Python. Import this first, or give it to pytest as a
plugin (-p).
"""

import importlib.util

import torch

_spec = importlib.util.find_spec("torchvision")
if _spec is not None and not torch.backends.cuda.is_built():
    for _name in ("nms", "qnms"):
        torch.library.define(f"torchvision::{_name}", "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
