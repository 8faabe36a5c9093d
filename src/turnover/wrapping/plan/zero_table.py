"""Which modules and functions keep a zero, which do not, and which are the next weights."""

from torch import nn
from torch.nn.modules.batchnorm import _NormBase
from torch.nn.modules.conv import _ConvNd

from turnover.layers import TurnOverDropout


def _modules(names: str) -> tuple[type[nn.Module], ...]:
    return tuple(getattr(nn, name) for name in names.split())


WEIGHTS = (
    _ConvNd,
    *_modules(
        """Linear Bilinear RNNBase RNNCellBase MultiheadAttention Transformer TransformerEncoder TransformerDecoder
    TransformerEncoderLayer TransformerDecoderLayer"""
    ),
)
BREAKS = (
    _NormBase,
    *_modules(
        """LayerNorm GroupNorm Sigmoid LogSigmoid Softmax LogSoftmax Softmin Softmax2d
    Hardsigmoid Softplus CosineSimilarity"""
    ),
)
KEEPS = (
    TurnOverDropout,
    *_modules(
        """RMSNorm LocalResponseNorm ReLU ReLU6 LeakyReLU PReLU RReLU ELU SELU CELU GELU SiLU Mish Tanh
    Hardtanh Hardswish Softsign Tanhshrink
    Softshrink Hardshrink Identity Flatten Unflatten Upsample PixelShuffle Fold Unfold Dropout Dropout1d
    Dropout2d Dropout3d ZeroPad1d ZeroPad2d ZeroPad3d MaxPool1d MaxPool2d MaxPool3d AvgPool1d AvgPool2d
    AvgPool3d LPPool1d LPPool2d AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveMaxPool1d
    AdaptiveMaxPool2d AdaptiveMaxPool3d"""
    ),
)

_KEEP_NAMES = frozenset(
    """relu relu_ relu6 leaky_relu leaky_relu_ prelu elu elu_ selu celu gelu silu mish tanh tanh_ hardtanh hardswish
    softsign abs neg mul mul_ imul div truediv div_ sqrt square flatten reshape view view_as unflatten
    transpose permute swapaxes t contiguous squeeze unsqueeze expand getitem cat concat concatenate stack
    chunk split mean sum amax amin max min dropout dropout1d dropout2d dropout3d max_pool1d max_pool2d
    max_pool3d avg_pool1d avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d interpolate to float half bfloat16 clone
    detach type_as index_select gather select narrow repeat movedim roll flip pad rms_norm normalize""".split()
)
_WEIGHT_NAMES = frozenset(
    """linear conv1d conv2d conv3d conv_transpose1d conv_transpose2d conv_transpose3d bilinear matmul mm bmm addmm
    einsum baddbmm scaled_dot_product_attention""".split()
)
_BREAK_NAMES = frozenset(
    """sigmoid sigmoid_ logsigmoid softmax log_softmax softmin batch_norm layer_norm group_norm instance_norm
     softplus exp log cos hardsigmoid cosine_similarity""".split()
)
_ADD_NAMES = frozenset("add add_ iadd sub sub_ isub radd rsub".split())
_SHAPE_NAMES = frozenset("size dim shape getattr numel ndim".split())


def function_verdict(name: str) -> tuple[str, str]:
    """Return "keeps", "breaks", "weights" (the end of the way) or "unknown" for a function, and why."""
    if name in _SHAPE_NAMES:
        return "weights", ""
    if name in _ADD_NAMES:
        return "breaks", "its output is added to something else"
    for verdict, names in (("weights", _WEIGHT_NAMES), ("breaks", _BREAK_NAMES), ("keeps", _KEEP_NAMES)):
        if name in names:
            return verdict, f"{name}() follows"
    return "unknown", f"what {name}() does to zero is not known"
