#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdio>

#include "kernel/cuda/hopper/forward.h"
#include "kernel/cuda/hopper/shapes.cuh"

namespace attest::hopper {

template <int QueryRows, int KeyRows, int Width, int Stages, bool TakeTurns, bool RescaleEarly>
struct Tile;
template <class Tile, class T>
attest_status launch(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message, size_t size);

namespace {

// The kernel's instructions exist on compute capability 9.0 alone.
bool on_hopper() {
  int device = 0, major = 0, minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
         minor == 0;
}

template <class T>
attest_status forward_as(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message,
                         size_t size) {
  switch (shape_for(shape)) {
#define X(name, ...) \
  case ShapeName::name: return launch<Tile<__VA_ARGS__>, T>(args, shape, stream, message, size);
    ATTEST_HOPPER_SHAPES(X)
#undef X
  }
  return ATTEST_FAILED;
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
  return examine(args, shape, nullptr, 0) ? workspace_bytes(shape, sizes_of(shape_for(shape))) : 0;
}

uint64_t hopper_trace_records(const attest_args& args) {
  CallShape shape;
  return examine(args, shape, nullptr, 0) ? trace_records(shape, sizes_of(shape_for(shape))) : 0;
}

attest_status hopper_forward(const attest_args& args, cudaStream_t stream, char* message, size_t size) {
  CallShape shape;
  if (!examine(args, shape, message, size)) return ATTEST_UNSUPPORTED;
  return shape.bf16 ? forward_as<__nv_bfloat16>(args, shape, stream, message, size)
                    : forward_as<__half>(args, shape, stream, message, size);
}

}  // namespace attest::hopper
