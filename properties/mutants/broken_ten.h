// broken_ten.h: ten mutants with one classical fault of an online softmax each, for a check of the harness that takes
// no time. They stand in their families' lists too.
// Example: for (const Mutant& m : broken_ten()) Kernel broken = Kernel::from_table(m.kernel);
#pragma once

#include <algorithm>
#include <array>
#include <cmath>

#include "properties/mutants/fault.h"

namespace attest::mutants {

// The factor of a state that has seen a key is always 1.
inline float unscaled(double m_old) { return m_old == Recurrence::kMinusInfinity ? 0.0f : 1.0f; }

struct NoRescale : Fault {
  static float rescale_l(double m_old, double) { return unscaled(m_old); }
  static float rescale_o(double m_old, double) { return unscaled(m_old); }
};

struct OnlyLRescaled : Fault {
  static float rescale_o(double m_old, double) { return unscaled(m_old); }
};

struct OnlyORescaled : Fault {
  static float rescale_l(double m_old, double) { return unscaled(m_old); }
};

struct TileMaximum : NoRescale {
  static double new_maximum(double, double tile_maximum) { return tile_maximum; }
};

// Each tile's weights sum to 1, because its "maximum" is its LSE.
struct TilesAveraged : TileMaximum {
  static double maximum(double a, double b) {
    if (a == kMinusInfinity) return b;
    if (b == kMinusInfinity) return a;
    return std::max(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
  }
};

struct NoMaximum : Fault {
  static double new_maximum(double, double) { return 0; }
  static float rescale_l(double, double) { return 1; }
  static float rescale_o(double, double) { return 1; }
  static float weight(double score, double) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score)); }
};

struct MaskedScoredZero : Fault {
  static double masked_score() { return 0; }
  static bool is_masked(double) { return false; }
};

// Causal mask, window and length end at a whole tile of 16 keys.
struct LastTileUnmasked : Fault {
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    constexpr int64_t kTile = 16;
    KeyRange keys = Recurrence::key_range(row, rows, length, causal, left, right);
    if (keys.end > keys.begin) keys.end = (keys.end + kTile - 1) / kTile * kTile;
    return keys;
  }
};

// 1 / sqrt(D Hq) where 1 / sqrt(D) is due.
struct ScaleFromModelWidth : Fault {
  static void change(FaultyCall& call) {
    if (call.heads() > 0) call.args.scale = static_cast<float>(call.args.scale / std::sqrt(static_cast<double>(call.heads())));
  }
};

struct EmptyRowZeroByZero : Fault {
  static double normalise(double o, float l) { return o / static_cast<double>(l); }
};

inline Mutant no_rescale() { return mutant<NoRescale>("no_rescale", "Neither l nor O is rescaled when the maximum rises.", "B14"); }
inline Mutant only_l_rescaled() { return mutant<OnlyLRescaled>("only_l_rescaled", "l is rescaled when the maximum rises, O is not."); }
inline Mutant only_o_rescaled() { return mutant<OnlyORescaled>("only_o_rescaled", "O is rescaled when the maximum rises, l is not.", "B14"); }
inline Mutant tile_maximum_without_rescale() {
  return mutant<TileMaximum>("tile_maximum_without_rescale", "Each tile's weights are relative to its own maximum, and nothing brings them together.");
}
inline Mutant tiles_normalised_and_averaged() {
  return mutant<TilesAveraged>("tiles_normalised_and_averaged", "O is the mean of the tiles' own results.");
}
inline Mutant no_maximum_subtracted() { return mutant<NoMaximum>("no_maximum_subtracted", "exp(score) is taken without a maximum.", "B09"); }
inline Mutant masked_keys_scored_zero() { return mutant<MaskedScoredZero>("masked_keys_scored_zero", "A masked key has the score 0.", "F23 F43"); }
inline Mutant last_partial_tile_unmasked() {
  return mutant<LastTileUnmasked>("last_partial_tile_unmasked", "Causal mask, window and key length end at a whole tile of 16 keys.", "F17 F20 F22 F25 F38");
}
inline Mutant scale_from_model_width() { return mutant<ScaleFromModelWidth>("scale_from_model_width", "The scale is divided by sqrt(Hq): model width for head width.", "G07"); }
inline Mutant empty_row_zero_by_zero() { return mutant<EmptyRowZeroByZero>("empty_row_zero_by_zero", "An empty row's O is 0 / 0.", "A05 A08 A11 A16 A17"); }

inline std::array<Mutant, 10> broken_ten() {
  return {no_rescale(), only_l_rescaled(), only_o_rescaled(), tile_maximum_without_rescale(), tiles_normalised_and_averaged(),
          no_maximum_subtracted(), masked_keys_scored_zero(), last_partial_tile_unmasked(), scale_from_model_width(), empty_row_zero_by_zero()};
}

}  // namespace attest::mutants
