"""Attention in NumPy, as a kernel for attest:

    attest verify --kernel kernel/python/numpy_attention.py:attention --cases 500
"""
import numpy as np


def attention(q, k, v, *, scale, causal):
    q, k, v = (np.from_dlpack(t).astype(np.float32) for t in (q, k, v))  # [B,H,N,D]
    s = np.float32(scale) * np.einsum("bhid,bhjd->bhij", q, k)
    if causal:  # query i stands at key position i + Nk - Nq
        nq, nk = s.shape[2:]
        s = np.where(np.arange(nk)[None, :] <= np.arange(nq)[:, None] + nk - nq, s, -np.inf)
    visible = ~np.isneginf(s)
    m = s.max(axis=-1, keepdims=True, initial=-np.inf)
    m = np.where(np.isneginf(m), np.float32(0), m)
    p = np.exp(s - m)
    l = p.sum(axis=-1, keepdims=True)
    # A masked key counts for nothing, whatever V holds there; a visible one that is not finite shows.
    w = p / np.where(l == 0, np.float32(1), l)  # before V, so that no sum leaves the range of V
    o = np.einsum("bhij,bhjd->bhid", w, np.where(np.isfinite(v), v, np.float32(0)))
    o = np.where(np.einsum("bhij,bhjd->bhid", visible.astype(np.float32), (~np.isfinite(v)).astype(np.float32)) > 0, np.nan, o)
    with np.errstate(divide="ignore"):
        lse = (m + np.log(l))[..., 0]
    return o.astype(np.float32), lse.astype(np.float32)


attention.attest = {"name": "numpy attention", "types": ["f32"], "features": ["causal", "lse"]}
