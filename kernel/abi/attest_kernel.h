/* attest_kernel.h: the plain C interface between attest and an attention kernel.
 *
 * A plug-in is a shared object that exports one function,
 *
 *     const attest_kernel *attest_kernel_get(uint32_t index);
 *
 * which returns the table of its kernel number `index`, and NULL past the last. A table is static: it
 * and everything it points to outlives the plug-in. kernel/plugins/example.cpp is a commented start.
 *
 * What a kernel computes, for every batch b, query head h, query row i, with kv head g = h / (Hq / Hk):
 *
 *     x_ij = scale * dot(q_i, k_j)          s_ij = (softcap > 0 ? softcap * tanh(x_ij / softcap) : x_ij) + bias_ij
 *     m_i  = max s_ij over visible j        l_i  = sum exp(s_ij - m_i)
 *     O_i  = sum exp(s_ij - m_i) v_j / l_i  LSE_i = m_i + ln l_i     (natural logarithm)
 *
 * A key is visible if every mask given leaves it visible. A score of -inf, from any source, is a masked
 * key. A sink is one more score without a value: the state (m = sink, l = 1, O = 0), merged exactly once.
 *
 * Ownership: every tensor, the workspace and every pointer in `args` belong to the harness and stay valid
 * until it has synchronised the stream; `forward` may return before the work is done and keeps no pointer.
 * Source of the recurrence: M. Milakov, N. Gimelshein, "Online normalizer calculation for softmax" (2018);
 * T. Dao et al., "FlashAttention" (2022), algorithm 1.
 */
#ifndef ATTEST_KERNEL_H
#define ATTEST_KERNEL_H

#include <dlpack/dlpack.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Grows when a field changes its meaning or its place. New fields are added at the end of a struct, where
 * struct_size tells the two sides apart. */
#define ATTEST_ABI_VERSION 1

typedef enum attest_status {
  ATTEST_OK = 0,          /* done, or queued on the stream */
  ATTEST_UNSUPPORTED = 1, /* these arguments are refused; `message` says why; nothing was launched */
  ATTEST_FAILED = 2       /* could not run; `message` says why, for instance a launch error */
} attest_status;

/* Element types of Q, K, V, O and bias, and of P where a kernel offers the choice. */
typedef enum attest_type { ATTEST_NO_TYPE = 0, ATTEST_F32 = 1, ATTEST_F16 = 2, ATTEST_BF16 = 3 } attest_type;

/* Bits of attest_kernel.features: what may appear in attest_args. */
typedef enum attest_feature {
  ATTEST_CAUSAL = 1 << 0,
  ATTEST_WINDOW = 1 << 1,
  ATTEST_KEY_LENGTHS = 1 << 2,
  ATTEST_MASK = 1 << 3,
  ATTEST_BIAS_F32 = 1 << 4,        /* additive bias stored in f32 */
  ATTEST_BIAS_INPUT_TYPE = 1 << 5, /* additive bias stored in the input type */
  ATTEST_SOFTCAP = 1 << 6,
  ATTEST_SINK = 1 << 7,
  ATTEST_GROUPED_HEADS = 1 << 8, /* Hk < Hq */
  ATTEST_LSE = 1 << 9,           /* writes LSE */
  ATTEST_STRIDES = 1 << 10,      /* strides other than packed [B,H,N,D], 0 included */
  ATTEST_UNALIGNED = 1 << 11     /* any element-aligned address and stride; otherwise 16-byte aligned */
} attest_feature;

typedef enum attest_order {
  ATTEST_ORDER_ANY = 0,       /* the kernel's own choice */
  ATTEST_ORDER_ASCENDING = 1, /* tiles visited from key 0 up */
  ATTEST_ORDER_DESCENDING = 2 /* tiles visited from the last key down */
} attest_order;

/* One visit of one tile by one row. Skipped tiles leave no record. State after the visit; the sink is left
 * out unless conventions.sink_first. Before the first visible key m = -inf, l = 0. */
