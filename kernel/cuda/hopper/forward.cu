#include <cstdio>

#include "kernel/cuda/hopper/forward.h"
#include "kernel/cuda/hopper/shapes.h"

namespace attest::hopper {
namespace {

// The kernel's instructions exist on compute capability 9.0 alone.
bool on_hopper() {
  int device = 0, major = 0, minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
         minor == 0;
}

}  // namespace

bool hopper_supports(const attest_args& args, char* reason, size_t size) {
  CallShape shape;
  if (!examine(args, shape, reason, size)) return false;
  if (on_hopper()) return true;
  std::snprintf(reason, size, "the Hopper path needs a device of compute capability 9.0");
  return false;
}

uint64_t hopper_workspace_bytes(const attest_args& args) {
  CallShape shape;
  char reason[1];
  return examine(args, shape, reason, sizeof reason) ? workspace_bytes(shape) : 0;
}

attest_status hopper_forward(const attest_args& args, cudaStream_t stream, char* message, size_t size) {
  CallShape shape;
  if (!examine(args, shape, message, size)) return ATTEST_UNSUPPORTED;
  if (!args.workspace || args.workspace_bytes < workspace_bytes(shape)) {
    std::snprintf(message, size, "the Hopper path needs %llu bytes of workspace, got %llu",
                  static_cast<unsigned long long>(workspace_bytes(shape)),
                  static_cast<unsigned long long>(args.workspace_bytes));
    return ATTEST_FAILED;
  }
  return shape.bf16 ? forward_bf16(args, shape, stream, message, size)
                    : forward_f16(args, shape, stream, message, size);
}

}  // namespace attest::hopper
