#include "bench/attention/variants.h"
#include "kernel/cuda/hopper/launch.cuh"

namespace attest::bench {
namespace {

using hopper::Tile;

template <class Tile>
attest_status forward(const attest_args& args, cudaStream_t stream, char* message, size_t size) {
  hopper::CallShape shape;
  if (!hopper::examine(args, shape, message, size)) return ATTEST_UNSUPPORTED;
  return hopper::launch<Tile, __nv_bfloat16>(args, shape, stream, message, size);
}

template <int Q, int K, int W, int S, bool T, bool R>
constexpr Variant variant(const char* name) {
  return {name, W, forward<Tile<Q, K, W, S, T, R>>};
}

//                         queries keys width stages turns  rescale early
constexpr Variant kVariants[] = {
    variant<192, 128, 64, 2, true, false>("192x128 s2 turns"),
    variant<128, 128, 64, 3, true, false>("128x128 s3 turns"),
    variant<128, 176, 128, 2, true, false>("128x176 s2 turns"),
    variant<128, 128, 128, 2, true, false>("128x128 s2 turns"),
    variant<128, 80, 256, 2, true, true>("128x80 s2 turns early"),
    variant<128, 80, 256, 2, false, true>("128x80 s2 early"),
};

}  // namespace

const Variant* variants(int& count) {
  count = sizeof kVariants / sizeof *kVariants;
  return kVariants;
}

}  // namespace attest::bench
