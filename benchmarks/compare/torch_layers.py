"""Whole transformer layers, forward and backward, as torch.compile runs them: for a profiler.

Every pass of every layer runs once between cudaProfilerStart and cudaProfilerStop, after warm-ups,
with a kernel of a name of its own (`spin_kernel`) before it. layer_report.py counts what runs
besides matrix products and attention. The arithmetic is that of tests/support/training_layers.h:
the same inputs, roundings and dropout; sums that users' code leaves to autograd are left to it.
"""

import argparse
import math

import torch
import torch.nn.functional as F

BF16 = torch.bfloat16


def rms_norm(x, weight):
    a = x.float()
    rstd = torch.rsqrt(a.pow(2).mean(-1, keepdim=True) + 1e-5)
    return (a * rstd * weight.float()).to(BF16)


def rotated(x, cos, sin):
    half = x.shape[-1] // 2
    a, b = x[..., :half].float(), x[..., half:].float()
    c, s = cos[:, None, :], sin[:, None, :]
    return torch.cat((a * c - b * s, b * c + a * s), -1).to(BF16)


def attention(q, k, v, causal=True):
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
    return out[0].transpose(0, 1)


def llama(x, cos, sin, norm1, norm2, wq, wk, wv, wo, wgate, wup, wdown):
    tokens = x.shape[0]
    y = rms_norm(x, norm1)
    q, k, v = (F.linear(y, w).view(tokens, -1, 128) for w in (wq, wk, wv))
    o = attention(rotated(q, cos, sin), rotated(k, cos, sin), v)
    h = x + F.linear(o.reshape(tokens, -1), wo)
    z = rms_norm(h, norm2)
    gate, up = F.linear(z, wgate).float(), F.linear(z, wup).float()
    return h + F.linear((F.silu(gate) * up).to(BF16), wdown)


def llama_arguments(tokens):
    hidden, kv, ffn = 4096, 1024, 14336
    angles = torch.outer(torch.arange(tokens), 500000.0 ** (-torch.arange(64) / 64)).cuda()
    shapes = [(hidden,), (hidden,), (hidden, hidden), (kv, hidden), (kv, hidden), (hidden, hidden)]
    shapes += [(ffn, hidden), (ffn, hidden), (hidden, ffn)]
    return [angles.cos(), angles.sin()], shapes, hidden


def attend(y, wqkv, bqkv, heads):
    tokens, hidden = y.shape
    q, k, v = (F.linear(y, wqkv) + bqkv).split(hidden, 1)
    o = attention(*(t.reshape(tokens, heads, -1) for t in (q, k, v)))
    return o.reshape(tokens, hidden)


def layer_norm(x, weight, bias):
    return F.layer_norm(x, x.shape[-1:], weight, bias)


def gpt2(x, n1w, n1b, n2w, n2b, wqkv, bqkv, wo, bo, wfc, bfc, wproj, bproj):
    o = attend(layer_norm(x, n1w, n1b), wqkv, bqkv, 12)
    h = x + F.dropout(F.linear(o, wo) + bo, 0.1)
    fc = F.linear(layer_norm(h, n2w, n2b), wfc) + bfc
    return h + F.dropout(F.linear(F.gelu(fc, approximate="tanh"), wproj) + bproj, 0.1)


def bert(x, n1w, n1b, n2w, n2b, wqkv, bqkv, wo, bo, wfc, bfc, wproj, bproj):
    o = attend(x, wqkv, bqkv, 12)
    h = layer_norm(x + F.dropout(F.linear(o, wo) + bo, 0.1), n1w, n1b)
    fc = F.linear(h, wfc) + bfc
    return layer_norm(h + F.dropout(F.linear(F.gelu(fc), wproj) + bproj, 0.1), n2w, n2b)


def encoder_arguments(_tokens):
    hidden, ffn = 768, 3072
    shapes = [(hidden,)] * 4 + [(3 * hidden, hidden), (3 * hidden,), (hidden, hidden), (hidden,)]
    return [], shapes + [(ffn, hidden), (ffn,), (hidden, ffn), (hidden,)], hidden


LAYERS = {
    "llama": (llama, llama_arguments),
    "gpt2": (gpt2, encoder_arguments),
    "bert": (bert, encoder_arguments),
}


def marked(run):
    """One run between the profiler's start and stop, behind the kernel that begins a section."""
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStart()
    torch.cuda._sleep(1)
    out = run()
    torch.cuda.synchronize()
    torch.cuda.cudart().cudaProfilerStop()
    return out


def profile(name, tokens, mode):
    torch.manual_seed(1)
    function, arguments = LAYERS[name]
    given, shapes, hidden = arguments(tokens)
    weights = []
    for shape in shapes:
        scale = 1.0 / math.sqrt(shape[-1]) if len(shape) == 2 else 1.0
        weights.append((torch.randn(shape, device="cuda") * scale).to(BF16).requires_grad_())
    x = torch.randn(tokens, hidden, device="cuda").to(BF16).requires_grad_()
    dy = torch.randn(tokens, hidden, device="cuda").to(BF16)
    compiled = torch.compile(function, fullgraph=True, **mode)
    for repeat in range(3):
        last = repeat == 2
        call = lambda: compiled(x, *given, *weights)  # noqa: E731
        y = marked(call) if last else call()
        step = lambda: torch.autograd.grad(y, [x, *weights], dy)  # noqa: E731
        marked(step) if last else step()


def profile_adam():
    """An Adam step over the parameters of 25 layers like GPT-2's, 300 tensors in f32."""
    hidden, ffn = 768, 3072
    shapes = [(hidden,), (hidden,), (3 * hidden, hidden), (3 * hidden,), (hidden, hidden), (hidden,)]
    shapes += [(hidden,), (hidden,), (ffn, hidden), (ffn,), (hidden, ffn), (hidden,)]
    parameters = [torch.nn.Parameter(torch.randn(s, device="cuda")) for s in shapes * 25]
    for p in parameters:
        p.grad = torch.randn_like(p)
    adam = torch.optim.Adam(parameters, lr=torch.tensor(1e-3), foreach=True, capturable=True)
    step = torch.compile(adam.step, fullgraph=False)
    for _ in range(2):
        step()
    marked(step)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layers", nargs="*", default=[*LAYERS, "adam"])
    parser.add_argument("--tokens", type=int, default=8192)
    parser.add_argument("--mode", default="default")
    options = parser.parse_args()
    mode = {} if options.mode == "default" else {"mode": options.mode}
    for name in options.layers:
        torch._dynamo.reset()
        if name == "adam":
            profile_adam()
        else:
            profile(name, options.tokens, mode)


if __name__ == "__main__":
    main()
