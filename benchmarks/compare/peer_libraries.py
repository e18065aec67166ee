"""The families of cells/peers.json as the libraries beside Sinter compute them, each called as its
users would: CALLS[peer][family], a function of the inputs that makes an Arm (suite.py). A library
without an entry has no kernel for the family that gives the same results. Outputs that a library does
not make are None.

A library is imported by the first call of it.
"""

import collections
import functools

import fir_nvfuser
import peer_functions
import torch
import torch.nn.functional as F
from suite import Arm

CALLS = collections.defaultdict(dict)


def peer(name, family):
    """Puts a function into CALLS."""

    def put(function):
        CALLS[name][family] = function
        return function

    return put


def apart(inputs, places):
    """The inputs with memory of its own for those at some places, which an arm writes; what restores
    them; and that memory."""
    own = [x.clone() if i in places else x for i, x in enumerate(inputs)]

    def reset():
        for i in places:
            own[i].copy_(inputs[i])

    return own, reset, tuple(own[i] for i in places)


# PyTorch itself, op by op.


@peer("eager", "rms_norm")
def eager_rms_norm(x, weight):
    def launch():
        y, rstd = torch.ops.aten._fused_rms_norm(x, [x.shape[1]], weight, 1e-5)
        return y, rstd[:, 0]

    return Arm(launch)


@peer("eager", "layer_norm")
def eager_layer_norm(x, weight, bias):
    def launch():
        y, mean, rstd = torch.ops.aten.native_layer_norm(x, [x.shape[1]], weight, bias, 1e-5)
        return y, mean[:, 0], rstd[:, 0]

    return Arm(launch)


@peer("eager", "rms_norm_backward")
def eager_rms_norm_backward(x, dy, weight, rstd):
    column = rstd[:, None]
    return Arm(lambda: torch.ops.aten._fused_rms_norm_backward(
        dy, x, [x.shape[1]], column, weight, [True, True]))


@peer("eager", "layer_norm_backward")
def eager_layer_norm_backward(x, dy, weight, mean, rstd):
    columns = mean[:, None], rstd[:, None]
    return Arm(lambda: torch.ops.aten.native_layer_norm_backward(
        dy, x, [x.shape[1]], *columns, weight, weight, [True, True, True]))


@peer("eager", "softmax")
def eager_softmax(x):
    return Arm(lambda: (torch.softmax(x, 1),))


@peer("eager", "softmax_backward")
def eager_softmax_backward(y, dy):
    return Arm(lambda: (torch.ops.aten._softmax_backward_data(dy, y, 1, y.dtype),))


@peer("eager", "cross_entropy")
def eager_cross_entropy(logits, labels):
    # Log-probabilities and losses are rounded to the type of the logits.
    return Arm(lambda: (F.cross_entropy(logits, labels, reduction="none"), None), roundings=4)


@peer("eager", "group_norm")
def eager_group_norm(x, weight, bias):
    n, groups, c, pixels = x.shape
    a, w, b = x.view(n, groups * c, pixels), weight.view(-1), bias.view(-1)

    def launch():  # Its statistics are rounded to the type of x.
        y = torch.ops.aten.native_group_norm(a, w, b, n, groups * c, pixels, groups, 1e-5)[0]
        return y.view(x.shape), None, None

    return Arm(launch, roundings=2)


@peer("eager", "batch_norm")
def eager_batch_norm(x, weight, bias):
    return Arm(lambda: torch.ops.aten.native_batch_norm(
        x, weight, bias, None, None, True, 0.1, 1e-5))


@peer("eager", "argmax")
def eager_argmax(x):
    return Arm(lambda: (x.argmax(1),))


@peer("eager", "adam")
def eager_adam(*inputs):
    own, reset, written = apart(inputs, (0, 2, 3))
    return Arm(lambda: peer_functions.adam_eager(*own), reset, written)


@peer("eager_fused", "adam")
def fused_adam(*inputs):
    own, reset, written = apart(inputs, (0, 2, 3))
    p, gradient, m, v = own
    step = torch.tensor(float(peer_functions.ADAM_STEP), device=p.device)
    first, second = peer_functions.ADAM_DECAYS

    def launch():
        torch._fused_adam_(
            [p], [gradient], [m], [v], [], [step], lr=peer_functions.ADAM_RATE,
            beta1=first, beta2=second, weight_decay=0.0, eps=peer_functions.ADAM_EPSILON, amsgrad=False,
            maximize=False)
        return written

    return Arm(launch, reset, written)


