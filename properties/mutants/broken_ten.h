// broken_ten.h: ten host kernels, each with one classical fault of an online softmax.
//
// Each derives from the steps of the recurrence (kernel/recurrence.h) and replaces what its name says; the rest is
// the production host kernel. They prove that the properties see what they claim to see: each gives a violation
// within 2,000 cases of verify(), and the host kernel none on the same cases.
// Example: for (const attest_kernel* table : broken_ten()) Kernel broken = Kernel::from_table(table);
#pragma once

#include <array>
#include <cmath>

#include "kernel/host/host_kernel.h"
#include "kernel/recurrence.h"

namespace attest::mutants {

// The factor of a state that has seen a key is always 1.
inline float unscaled(double m_old) { return m_old == Recurrence::kMinusInfinity ? 0.0f : 1.0f; }

struct NoRescale : Recurrence {
  static float rescale_l(double m_old, double) { return unscaled(m_old); }
  static float rescale_o(double m_old, double) { return unscaled(m_old); }
};

struct OnlyLRescaled : Recurrence {
  static float rescale_o(double m_old, double) { return unscaled(m_old); }
};

struct OnlyORescaled : Recurrence {
  static float rescale_l(double m_old, double) { return unscaled(m_old); }
};

// Each tile's weights are relative to its own maximum, and nothing brings them together.
struct TileMaximum : NoRescale {
  static double new_maximum(double, double tile_maximum) { return tile_maximum; }
};

// O is the mean of the tiles' own results: each tile's weights sum to 1, because its "maximum" is its LSE.
struct TilesAveraged : TileMaximum {
  static double maximum(double a, double b) {
    if (a == kMinusInfinity) return b;
    if (b == kMinusInfinity) return a;
    return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
};

struct NoMaximum : Recurrence {
  static double new_maximum(double, double) { return 0; }
  static float rescale_l(double, double) { return 1; }
  static float rescale_o(double, double) { return 1; }
  static float weight(double score, double) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score)); }
};

struct MaskedScoredZero : Recurrence {
  static double masked_score() { return 0; }
  static bool is_masked(double) { return false; }
};

// Causal mask, window and length end at a whole tile of 16 keys.
struct LastTileUnmasked : Recurrence {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    constexpr int64_t kTile = 16;
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.end > keys.begin) keys.end = (keys.end + kTile - 1) / kTile * kTile;
    return keys;
  }
};

// 1 / sqrt(D Hq) where 1 / sqrt(D) is due.
struct ScaleFromModelWidth : Recurrence {
  static attest_status forward(const attest_args* args, void* stream, char* message, size_t size) {
    attest_args changed = *args;
    if (args->q->shape[1] > 0) changed.scale = static_cast<float>(args->scale / std::sqrt(static_cast<double>(args->q->shape[1])));
    return host::HostKernel<Recurrence>::forward(&changed, stream, message, size);
  }
};

struct EmptyRowNotGuarded : Recurrence {
  static double normalise(double o, float l) { return o / static_cast<double>(l); }
};

inline const attest_kernel* scale_from_model_width_table() {
  static const attest_kernel table = [] {
    attest_kernel t = *host::host_kernel_table<ScaleFromModelWidth>("scale_from_model_width");
    t.forward = &ScaleFromModelWidth::forward;
    return t;
  }();
  return &table;
}

inline std::array<const attest_kernel*, 10> broken_ten() {
  using host::host_kernel_table;
  return {host_kernel_table<NoRescale>("no_rescale"),
          host_kernel_table<OnlyLRescaled>("only_l_rescaled"),
          host_kernel_table<OnlyORescaled>("only_o_rescaled"),
          host_kernel_table<TileMaximum>("tile_maximum_without_rescale"),
          host_kernel_table<TilesAveraged>("tiles_normalised_and_averaged"),
          host_kernel_table<NoMaximum>("no_maximum_subtracted"),
          host_kernel_table<MaskedScoredZero>("masked_keys_scored_zero"),
          host_kernel_table<LastTileUnmasked>("last_partial_tile_unmasked"),
          scale_from_model_width_table(),
          host_kernel_table<EmptyRowNotGuarded>("empty_row_zero_by_zero")};
}

}  // namespace attest::mutants
