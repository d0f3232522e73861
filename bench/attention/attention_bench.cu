// attention_bench: the kernel behind plain C functions, for compare.py (ctypes), which times it beside PyTorch's
// attention on the same inputs in one process.
#include <cstring>

#include "bench/attention/call.h"
#include "bench/attention/variants.h"
#include "kernel/cuda/hopper/forward.h"

using namespace attest;

extern "C" {

int attest_bench_variants() {
  int count;
  bench::variants(count);
  return count;
}
const char* attest_bench_name(int variant) {
  int count;
  return bench::variants(count)[variant].name;
}
int attest_bench_width(int variant) {
  int count;
  return bench::variants(count)[variant].width;
}

// Packed [B,H,N,D], bf16 unless `f16`. Variant -1: the shape that the kernel chooses. Workspace: 64 MiB. Returns 0 or
// the attest_status, with `message` (256 bytes) filled.
int attest_bench_forward(int variant, int f16, void* q, void* k, void* v, void* o, float* lse, void* workspace, long b,
                         long hq, long hk, long nq, long nk, long d, int causal, float scale, void* stream,
                         char* message) {
  bench::Call call({b, hq, hk, nq, nk, d, d}, !f16, q, k, v, o, lse);
  call.args.scale = scale, call.args.causal = causal;
  call.args.workspace = workspace, call.args.workspace_bytes = 64 << 20;
  int count;
  const auto s = static_cast<cudaStream_t>(stream);
  return variant < 0 ? hopper::forward(call.args, s, message, 256)
                     : bench::variants(count)[variant].forward(call.args, s, message, 256);
}

}  // extern "C"
