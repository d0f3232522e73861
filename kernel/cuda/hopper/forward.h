// forward.h: attention on Hopper (sm_90a) for f16 and bf16: the fast path of the "cuda" kernel, and "cuda_hopper" by
// itself.
//
// Takes: dense layouts of any stride and alignment (the copy engine where it can, ordinary loads otherwise, with the
// same bits); D and Dv from 1 to 256, independent of each other; causal mask, window and key lengths in any
// combination; grouped heads; LSE; a trace; |scale| from 2^-100 to 2^64.
// Refuses, with a reason, so that the plain kernel runs: f32, boolean mask, bias, softcap, sink, a chosen tile, order
// or split, empty tensors, other scales, other devices. Refusal depends on the call alone, never on contents.
//
// Why the scale is limited: products of bf16 values below the range of f32, 2^-126 or less, may be lost in tensor
// cores. A row adds at most 256 of them, so its scores lose at most 2^-118 * 2^64, nothing beside the rounding of an
// exponential; larger scales could make such products count.
// Numerics: kernel/cuda/hopper/softmax.cuh; rows that tensor cores cannot do right are computed in double
// (exact_rows.cuh), chosen row by row from the row's own scores and values.
// Thread safety: reentrant. Nothing is allocated.
//
// Example:
//     char reason[200];
//     if (hopper_supports(args, reason, sizeof reason)) return hopper_forward(args, stream, message, size);
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

#include "kernel/abi/attest_kernel.h"

namespace attest::hopper {

// False with a one-line reason if this path does not take the call on the current device.
bool hopper_supports(const attest_args& args, char* reason, size_t size);

// Bytes that args.workspace must hold, and records of a trace at most; 0 where hopper_supports is false.
uint64_t hopper_workspace_bytes(const attest_args& args);
uint64_t hopper_trace_records(const attest_args& args);

// Queues the work on `stream`. UNSUPPORTED and a reason before anything is launched; FAILED with the launch error.
attest_status hopper_forward(const attest_args& args, cudaStream_t stream, char* message, size_t size);

}  // namespace attest::hopper
