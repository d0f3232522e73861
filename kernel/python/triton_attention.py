"""Attention in Triton, as a kernel for attest on a GPU; PyTorch holds the tensors:

    attest verify --kernel kernel/python/triton_attention.py:attention

One program makes 64 query rows of one head: running maximum m and sum l in base 2, O rescaled by exp2(m_old - m_new).
"""
import torch
import triton
import triton.language as tl

LOG2E = 1.4426950408889634


@triton.jit
def attention_kernel(Q, K, V, O, LSE, scale2, Hq, Hk, Nq, Nk, D: tl.constexpr, CAUSAL: tl.constexpr, ROWS: tl.constexpr, KEYS: tl.constexpr):
    head = tl.program_id(1)  # batch * Hq + query head
    kv_head = (head // Hq) * Hk + (head % Hq) // (Hq // Hk)
    rows, columns = tl.program_id(0) * ROWS + tl.arange(0, ROWS), tl.arange(0, D)
    q = tl.load(Q + (head * Nq + rows[:, None]) * D + columns[None, :], mask=rows[:, None] < Nq, other=0.0)
    m = tl.full([ROWS], float("-inf"), tl.float32)
    l = tl.zeros([ROWS], tl.float32)
    o = tl.zeros([ROWS, D], tl.float32)
    for start in range(0, Nk, KEYS):
        keys = start + tl.arange(0, KEYS)
        there = keys[:, None] < Nk
        k = tl.load(K + (kv_head * Nk + keys[:, None]) * D + columns[None, :], mask=there, other=0.0)
        v = tl.load(V + (kv_head * Nk + keys[:, None]) * D + columns[None, :], mask=there, other=0.0)
        s = tl.dot(q, tl.trans(k)) * scale2
        visible = keys[None, :] < Nk
        if CAUSAL:
            visible = visible & (keys[None, :] <= rows[:, None] + Nk - Nq)
        s = tl.where(visible, s, float("-inf"))
        m_new = tl.maximum(m, tl.max(s, 1))
        base = tl.where(m_new == float("-inf"), 0.0, m_new)  # -inf - -inf is never formed
        p = tl.exp2(s - base[:, None])
        rescale = tl.exp2(m - base)
        l = l * rescale + tl.sum(p, 1)
        o = o * rescale[:, None] + tl.dot(p.to(v.dtype), v)
        m = m_new
    o = o / tl.where(l == 0.0, 1.0, l)[:, None]
    tl.store(O + (head * Nq + rows[:, None]) * D + columns[None, :], o.to(O.dtype.element_ty), mask=rows[:, None] < Nq)
    tl.store(LSE + head * Nq + rows, (m + tl.log2(l)) * 0.6931471805599453, mask=rows < Nq)


def attention(q, k, v, *, scale, causal, stream, out, lse_out):
    q, k, v, o = (torch.from_dlpack(t) for t in (q, k, v, out))
    (b, hq, nq, d), (hk, nk) = q.shape, k.shape[1:3]
    if d not in (16, 32, 64, 128) or v.shape[3] != d:
        raise NotImplementedError("D = Dv = 16, 32, 64 or 128")
    if b * hq * nq == 0:
        return
    with torch.cuda.stream(torch.cuda.ExternalStream(stream)):
        lse = torch.from_dlpack(lse_out) if lse_out is not None else torch.empty((b, hq, nq), device="cuda")  # None: not wanted
        attention_kernel[(triton.cdiv(nq, 64), b * hq)](q, k, v, o, lse, scale * LOG2E, hq, hk, nq, nk, D=d, CAUSAL=causal, ROWS=64, KEYS=64)


attention.attest = {"name": "triton attention", "device": "cuda", "types": ["f16", "bf16"], "head_width_max": 128,
                    "features": ["causal", "grouped_heads", "lse"], "conventions": {"nonfinite_v_leaks": 1}}
