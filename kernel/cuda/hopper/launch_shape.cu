// launch_shape.cu: one tile shape for one input type, which the build names by ATTEST_SHAPE and ATTEST_TYPE.
#include "kernel/cuda/hopper/launch.cuh"
#include "kernel/cuda/hopper/shapes.cuh"

namespace attest::hopper {

#define X(name, ...) using name = Tile<__VA_ARGS__>;
ATTEST_HOPPER_SHAPES(X)
#undef X

template attest_status launch<ATTEST_SHAPE, ATTEST_TYPE>(const attest_args&, const CallShape&, cudaStream_t, char*,
                                                         size_t);

}  // namespace attest::hopper