typedef struct attest_trace_record {
  int32_t b, h;    /* batch, query head */
  int64_t row;     /* query row */
  int32_t split;   /* which part of the keys, 0-based; 0 where nothing is split */
  int32_t reserved;
  int64_t sequence;           /* 0-based number of the visit within (b, h, row, split) */
  int64_t key_begin, key_end; /* the tile's keys, half open, clipped to Nk */
  float m;                    /* running maximum, score units, natural logarithm */
  float l;                    /* running sum of exponentials relative to m */
  float scale;                /* the factor exp(m_old - m_new) that this visit applied to l and O, in [0, 1] */
  float reserved2;
} attest_trace_record;

/* Where a kernel puts its trace. Records may come in any order. `records` and `count` lie in the kernel's
 * memory (host or device); `*count` starts at 0 and ends as the number of records written; a kernel never
 * writes past `capacity`. */
typedef struct attest_trace {
  attest_trace_record *records;
  uint64_t capacity;
  uint64_t *count;
} attest_trace;

/* One call. Every tensor lies in the memory of the kernel's device. DLPack's rules hold: address is
 * data + byte_offset, strides in elements, NULL strides mean packed row-major, data may be NULL where a
 * size is 0. The stride of the last dimension is 1, the others are >= 0 (0 broadcasts; outputs never
 * overlap). Types in DLPack: f32 {kDLFloat,32}, f16 {kDLFloat,16}, bf16 {kDLBfloat,16}, int32 {kDLInt,32},
 * boolean mask {kDLUInt,8}. */
typedef struct attest_args {
  uint32_t struct_size; /* sizeof(attest_args) of the caller */
  int32_t layout;       /* 0: dense. Refuse anything else. */

  const DLTensor *q; /* [B, Hq, Nq, D]  input type */
  const DLTensor *k; /* [B, Hk, Nk, D]  input type */
  const DLTensor *v; /* [B, Hk, Nk, Dv] input type */
  const DLTensor *o; /* [B, Hq, Nq, Dv] input type, output: every element is written */
  const DLTensor *lse; /* [B, Hq, Nq] f32, output, or NULL: not wanted */

  const DLTensor *key_lengths; /* [B] int32 with 0 <= len <= Nk: keys from len on are masked; or NULL */
  const DLTensor *mask;        /* [B|1, Hq|1, Nq|1, Nk|1] uint8, nonzero is visible; or NULL */
  const DLTensor *bias;        /* [B|1, Hq|1, Nq|1, Nk|1] f32 or input type, added to the score; or NULL */
  const DLTensor *sink;        /* [Hq] f32, one logit per query head, finite or -inf (none); or NULL */

  float scale;   /* multiplies the dot product; any sign; already resolved, never 0 for "default" */
  float softcap; /* >= 0; 0: none */
  int32_t causal; /* 0 or 1; where Nq != Nk see conventions.causal_top_left */
  int32_t reserved;
  int64_t window_left;  /* keys further left of the query's position than this are masked; -1: unlimited */
  int64_t window_right; /* likewise to the right; -1: unlimited. Both ends included. */

  /* Choices among what the table lists; 0 leaves the choice to the kernel. */
  int64_t tile_keys;    /* keys per tile */
  int32_t tile_order;   /* attest_order */
  int32_t split_count;  /* parts that the keys are split into */
  int32_t p_type;       /* attest_type that P is rounded to before P V */
  int32_t reserved2;

  void *workspace; /* workspace_bytes(args) bytes, 256-byte aligned, contents arbitrary; NULL where 0 */
  uint64_t workspace_bytes;
  const attest_trace *trace; /* NULL: no trace wanted */
} attest_args;

/* Where a kernel deliberately follows another rule than attest's contract. All zero: the contract. */
typedef struct attest_conventions {
  int32_t causal_top_left;   /* 1: query i stands at key position i; 0: at i + len_b - Nq (bottom right) */
  int32_t empty_row_o_nan;   /* 1: O of a fully masked row is NaN; 0: it is 0 */
  int32_t empty_row_lse_inf; /* 1: LSE of a fully masked row is +inf; 0: it is -inf (the sink with a sink) */
  int32_t nonfinite_v_leaks; /* 1: a non-finite V at a masked key may reach O */
  int32_t batch_dependent;   /* 1: splits or rescaling depend on B or on neighbouring rows */
  int32_t sink_first;        /* 1: trace states contain the sink from the start */
} attest_conventions;

