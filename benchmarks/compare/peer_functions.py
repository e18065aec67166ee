"""The families of cells/peers.json as one writes them in PyTorch, with the signature of
suite_peers.py: what torch.compile gets, and in float64 the reference. NAME_inputs, where there is
one, makes the inputs of NAME from random ones.
"""

import math

import torch
import torch.nn.functional as F
from suite_peers import fused_add_rmsnorm as add_rms_norm  # noqa: F401
from suite_peers import layer_norm, narrow, picked, rms_norm, softmax, wide  # noqa: F401


def rms_norm_backward(x, dy, weight, rstd, rows):
    xhat = wide(x) * rstd[:, None]
    d = wide(dy)
    g = d * wide(weight)
    dx = (g - xhat * (g * xhat).mean(-1, keepdim=True)) * rstd[:, None]
    return narrow(dx, x), narrow((d * xhat).sum(0), weight)


def rms_norm_backward_inputs(x, dy, weight, rstd):
    return x, dy, weight, rms_norm(x, weight, None)[1]


def layer_norm_backward(x, dy, weight, mean, rstd, rows):
    xhat = (wide(x) - mean[:, None]) * rstd[:, None]
    d = wide(dy)
    g = d * wide(weight)
    dx = g - g.mean(-1, keepdim=True) - xhat * (g * xhat).mean(-1, keepdim=True)
    return narrow(dx * rstd[:, None], x), narrow((d * xhat).sum(0), weight), narrow(d.sum(0), weight)


def layer_norm_backward_inputs(x, dy, weight, mean, rstd):
    return x, dy, weight, *layer_norm(x, weight, weight, None)[1:]


def softmax_backward(y, dy, rows):
    a, d = wide(y), wide(dy)
    return (narrow(a * (d - (a * d).sum(1, keepdim=True)), y),)


def cross_entropy(logits, labels, rows):
    a = wide(logits)
    lse = torch.logsumexp(a, 1)
    return lse - picked(a, labels), lse


def cross_entropy_grad(logits, labels, rows):
    a = wide(logits)
    lse = torch.logsumexp(a, 1, keepdim=True)
    hit = torch.arange(logits.shape[1], device=logits.device)[None, :] == labels[:, None]
    return lse[:, 0] - picked(a, labels), narrow((a - lse).exp() - hit.to(a.dtype), logits)


def swiglu(gate, up, rows):
    x = wide(gate)
    return (narrow(x * torch.sigmoid(x) * wide(up), gate),)


def geglu(gate, up, rows):
    return (narrow(F.gelu(wide(gate), approximate="tanh") * wide(up), gate),)


def rms_norm_quant(x, weight, rows):
    a = wide(x)
    y = a * torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6) * wide(weight)
    scale = (y.abs().amax(-1, keepdim=True) / 448.0).clamp_min(1 / (448.0 * 512.0))
    q = (y / scale).clamp(-448.0, 448.0)
    return q if x.dtype == torch.float64 else q.to(torch.float8_e4m3fn), scale[:, 0]


def group_norm(x, weight, bias, rows):
    a = wide(x)
    mean = a.mean((2, 3), keepdim=True)
    rstd = torch.rsqrt((a - mean).pow(2).mean((2, 3), keepdim=True) + 1e-5)
    y = (a - mean) * rstd * wide(weight)[None, :, :, None] + wide(bias)[None, :, :, None]
    return narrow(y, x), mean[:, :, 0, 0], rstd[:, :, 0, 0]


def batch_norm(x, weight, bias, rows):
    a = wide(x)
    mean = a.mean((0, 2), keepdim=True)
    rstd = torch.rsqrt((a - mean).pow(2).mean((0, 2), keepdim=True) + 1e-5)
    y = (a - mean) * rstd * weight[None, :, None] + bias[None, :, None]
    return narrow(y, x), mean[0, :, 0], rstd[0, :, 0]


def rope(x, cos, sin, rows):
    low, high = wide(x).chunk(2, -1)
    c, s = wide(cos)[None, :, None], wide(sin)[None, :, None]
    return (narrow(torch.cat([low * c - high * s, high * c + low * s], -1), x),)


def rope_inputs(x, cos, sin):
    length, half = cos.shape
    position = torch.arange(length, device=x.device)[:, None]
    angle = position * 10000.0 ** (-torch.arange(half, device=x.device) / half)
    return x, angle.cos().to(cos.dtype), angle.sin().to(sin.dtype)


# The tenth step, at a rate of 1e-3.
ADAM_RATE, ADAM_DECAYS, ADAM_EPSILON, ADAM_STEP = 1e-3, (0.9, 0.999), 1e-8, 10


def adam(p, gradient, m, v, rows):
    first, second = ADAM_DECAYS
    m = m * first + gradient * (1 - first)
    v = v * second + gradient * gradient * (1 - second)
    root = (v * (1 / (1 - second**ADAM_STEP))).sqrt() + ADAM_EPSILON
    return p - m * (ADAM_RATE / (1 - first**ADAM_STEP)) / root, m, v


def adam_eager(p, gradient, m, v):
    """What the optimizer of PyTorch runs without `fused`, in place."""
    first, second = ADAM_DECAYS
    torch._foreach_lerp_([m], [gradient], 1 - first)
    torch._foreach_mul_([v], second)
    torch._foreach_addcmul_([v], [gradient], [gradient], 1 - second)
    root = torch._foreach_sqrt([v])
    torch._foreach_div_(root, math.sqrt(1 - second**ADAM_STEP))
    torch._foreach_add_(root, ADAM_EPSILON)
    torch._foreach_addcdiv_([p], [m], root, -ADAM_RATE / (1 - first**ADAM_STEP))
    return p, m, v


def argmax(x, rows):
    return (x.argmax(1),)
