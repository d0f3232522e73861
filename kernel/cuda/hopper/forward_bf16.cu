#include "kernel/cuda/hopper/shapes.cuh"

namespace attest::hopper {

attest_status forward_bf16(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message,
                           size_t size) {
  return forward_as<__nv_bfloat16>(args, shape, stream, message, size);
}

}  // namespace attest::hopper
