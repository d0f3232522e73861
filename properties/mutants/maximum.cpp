// maximum.cpp: faults of the reference point of the exponentials.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

template <int kStart>
struct StartsAt : Fault {
  static double new_maximum(double m, double tile_maximum) { return maximum(m == kMinusInfinity ? kStart : m, tile_maximum); }
};

template <int kValue>
struct Constant : Fault {
  static double new_maximum(double, double) { return kValue; }
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - m)); }
};

struct OfFirstTile : Fault {
  static double new_maximum(double m, double tile_maximum) { return m == kMinusInfinity ? tile_maximum : m; }
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - m)); }
};

// The tile's maximum takes over although the state's is higher: exp(m_old - m_new) overflows.
struct OfTile : Fault {
  static double new_maximum(double, double tile_maximum) { return tile_maximum; }
  static float rescale_l(double m_old, double m_new) { return m_old == kMinusInfinity ? 0.0f : static_cast<float>(std::exp(m_old - m_new)); }
  static float rescale_o(double m_old, double m_new) { return rescale_l(m_old, m_new); }
};

// Weights against the maximum from before the tile, the state against the new one.
struct OfPreviousTile : Fault {
  static inline thread_local double old = 0;
  static double new_maximum(double m, double tile_maximum) {
    const double m_new = maximum(m, tile_maximum);
    old = m == kMinusInfinity ? m_new : m;
    return m_new;
  }
  static float weight(double score, double) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - old)); }
};

struct Minimum : Fault {
  static double maximum(double a, double b) { return a == kMinusInfinity ? b : b == kMinusInfinity ? a : std::min(a, b); }
  static double new_maximum(double m, double tile_maximum) { return maximum(m, tile_maximum); }
  static float rescale_l(double m_old, double m_new) { return m_old == kMinusInfinity ? 0.0f : static_cast<float>(std::exp(m_old - m_new)); }
  static float rescale_o(double m_old, double m_new) { return rescale_l(m_old, m_new); }
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - m)); }
};

struct OfMagnitudes : Fault {
  static double maximum(double a, double b) {
    if (a == kMinusInfinity) return b == kMinusInfinity ? b : std::fabs(b);
    return b == kMinusInfinity ? a : Recurrence::maximum(a, std::fabs(b));
  }
};

// The maximum is over the raw products, the scale comes after: for a negative scale it is the least score.
struct BeforeNegativeScale : Fault {
  static double maximum(double a, double b) {
    if (call().args.scale >= 0 || a == kMinusInfinity || b == kMinusInfinity) return Recurrence::maximum(a, b);
    return std::min(a, b);
  }
  static double new_maximum(double m, double tile_maximum) { return maximum(m, tile_maximum); }
  static float rescale_l(double m_old, double m_new) { return m_old == kMinusInfinity ? 0.0f : static_cast<float>(std::exp(m_old - m_new)); }
  static float rescale_o(double m_old, double m_new) { return rescale_l(m_old, m_new); }
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - m)); }
};

// The weights use the maximum rounded to f16, the rescale does not.
struct RoundedForWeights : Fault {
  static float weight(double score, double m) {
    return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - static_cast<double>(numbers::from_bf16(numbers::to_bf16(static_cast<float>(m))))));
  }
};

// P up to 2^4 above 1 is clamped where an 8-bit format would be, while l sums the unclamped weights.
struct LaggingAndClamped : Fault {
  static constexpr double kLag = 4 * 0.6931471805599453;
  static double new_maximum(double m, double tile_maximum) { return tile_maximum <= m + kLag ? m : Recurrence::maximum(m, tile_maximum); }
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : static_cast<float>(std::exp(score - m)); }
  static float round_weight(float p, int32_t type) { return HostSteps::round_weight(std::min(p, 448.0f / 256.0f), type); }
};

// Hidden keys' scores join the maximum and are masked afterwards.
struct OfMaskedKeysToo : Fault {
  static constexpr float kHidden = -0x1p120f;
  static inline thread_local std::vector<bool> scored, hidden;
  static inline thread_local size_t next = 0;
  static void change(FaultyCall& call) {
    FaultyCall masks(call.args);
    const View bias = call.full_bias();
    FaultyCall::for_each(bias, [&](int64_t b, int64_t h, int64_t i, int64_t j) {
      if (!masks.visible(b, h, i, j)) bias.store(bias.at(b, h, i, j), kHidden);
    });
    call.drop_masks();
    scored.clear();
  }
  static double score(double dot, float scale, float softcap, double bias) {
    scored.push_back(bias == kHidden);
    const double s = Recurrence::score(dot, scale, softcap, bias == kHidden ? 0 : bias);
    return s == kMinusInfinity ? -1e300 : s;  // so that `weight` meets every key of `scored`
  }
  static bool is_empty(double maximum) {  // called when a tile is scored
    hidden.swap(scored);
    scored.clear();
    next = 0;
    return maximum == kMinusInfinity;
  }
  static float weight(double score, double m) {
    if (is_masked(score)) return 0;  // by a bias of -inf, before its score was taken
    return hidden[next++] ? 0.0f : exponential(score - m);
  }
};

}  // namespace

Family maximum() {
  return {"maximum",
          {no_maximum_subtracted(),
           mutant<StartsAt<0>>("maximum_starts_at_zero", "The running maximum starts at 0.", "B05"),
           mutant<StartsAt<-50000>>("maximum_starts_at_minus_50000", "The running maximum starts at the finite value -5e4.", "B02"),
           mutant<Constant<10>>("maximum_constant_ten", "10 is subtracted in place of the maximum.", "B09"),
           mutant<OfFirstTile>("maximum_of_first_tile", "The maximum of the first tile is kept."),
           mutant<OfTile>("maximum_of_tile_alone", "A tile's own maximum becomes the reference, higher or lower.", "B04"),
           mutant<OfPreviousTile>("maximum_of_previous_tile", "A tile's weights use the maximum from before it.", "B06"),
           mutant<Minimum>("minimum_in_place_of_maximum", "The least score is subtracted."),
           mutant<OfMagnitudes>("maximum_of_magnitudes", "The maximum is over |score|."),
           mutant<BeforeNegativeScale>("maximum_before_negative_scale", "The maximum is taken before the scale, whatever its sign."),
           mutant<RoundedForWeights>("maximum_rounded_for_weights", "The weights use the maximum rounded to bf16, the rescale and LSE do not.", "C04 G01"),
           mutant<LaggingAndClamped>("lagging_maximum_clamps_weights", "The maximum may lag by 4 ln 2; weights above the format's largest are clamped, l sums them whole.", "B08"),
           mutant<OfMaskedKeysToo>("maximum_of_masked_keys_too", "Masked keys' scores join the maximum.", "B03")}};
}

}  // namespace attest::mutants
