// output.cpp: faults of the division by l and of the stores of O.
#include "properties/mutants/broken_ten.h"

namespace attest::mutants {

namespace {

struct NotDivided : Fault {
  static double normalise(double o, float) { return o; }
};
struct NotDividedWithSplits : Fault {
  static double normalise(double o, float l) { return call().splits() > 1 ? o : Recurrence::normalise(o, l); }
};
struct PlusEpsilon : Fault {
  static double normalise(double o, float l) { return o / (static_cast<double>(l) + 1e-6); }
};
struct PlusLargeEpsilon : Fault {
  static double normalise(double o, float l) { return o / (static_cast<double>(l) + 1e-3); }
};
struct ClampedAtOne : Fault {
  static double normalise(double o, float l) { return o / static_cast<double>(l < 1 ? 1 : l); }
};
struct ClampedAtTiny : Fault {
  static double normalise(double o, float l) { return o / static_cast<double>(l < 1e-6f ? 1e-6f : l); }
};
struct ClampedFromAbove : Fault {
  static double normalise(double o, float l) { return Recurrence::normalise(o, std::min(l, 256.0f)); }
};
struct ReciprocalInF16 : Fault {
  static double normalise(double o, float l) { return l == 0 ? 0 : o * static_cast<double>(numbers::from_f16(numbers::to_f16(1 / l))); }
};
struct ReciprocalOfTwelveBits : Fault {
  static double normalise(double o, float l) { return l == 0 ? 0 : o * static_cast<double>(numbers::float_of(numbers::bits_of(1 / l) & 0xFFFFF000u)); }
};
struct Truncated : Fault {
  static double within_type(double quotient, bool finite_sums, double largest) {
    const double o = Recurrence::within_type(quotient, finite_sums, largest);
    if (!(std::fabs(o) < largest) || o == 0) return o;
    const int bits = call().q.dtype.bits == 32 ? 24 : call().q.dtype.code == kDLBfloat ? 8 : 11;
    int exponent;
    std::frexp(o, &exponent);
    exponent = std::max(exponent - bits, bits == 11 ? -24 : -133);
    return std::ldexp(std::trunc(std::ldexp(o, -exponent)), exponent);
  }
};
// O is divided by exp(LSE - m) with LSE = m + ln l rounded to f32 first.
struct DividedByRoundedLse : Fault {
  static inline thread_local double last_m = 0;
  static double new_maximum(double m, double tile_maximum) { return last_m = Recurrence::new_maximum(m, tile_maximum); }
  static double normalise(double o, float l) {
    return l == 0 ? 0 : o / std::exp(static_cast<double>(static_cast<float>(Recurrence::log_sum_exp(last_m, l))) - last_m);
  }
};
struct ThroughBf16 : Fault {
  static double within_type(double quotient, bool finite_sums, double largest) {
    return static_cast<double>(numbers::from_bf16(numbers::to_bf16(static_cast<float>(Recurrence::within_type(quotient, finite_sums, largest)))));
  }
};
// A sum that has left the type stays there, though O is within.
struct SumsOverflow : Fault {
  static double normalise(double o, float l) {
    const double largest = call().q.dtype.bits == 16 && call().q.dtype.code == kDLFloat ? 65504 : 3.4e38;
    return std::fabs(o) > largest ? std::copysign(-kMinusInfinity, o) : Recurrence::normalise(o, l);
  }
};
struct EmptyRowIsNan : Fault {
  static double normalise(double o, float l) { return l == 0 ? std::nan("") : Recurrence::normalise(o, l); }
};

}  // namespace

Family output() {
  return {"output",
          {mutant<NotDivided>("output_not_divided", "O is not divided by l."),
           mutant<NotDividedWithSplits>("output_not_divided_with_splits", "O is not divided by l where the keys are split."),
           mutant<PlusEpsilon>("denominator_plus_1e_6", "O is divided by l + 1e-6."),
           mutant<PlusLargeEpsilon>("denominator_plus_1e_3", "O is divided by l + 1e-3."),
           mutant<ClampedAtOne>("denominator_at_least_one", "O is divided by max(l, 1).", "",
                                "A key of the running maximum adds exp(0) = 1 to l and every other key a number that is not negative; a rescale "
                                "multiplies by a factor that is 1 or comes with a new key of weight 1. So l >= 1 in every row that sees a key, "
                                "sums in f32 included, as adding to 1 what is not negative does not round below 1. With a sink the sink is such "
                                "a key. In a row that sees none O and l are 0: 0 / 1 is the 0 that is due, and LSE takes l itself."),
           mutant<ClampedAtTiny>("denominator_at_least_1e_6", "O is divided by max(l, 1e-6).", "",
                                 "As for max(l, 1): l is 0, where O is 0 too, or at least 1."),
           mutant<ClampedFromAbove>("denominator_at_most_256", "O is divided by min(l, 256)."),
           mutant<ReciprocalInF16>("reciprocal_in_f16", "O is multiplied by 1/l in f16.", "H07"),
           mutant<ReciprocalOfTwelveBits>("reciprocal_of_twelve_bits", "O is multiplied by 1/l cut to 12 bits."),
           mutant<DividedByRoundedLse>("divided_by_rounded_lse", "O is divided by exp(LSE - m), LSE rounded to f32.", "H08"),
           mutant<Truncated>("output_truncated", "O is cut to its type, not rounded."),
           mutant<ThroughBf16>("output_through_bf16", "O is rounded to bf16 whatever its type."),
           mutant<SumsOverflow>("output_sums_overflow", "sum P v is kept in the input type until it is divided.", "H07"),
           mutant<EmptyRowIsNan>("empty_row_is_nan", "An empty row's O is NaN.", "A08")}};
}

}  // namespace attest::mutants
