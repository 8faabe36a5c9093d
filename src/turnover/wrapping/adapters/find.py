"""Finding, in a model of any library, where adapters belong and which layers make its outputs.

Blocks are recognized by the names of the two modules that end their halves, not by their classes: most libraries keep
to a few such names. The output layers are what the model registers behind its blocks.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from torch import nn

from turnover.wrapping._flow import BREAKS
from turnover.wrapping._modules import is_norm, is_within, join

# The module whose output ends the attention, and the one whose output ends the feed-forward part, of one block.
_ENDS = (
    ("attention.output.dense", "output.dense"),  # BERT, RoBERTa, ELECTRA and older ViT of Hugging Face
    ("attention.o_proj", "mlp.fc2"),  # ViT
    ("attention.out_lin", "ffn.lin2"),  # DistilBERT
    ("attention.attn.o", "output.dense"),  # MPNet
    ("self_attn", "linear2"),  # nn.TransformerEncoderLayer
    ("self_attn.out_proj", "mlp.fc2"),  # CLIP, SigLIP
    ("self_attn.out_proj", "fc2"),  # BART
    ("attention.dense", "ffn_output"),  # ALBERT, whose blocks share one set of weights
    ("attn.Wo", "mlp.Wo"),  # ModernBERT
    ("self_attn.o_proj", "mlp.down_proj"),  # LLaMA and its kin
    ("attn.proj", "mlp.fc2"),  # timm
    ("attn.c_proj", "mlp.c_proj"),  # GPT-2
)


@dataclass(frozen=True)
class TransformerBlock:
    """One transformer block and the modules that end its halves."""

    path: str
    kind: str
    ends: tuple[str, str]


def find_blocks(model: nn.Module) -> list[TransformerBlock]:
    """Return the transformer blocks of a model, in its order."""
    modules = dict(model.named_modules())
    blocks: list[TransformerBlock] = []
    for path, module in modules.items():
        for ends in _ENDS:
            full = tuple(join(path, end) for end in ends)
            # nn.TransformerEncoderLayer is the one whose attention is called as a whole.
            whole = ends[0] != "self_attn" or isinstance(modules.get(full[0]), nn.MultiheadAttention)
            if whole and all(end in modules for end in full):
                blocks.append(TransformerBlock(path, type(module).__name__, (full[0], full[1])))
                break
    return blocks


def find_head(model: nn.Module, after: Sequence[str]) -> list[str]:
    """Return the modules with linear layers that stand behind all modules of `after`, on the outermost level.

    A Hugging Face model names its backbone; there the head is all that stands beside it.
    """
    backbone = getattr(model, "base_model_prefix", None)
    if isinstance(backbone, str) and backbone and all(path.startswith(f"{backbone}.") for path in after):
        beside = [name for name, child in model.named_children() if name != backbone and has_linear(child)]
        if beside:
            return beside
    prefix = ""
    while True:
        container = model.get_submodule(prefix)
        names = [name for name, _ in container.named_children()]
        inside = [name for name in names if any(is_within(path, [join(prefix, name)]) for path in after)]
        if not inside:
            return []
        behind = names[names.index(inside[-1]) + 1 :]
        head = [join(prefix, name) for name in behind if has_linear(container.get_submodule(name))]
        if head or len(inside) > 1:
            return head
        prefix = join(prefix, inside[0])


@dataclass(frozen=True)
class OutputLayers:
    """Paths of the linear layers of a head: whose inputs to mask, and whose outputs no mask covers."""

    masked: tuple[str, ...]
    open: tuple[str, ...]  # their outputs are not masked further on, so that their biases leak
    paths: tuple[str, ...]  # of all of them


def output_layers(model: nn.Module, head: Sequence[str]) -> OutputLayers:
    """Return the linear layers of a head.

    Layers that fit one behind the other are taken as a chain: the mask at the input of the next covers the output of
    each, and the input of the first needs none. Side by side, or where something between them does not keep zero (a
    LayerNorm), every input is masked.
    """
    parts = {join(top, path): part for top in head for path, part in model.get_submodule(top).named_modules()}
    linears = {path: part for path, part in parts.items() if isinstance(part, nn.Linear)}
    paths = tuple(linears)
    chain = all(layer.out_features == following.in_features for layer, following in pairwise(linears.values()))
    keeps = not any(is_norm(part) or isinstance(part, BREAKS) for part in parts.values())
    if len(paths) > 1 and chain and keeps:
        return OutputLayers(paths[1:], paths[-1:], paths)
    return OutputLayers(paths, paths, paths)


def has_linear(module: nn.Module) -> bool:
    """Tell whether a module is or holds a linear layer."""
    return any(isinstance(part, nn.Linear) for part in module.modules())