# Liger Kernel. Its casting mode "gemma" forms everything in float32, as Sinter's graphs do.


@peer("liger", "rms_norm")
def liger_rms_norm(x, weight):
    from liger_kernel.ops.rms_norm import rms_norm_forward

    def launch():
        y, _, rstd, *_ = rms_norm_forward(x, weight, 1e-5, 0.0, "gemma", False)
        return y, rstd

    return Arm(launch)


@peer("liger", "add_rms_norm")
def liger_add_rms_norm(x, residual, weight):
    from liger_kernel.ops.fused_add_rms_norm import fused_add_rms_norm_forward

    # The norm is that of the rounded sum.
    return Arm(
        lambda: fused_add_rms_norm_forward(x, residual, weight, 1e-6, 0.0, "gemma")[:2], roundings=2)


@peer("liger", "layer_norm")
def liger_layer_norm(x, weight, bias):
    from liger_kernel.ops.layer_norm import layer_norm_forward

    def launch():
        y, _, mean, rstd, *_ = layer_norm_forward(x, weight, bias, 1e-5)
        return y, mean, rstd

    return Arm(launch)


@peer("liger", "rms_norm_backward")
def liger_rms_norm_backward(x, dy, weight, rstd):
    from liger_kernel.ops.rms_norm import _str_to_casting_mode, rms_norm_backward
    from liger_kernel.ops.utils import calculate_settings

    settings = calculate_settings(x.shape[1])
    mode = _str_to_casting_mode["gemma"]
    (own,), reset, written = apart((dy,), (0,))  # Its default: dx is written over dy.
    return Arm(lambda: rms_norm_backward(own, x, weight, rstd, 0.0, mode, *settings, True, False),
               reset, written)


@peer("liger", "layer_norm_backward")
def liger_layer_norm_backward(x, dy, weight, mean, rstd):
    from liger_kernel.ops.layer_norm import layer_norm_backward

    return Arm(lambda: layer_norm_backward(dy, x, weight, weight, mean, rstd))


@peer("liger", "softmax")
def liger_softmax(x):
    from liger_kernel.ops.softmax import _softmax_forward

    return Arm(lambda: _softmax_forward(x)[:1])


@peer("liger", "softmax_backward")
def liger_softmax_backward(y, dy):
    from liger_kernel.ops.softmax import _softmax_backward
    from liger_kernel.ops.utils import calculate_settings

    settings = calculate_settings(y.shape[1])
    return Arm(lambda: (_softmax_backward(dy, y, *settings, False),))


def liger_losses(logits, labels, losses, with_gradient):
    """One launch of Liger's kernel with losses in float32. Its wrapper asks the device for the number
    of labels, which no CUDA graph can hold, and stores losses in the type of the logits."""
    import triton
    from liger_kernel.ops.cross_entropy import MAX_FUSED_SIZE, liger_cross_entropy_kernel

    rows, columns = logits.shape
    liger_cross_entropy_kernel[(rows,)](
        X_ptr=logits, X_stride=logits.stride(0), Y_ptr=labels, Y_stride=1, weight_ptr=None,
        loss_ptr=losses, z_loss_ptr=None, loss_stride=1, token_accuracy_ptr=None,
        token_accuracy_stride=0, predicted_tokens_ptr=None, predicted_tokens_stride=0, n_cols=columns,
        n_non_ignore=rows, sum_non_ignore_weight=rows, weight_sum=0.0, ignore_index=-100,
        lse_square_scale=0.0, label_smoothing=0.0, reduction="sum", softcap=None, RETURN_Z_LOSS=False,
        RETURN_TOKEN_ACCURACY=False, RETURN_PREDICTED_TOKENS=False,
        BLOCK_SIZE=min(MAX_FUSED_SIZE, triton.next_power_of_2(columns)), HAS_WEIGHT=False,
        HAS_SOFTCAPPING=False, HAS_GRADIENTS=with_gradient, num_warps=32)


@peer("liger", "cross_entropy")
def liger_cross_entropy(logits, labels):
    losses = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)

    def launch():
        liger_losses(logits, labels, losses, False)
        return losses, None

    return Arm(launch)


@peer("liger", "cross_entropy_grad")
def liger_cross_entropy_grad(logits, labels):
    losses = torch.empty(logits.shape[0], dtype=torch.float32, device=logits.device)
    (own,), reset, written = apart((logits,), (0,))  # The gradient is written over the logits.

    def launch():
        liger_losses(own, labels, losses, True)
        return losses, own

    return Arm(launch, reset, written)


