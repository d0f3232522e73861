#include "kernel/cuda/hopper/shapes.cuh"

namespace attest::hopper {

attest_status forward_f16(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message,
                          size_t size) {
  return forward_as<__half>(args, shape, stream, message, size);
}

}  // namespace attest::hopper
