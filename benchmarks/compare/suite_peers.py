"""The kernels of benchmarks/suite as one writes them in PyTorch: the peers, and in float64 the
references. Arguments are the inputs of the .fir file in its order, then `rows`, by which means over
all rows divide; results are its outputs.

Statistics are formed in float32 where inputs are narrower, as in the .fir files.
"""

import torch
import torch.nn.functional as F


def wide(x):
    return x if x.dtype == torch.float64 else x.float()


def narrow(y, x):
    """y in the type of x."""
    return y.to(x.dtype)


def rms_norm(x, weight, rows):
    a = wide(x)
    rstd = torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-5)
    return narrow(a * rstd * wide(weight), x), rstd[:, 0]


def layer_norm(x, weight, bias, rows):
    a = wide(x)
    mean = a.mean(-1, keepdim=True)
    rstd = torch.rsqrt((a - mean).pow(2).mean(-1, keepdim=True) + 1e-5)
    return narrow((a - mean) * rstd * wide(weight) + wide(bias), x), mean[:, 0], rstd[:, 0]


def softmax(x, rows):
    return (F.softmax(x, 1),)


def sum(x, rows):
    return (x.sum(-1),)


long_sum = sum


def picked(logits, labels):
    return logits.gather(1, labels[:, None])[:, 0]


def cross_entropy(logits, labels, rows):
    a = wide(logits)
    return ((torch.logsumexp(a, 1) - picked(a, labels)).sum() / rows,)


def kl_div(log_p, target, rows):
    t = wide(target)
    return ((t * (t.clamp_min(1e-10).log() - wide(log_p))).sum() / rows,)


def jsd(log_q, log_p, rows):
    x, y = wide(log_q), wide(log_p)
    q, p = x.exp(), y.exp()
    log_m = (0.5 * p + 0.5 * q).log()
    gradient = 0.5 * q * (x - log_m)
    return (0.5 * p * (y - log_m) + gradient).sum() / rows, gradient.sum(1) / rows


def welford(x, w, b, rows):
    return (F.layer_norm(x, x.shape[-1:], w, b, 1e-5),)


def fused_add_rmsnorm(x, residual, w, rows):
    h = wide(x) + wide(residual)
    y = h * torch.rsqrt(h.pow(2).mean(-1, keepdim=True) + 1e-6) * wide(w)
    return narrow(y, x), narrow(h, x)


def fused_add_layernorm(x, residual, w, b, rows):
    h = wide(x) + wide(residual)
    mean = h.mean(-1, keepdim=True)
    rstd = torch.rsqrt((h - mean).pow(2).mean(-1, keepdim=True) + 1e-5)
    return narrow((h - mean) * rstd * wide(w) + wide(b), x), narrow(h, x)


def gated_rmsnorm(x, gate, w, rows):
    a, g = wide(x), wide(gate)
    rstd = torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-6)
    return (narrow(a * rstd * wide(w) * g * torch.sigmoid(g), x),)


def scaled_masked_softmax(x, mask, rows):
    return (narrow(torch.softmax(0.125 * wide(x) + wide(mask), -1), x),)


def cross_entropy_ls_zloss(logits, labels, rows):
    a = wide(logits)
    lse = torch.logsumexp(a, 1)
    losses = 0.9 * (lse - picked(a, labels)) + 0.1 * (lse - a.mean(1)) + 1e-4 * lse * lse
    return losses, losses.sum() / rows


def dynamic_quant(x, rows):
    a = wide(x)
    scale = (a.abs().amax(-1) / 127).clamp_min(1e-12)
    return torch.clamp(torch.round(a / scale[:, None]), -127, 127).to(torch.int8), scale


def fused_linear_jsd(student, teacher, rows):
    log_s, log_t = wide(student).log_softmax(-1), wide(teacher).log_softmax(-1)
    s, t = log_s.exp(), log_t.exp()
    m = 0.5 * s + 0.5 * t
    log_m = m.log()
    return (0.5 * s * (log_s - log_m) + 0.5 * t * (log_t - log_m)).sum(-1), 0.5 * (s - m)


def grpo(logits, selected, old_logp, ref_logp, mask, advantage, rows):
    lse = torch.logsumexp(wide(logits) / 0.9, -1)
    logp = selected - lse
    ratio = (logp - old_logp).exp()
    a = advantage[:, None]
    kl = (ref_logp - logp).exp() - (ref_logp - logp) - 1
    loss = -torch.minimum(ratio * a, ratio.clamp(0.8, 1.4) * a) * mask + 0.2 * kl
    is_clipped = ((ratio < 0.8) & (a < 0)) | ((ratio > 1.4) & (a > 0))
    return loss, kl, is_clipped.to(loss.dtype), lse
