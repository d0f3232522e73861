// rescale.cpp: faults of the factor that brings l and O to a risen maximum.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

float exp_of(double x) { return static_cast<float>(std::exp(x)); }

// Of both l and O.
template <class F>
struct BothRescaled : Fault {
  static float rescale_l(double m_old, double m_new) { return m_old == kMinusInfinity ? 0.0f : F::factor(m_old, m_new); }
  static float rescale_o(double m_old, double m_new) { return m_old == kMinusInfinity ? 0.0f : F::factor(m_old, m_new); }
};

struct Inverted : BothRescaled<Inverted> {
  static float factor(double m_old, double m_new) { return exp_of(m_new - m_old); }
};
struct Twice : BothRescaled<Twice> {
  static float factor(double m_old, double m_new) { return rescale(m_old, m_new) * rescale(m_old, m_new); }
};
struct BaseTwo : BothRescaled<BaseTwo> {
  static float factor(double m_old, double m_new) { return static_cast<float>(std::exp2(m_old - m_new)); }
};
struct LogTwoETwice : BothRescaled<LogTwoETwice> {
  static float factor(double m_old, double m_new) { return exp_of((m_old - m_new) * 1.4426950408889634); }
};
// The threshold of lazy rescaling, log2(256), without keeping the old reference point.
struct SmallRiseSkipped : BothRescaled<SmallRiseSkipped> {
  static float factor(double m_old, double m_new) { return m_new - m_old <= 8 * 0.6931471805599453 ? 1.0f : rescale(m_old, m_new); }
};
struct LargeRiseSkipped : BothRescaled<LargeRiseSkipped> {
  static float factor(double m_old, double m_new) { return m_new - m_old > 16 ? 1.0f : rescale(m_old, m_new); }
};
struct FactorInF16 : BothRescaled<FactorInF16> {
  static float factor(double m_old, double m_new) { return numbers::from_f16(numbers::to_f16(rescale(m_old, m_new))); }
};
struct SmallRiseIgnored : BothRescaled<SmallRiseIgnored> {
  static float factor(double m_old, double m_new) { return m_new - m_old < 0x1p-10 ? 1.0f : rescale(m_old, m_new); }
};

struct OFactorInBf16 : Fault {
  static float rescale_o(double m_old, double m_new) { return numbers::from_bf16(numbers::to_bf16(rescale(m_old, m_new))); }
};

struct OneTileLate : Fault {
  static inline thread_local float previous = 1;
  static float rescale_l(double m_old, double m_new) {
    if (m_old == kMinusInfinity) {
      previous = 1;
      return 0;
    }
    return late = std::exchange(previous, rescale(m_old, m_new));
  }
  static float rescale_o(double m_old, double) { return m_old == kMinusInfinity ? 0.0f : late; }
  static inline thread_local float late = 1;
};

struct OOneTileLate : OneTileLate {
  static float rescale_l(double m_old, double m_new) {
    OneTileLate::rescale_l(m_old, m_new);
    return rescale(m_old, m_new);
  }
};

// exp(m_old - m_new) where both are -inf.
struct EmptyTileUnguarded : Fault {
  static bool is_empty(double) { return false; }
  static float rescale_l(double m_old, double m_new) { return exp_of(m_old - m_new); }
  static float rescale_o(double m_old, double m_new) { return exp_of(m_old - m_new); }
};

struct FirstKeysDropped : Fault {
  static float rescale_l(double m_old, double m_new) { return m_old < m_new ? 0.0f : 1.0f; }
  static float rescale_o(double m_old, double m_new) { return m_old < m_new ? 0.0f : 1.0f; }
};

}  // namespace

Family rescale() {
  return {"rescale",
          {no_rescale(), only_l_rescaled(), only_o_rescaled(), tile_maximum_without_rescale(), tiles_normalised_and_averaged(),
           mutant<Inverted>("rescale_inverted", "The factor is exp(m_new - m_old)."),
           mutant<Twice>("rescale_applied_twice", "The factor is applied twice."),
           mutant<BaseTwo>("rescale_base_two", "The factor is 2^(m_old - m_new), without log2 e.", "G12"),
           mutant<LogTwoETwice>("rescale_log2e_twice", "The factor's exponent is multiplied by log2 e twice.", "G12"),
           mutant<SmallRiseSkipped>("rescale_skipped_for_small_rise", "Rises of the maximum up to 8 ln 2 are not rescaled, yet the weights use the new maximum.", "B06"),
           mutant<LargeRiseSkipped>("rescale_skipped_for_large_rise", "Rises of the maximum beyond 16 are not rescaled."),
           mutant<SmallRiseIgnored>("rescale_skipped_below_threshold", "Rises of the maximum below 2^-10 are not rescaled."),
           mutant<FactorInF16>("rescale_factor_in_f16", "The factor is rounded to f16."),
           mutant<OFactorInBf16>("rescale_factor_of_o_in_bf16", "The factor of O is rounded to bf16, that of l is not."),
           mutant<OneTileLate>("rescale_one_tile_late", "l and O are rescaled by the factor of the tile before."),
           mutant<OOneTileLate>("rescale_of_o_one_tile_late", "O is rescaled by the factor of the tile before, l is right."),
           mutant<FirstKeysDropped>("rescale_clears_state", "Where the maximum rises, what was summed is dropped."),
           mutant<EmptyTileUnguarded>("empty_tile_unguarded", "A tile without visible key gives exp(-inf - -inf).", "A01 A04 A06 A07 A10 A13")}};
}

}  // namespace attest::mutants