@peer("liger", "swiglu")
def liger_swiglu(gate, up):
    from liger_kernel.ops.swiglu import swiglu_forward

    # silu(gate) is rounded before the product.
    return Arm(lambda: swiglu_forward(gate, up)[2:], roundings=2)


@peer("liger", "geglu")
def liger_geglu(gate, up):
    from liger_kernel.ops.geglu import geglu_forward

    # gelu(gate) is rounded before the product.
    return Arm(lambda: geglu_forward(gate, up)[2:], roundings=2)


@peer("liger", "group_norm")
def liger_group_norm(x, weight, bias):
    from liger_kernel.ops.group_norm import group_norm_forward

    n, groups, c, pixels = x.shape
    a, w, b = x.view(n, groups * c, pixels), weight.view(-1), bias.view(-1)

    def launch():  # Its statistics are rounded to the type of x.
        return group_norm_forward(a, groups * c, groups, w, b, 1e-5)[0].view(x.shape), None, None

    return Arm(launch, roundings=2)


# QuACK.


@peer("quack", "rms_norm")
def quack_rms_norm(x, weight):
    from quack.rmsnorm import rmsnorm_fwd

    def launch():
        y, _, rstd = rmsnorm_fwd(x, weight, eps=1e-5, store_rstd=True)
        return y, rstd

    return Arm(launch)


@peer("quack", "add_rms_norm")
def quack_add_rms_norm(x, residual, weight):
    from quack.rmsnorm import rmsnorm_fwd

    return Arm(lambda: rmsnorm_fwd(x, weight, residual=residual, eps=1e-6)[:2])


@peer("quack", "layer_norm")
def quack_layer_norm(x, weight, bias):
    from quack.rmsnorm import _rmsnorm_fwd

    def launch():
        y = torch.empty_like(x)
        mean, rstd = (torch.empty(x.shape[0], dtype=torch.float32, device=x.device) for _ in range(2))
        _rmsnorm_fwd(x, weight, y, bias, rstd, mean, None, None, 1e-5, True)
        return y, mean, rstd

    return Arm(launch)


@peer("quack", "rms_norm_backward")
def quack_rms_norm_backward(x, dy, weight, rstd):
    from quack.rmsnorm import rmsnorm_bwd

    return Arm(lambda: rmsnorm_bwd(x, weight, dy, rstd)[:2])


@peer("quack", "layer_norm_backward")
def quack_layer_norm_backward(x, dy, weight, mean, rstd):
    from quack.rmsnorm import layernorm_bwd

    return Arm(lambda: layernorm_bwd(x, weight, dy, rstd, mean, True))


@peer("quack", "softmax")
def quack_softmax(x):
    from quack.softmax import softmax_fwd

    return Arm(lambda: (softmax_fwd(x),))


@peer("quack", "softmax_backward")
def quack_softmax_backward(y, dy):
    from quack.softmax import softmax_bwd

    return Arm(lambda: (softmax_bwd(dy, y),))


@peer("quack", "cross_entropy")
def quack_cross_entropy(logits, labels):
    from quack.cross_entropy import cross_entropy_fwd

    return Arm(lambda: cross_entropy_fwd(logits, labels, return_lse=True))


@peer("quack", "cross_entropy_grad")
def quack_cross_entropy_grad(logits, labels):
    from quack.cross_entropy import cross_entropy_fwd

    return Arm(lambda: cross_entropy_fwd(logits, labels, return_dx=True))


@peer("quack_two_calls", "cross_entropy_grad")
def quack_two_calls(logits, labels):
    from quack.cross_entropy import cross_entropy_bwd, cross_entropy_fwd

    ones = torch.ones(logits.shape[0], dtype=torch.float32, device=logits.device)

    def launch():
        losses, lse = cross_entropy_fwd(logits, labels, return_lse=True)
        return losses, cross_entropy_bwd(logits, labels, ones, lse)

    return Arm(launch)


@peer("quack", "rope")
def quack_rope(x, cos, sin):
    from quack.rotary import apply_rotary_emb

    def launch():
        with torch.no_grad():
            return (apply_rotary_emb(x, cos, sin),)

    return Arm(launch)


def calls_of(family, graph, sizes):
    """The functions of CALLS for a family, by the name of the peer, and what is made for its graph."""
    calls = {name: of_peer[family] for name, of_peer in CALLS.items() if family in of_peer}
    if fir_nvfuser.is_translated(graph):
        calls["nvfuser"] = lambda *inputs: Arm(functools.partial(fir_nvfuser.function(graph, sizes), *inputs))
    return calls
