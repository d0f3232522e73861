#include "bench/attention/variants.h"

#include <cuda_bf16.h>

#include "kernel/cuda/hopper/shapes.cuh"

namespace attest::hopper {

template <int QueryRows, int KeyRows, int Width, int Stages, bool TakeTurns, bool RescaleEarly>
struct Tile;
template <class Tile, class T>
attest_status launch(const attest_args& args, const CallShape& shape, cudaStream_t stream, char* message, size_t size);

}  // namespace attest::hopper

namespace attest::bench {
namespace {

template <class Tile>
attest_status forward(const attest_args& args, cudaStream_t stream, char* message, size_t size) {
  return hopper::launch<Tile, __nv_bfloat16>(args, hopper::shape_of(args), stream, message, size);
}

#define WIDTH(queries, keys, width, ...) width
constexpr Variant kVariants[] = {
#define X(name, ...) {#name, WIDTH(__VA_ARGS__), forward<hopper::Tile<__VA_ARGS__>>},
    ATTEST_HOPPER_SHAPES(X)
#undef X
};

}  // namespace

const Variant* variants(int& count) {
  count = sizeof kVariants / sizeof *kVariants;
  return kVariants;
}

}  // namespace attest::bench
