#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "kernel/cuda/hopper/forward.h"
#include "kernel/cuda/hopper/shapes.cuh"

namespace attest::hopper {

template <int QueryRows, int KeyRows, int Width, int Stages, bool TakeTurns, bool RescaleEarly>
struct Tile;
template <class Tile, class T>
attest_status launch(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message, size_t size);

namespace {

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

// The kernel's instructions exist on compute capability 9.0 alone.
bool on_hopper() {
  int device = 0, major = 0, minor = 0;
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) == cudaSuccess &&
         cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device) == cudaSuccess && major == 9 &&
         minor == 0;
}

bool takes(const attest_args& args) { return !unsupported_feature(args) && !degenerate(args) && on_hopper(); }

uint64_t workspace_bytes(const attest_args& args) {
  const CallShape shape = shape_of(args);
  return workspace_bytes(shape, sizes_of(shape_for(shape)));
}

uint64_t trace_records(const attest_args& args) {
  const CallShape shape = shape_of(args);
  return trace_records(shape, sizes_of(shape_for(shape)));
}

attest_status forward(const attest_args& args, cudaStream_t stream, char* message, size_t size) {
  const CallShape shape = shape_of(args);
  return shape.bf16 ? forward_as<__nv_bfloat16>(args, shape, stream, message, size)
                    : forward_as<__half>(args, shape, stream, message, size);
}

}  // namespace attest::hopper