/* How a kernel rounds. A field left 0 has the strict value of reference/numerics.h. */
typedef struct attest_numerics {
  int32_t p_type;         /* attest_type that P is rounded to before P V */
  int32_t p_rounding;     /* 1 to nearest, 2 toward zero */
  int32_t l_from;         /* 1: l sums P before that rounding, 2: after */
  int32_t acc_type;       /* attest_type of the accumulators */
  int32_t acc_rounding;   /* 1 to nearest, 2 toward zero */
  int32_t split_state_type; /* attest_type in which a split's state is kept as (O / l, LSE) before the merge */
  int64_t sum_depth;      /* most additions that any one term of a sum over keys passes through */
  int64_t tile;           /* keys per tile, hence at most one rescale per tile */
  float exp_rel_error;    /* largest relative error of the exponential at its argument */
  float max_lag;          /* how far m may trail the true maximum, natural logarithm */
} attest_numerics;

/* A partial state of one row: O normalised (O = sum p v / l) in f32, and its LSE. */
typedef struct attest_state {
  const DLTensor *o;   /* [rows, Dv] f32 */
  const DLTensor *lse; /* [rows] f32 */
} attest_state;

typedef struct attest_kernel {
  uint32_t abi_version; /* ATTEST_ABI_VERSION */
  uint32_t struct_size; /* sizeof(attest_kernel) */
  const char *name;     /* short, for reports: one line of UTF-8 of 1 to 127 bytes */
  const char *version;  /* likewise */
  int32_t device; /* kDLCPU or kDLCUDA: where the tensors lie */
  uint32_t features; /* attest_feature bits */

  /* Lists that guide the generators; `supports` decides. Each is (pointer, count). */
  const int32_t *types; /* attest_type */
  uint32_t type_count;
  uint32_t head_width_count;    /* 0: any D and Dv in [1, head_width_max], independent of each other */
  const int32_t *head_widths;   /* otherwise D = Dv from this list */
  int32_t head_width_max;
  uint32_t tile_count;          /* 0: args.tile_keys must be 0 */
  const int64_t *tiles;         /* tile sizes worth trying; a kernel may accept others */
  uint32_t split_count;         /* 0: args.split_count must be 0 */
  uint32_t order_count;         /* 0: args.tile_order must be 0 */
  const int32_t *splits;        /* split counts worth trying */
  const int32_t *orders;        /* attest_order */
  const int32_t *p_types;       /* attest_type values that args.p_type may have */
  uint32_t p_type_count;        /* 0: args.p_type must be 0 */
  uint32_t reserved;

  attest_conventions conventions;
  attest_numerics numerics;

  /* 1 if forward would take these arguments; 0 with a one-line reason (at most `size` bytes, terminated). */
  int32_t (*supports)(const attest_args *args, char *reason, size_t size);
  /* Bytes of workspace that forward needs; NULL means none ever. */
  uint64_t (*workspace_bytes)(const attest_args *args);
  /* Queues the work on `stream` (a cudaStream_t for CUDA, NULL on the CPU), and there alone: a call on another stream may
   * run at the same time. `stream` may be under capture into a graph; a kernel that cannot be captured fails then, and
   * nothing else comes of it. `message` takes a one-line reason where the status is not ATTEST_OK. Called from one
   * thread at a time unless `reentrant`. */
  attest_status (*forward)(const attest_args *args, void *stream, char *message, size_t size);
  /* Optional, NULL if absent: out = merge(a, b), associative, with (O = 0, LSE = -inf) as the identity. */
  attest_status (*merge)(const attest_state *a, const attest_state *b, const attest_state *out, void *stream,
                         char *message, size_t size);
  /* Optional, NULL if the kernel cannot be traced: records that a traced call writes at most. */
  uint64_t (*trace_capacity)(const attest_args *args);
  int32_t reentrant; /* 1: forward may be called from several threads at once */
  int32_t reserved2;
} attest_kernel;

/* The one exported symbol. */
#define ATTEST_KERNEL_SYMBOL "attest_kernel_get"
typedef const attest_kernel *(*attest_kernel_get_fn)(uint32_t index);

#ifdef __cplusplus
}
#endif
#endif /* ATTEST_KERNEL_H */
