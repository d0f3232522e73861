// forward.h: attention on Hopper (sm_90a) for f16 and bf16, the fast path of the "cuda" kernel.
//
// Takes: dense layouts of any stride and alignment (the copy engine where it can, ordinary loads otherwise, with the
// same bits); D and Dv from 1 to 256, independent of each other; causal mask, window and key lengths in any
// combination; grouped heads; LSE; a trace.
// Leaves to the plain kernel: f32, boolean mask, bias, softcap, sink, a chosen tile, order or split, and degenerate
// calls (empty tensors; |scale| outside 2^-100 to 2^100). That depends on the call alone, never on contents.
//
// Why the scale is limited: products of bf16 values may lie below the range of f32. The matrix unit keeps sums down to
// 2^-149 and loses what is below at each step of 16 products (bench/attention/product_range.cu). Over the 16 steps of
// a row of 256 that moves a score by at most 2^-145 |scale|: nothing beside the rounding of an exponential up to 2^100.
// Numerics: kernel/cuda/hopper/softmax.cuh; rows that tensor cores cannot do right are computed in double
// (exact_rows.cuh), chosen row by row from the row's own scores and values.
// Thread safety: reentrant. Nothing is allocated.
//
// Example:
//     if (hopper::takes(*args)) return hopper::forward(*args, stream, message, size);
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernel/abi/attest_kernel.h"

namespace attest::hopper {

// nullptr, or why this path is not made for such a call on any device. The arguments are well formed.
const char* unsupported_feature(const attest_args& args);
// Nothing to be fast at: the plain kernel does it.
bool degenerate(const attest_args& args);
// Whether the current device runs it.
bool on_hopper();

// Neither unsupported nor degenerate, and the device is right. What follows is for such calls alone.
bool takes(const attest_args& args);

// Bytes that args.workspace must hold, and records of a trace at most.
uint64_t workspace_bytes(const attest_args& args);
uint64_t trace_records(const attest_args& args);

// Queues the work on `stream`. FAILED with the launch error, or where the workspace does not suffice.
attest_status forward(const attest_args& args, cudaStream_t stream, char* message, size_t size);

}  // namespace attest::hopper
