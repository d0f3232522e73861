// forward.h: attention on Hopper (sm_90a) for f16 and bf16, the fast path of the "cuda" kernel.
//
// Takes: dense layouts whose addresses and strides are multiples of 16 bytes; D and Dv multiples of 8 up to 256,
// independent of each other (narrower tiles are padded with zeros by the copy engine); causal mask, window and key
// lengths in any combination; grouped heads; LSE; any scale whose |scale|*log2(e) is a normal number.
// Refuses, with a reason, so that the plain kernel runs: boolean mask, bias, softcap, sink, trace, a chosen tile,
// order or split, unaligned tensors, empty tensors, keys broadcast along their rows, other devices and types.
// Refusal depends on the call alone, never on contents.
//
// Numerics: kernel/cuda/hopper/softmax.cuh; rows that tensor cores cannot do right are recomputed in double
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

// Bytes that args.workspace must hold; 0 where hopper_supports is false.
uint64_t hopper_workspace_bytes(const attest_args& args);

// Queues the work on `stream`. UNSUPPORTED and a reason before anything is launched; FAILED with the launch error.
attest_status hopper_forward(const attest_args& args, cudaStream_t stream, char* message, size_t size);

}  // namespace attest::hopper
