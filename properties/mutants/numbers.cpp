// numbers.cpp: faults of number formats and of elementary functions.
#include "properties/mutants/fault.h"

#include <algorithm>

namespace attest::mutants {

namespace {

float to_bf16(float x) { return numbers::from_bf16(numbers::to_bf16(x)); }
float to_f16(float x) { return numbers::from_f16(numbers::to_f16(x)); }

// --- P ---------------------------------------------------------------------------------------------------------

struct WeightsTowardZero : Fault {
  static float round_weight(float p, int32_t type) {
    if (type == ATTEST_F32) return p;
    const float nearest = HostSteps::round_weight(p, type);
    if (nearest <= p) return nearest;
    return type == ATTEST_BF16 ? numbers::from_bf16(static_cast<uint16_t>(numbers::to_bf16(p) - 1)) : numbers::from_f16(static_cast<uint16_t>(numbers::to_f16(p) - 1));
  }
};
struct WeightsInBf16 : Fault {
  static float round_weight(float p, int32_t) { return to_bf16(p); }
};
struct WeightsIn16BitsForF32 : Fault {
  static float round_weight(float p, int32_t type) { return HostSteps::round_weight(p, type == ATTEST_F32 ? ATTEST_F16 : type); }
};
// e4m3: 3 bits behind the point, nothing below 2^-10.
struct WeightsInE4m3 : Fault {
  static float round_weight(float p, int32_t) {
    if (p < 0x1p-10f) return 0;
    int exponent;
    const double m = std::frexp(static_cast<double>(p), &exponent);
    return static_cast<float>(std::ldexp(std::nearbyint(std::ldexp(m, 4)), exponent - 4));
  }
};
struct WeightsFlushed : Fault {
  static float round_weight(float p, int32_t type) { return p < 0x1p-14f ? 0.0f : HostSteps::round_weight(p, type); }
};
// The weights are normalised before they are rounded to the type, with the l of the tile so far.
struct WeightsRoundedTwice : Fault {
  static float round_weight(float p, int32_t type) {
    const float once = HostSteps::round_weight(p, type);
    return HostSteps::round_weight(once * 0.7f, type) / 0.7f;
  }
};

// --- sums ------------------------------------------------------------------------------------------------------

struct DenominatorFromRounded : Fault {
  static float add_weight(float l, float, float rounded) { return l + rounded; }
};
struct DenominatorInF16 : Fault {
  static float add_weight(float l, float p, float) { return to_f16(l + p); }
};
struct DenominatorInBf16 : Fault {
  static float add_weight(float l, float p, float) { return to_bf16(l + p); }
};
struct DenominatorSaturates : Fault {
  static float add_weight(float l, float p, float) { return std::min(l + p, 64.0f); }
};
template <bool kF16>
struct AccumulatorIn16Bits : Fault {
  template <class Sum>
  static void add_value(Sum* o, Sum p, const float* v, int64_t dv) {
    HostSteps::add_value(o, p, v, dv);
    for (int64_t d = 0; d < dv; ++d) o[d] = static_cast<Sum>(kF16 ? to_f16(static_cast<float>(o[d])) : to_bf16(static_cast<float>(o[d])));
  }
};
// What a tile adds is in 16 bits: products of P and V.
struct ProductsInF16 : Fault {
  template <class Sum>
  static void add_value(Sum* o, Sum p, const float* v, int64_t dv) {
    for (int64_t d = 0; d < dv; ++d) o[d] += static_cast<Sum>(to_f16(static_cast<float>(p) * v[d]));
  }
};

// --- scores ----------------------------------------------------------------------------------------------------

struct ScoresInF16 : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    return static_cast<double>(to_f16(static_cast<float>(Recurrence::score(dot, scale, softcap, bias))));
  }
};
struct ScoresInBf16 : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    return static_cast<double>(to_bf16(static_cast<float>(Recurrence::score(dot, scale, softcap, bias))));
  }
};
struct ProductsOverflowF16 : Fault {
  static double score(double dot, float scale, float softcap, double bias) {
    return Recurrence::score(static_cast<double>(to_f16(static_cast<float>(dot))), scale, softcap, bias);
  }
};
struct QueryScaledInItsType : Fault {
  static void change(FaultyCall& call) {
    const double scale = static_cast<double>(call.args.scale);
    call.map(call.q, [&](double x) { return x * scale; });
    call.args.scale = 1;
  }
};
// exp2 of fma(s, c, -round(m c)) with c = log2 e in f32: the residue of the rounding is not in the rescale.
struct MaximumRoundedInBaseTwo : Fault {
  static float weight(double score, double m) {
    if (is_masked(score)) return 0;
    const double c = 1.4426950408889634;
    return static_cast<float>(std::exp2(static_cast<double>(static_cast<float>(score * c - static_cast<double>(static_cast<float>(m * c) * (1 + 0x1p-12f))))));
  }
};

// --- exponentials ----------------------------------------------------------------------------------------------

struct ExpFlushedEarly : Fault {
  static float weight(double score, double m) { return is_masked(score) || score - m < -16 ? 0.0f : exponential(score - m); }
};
struct ExpFloor : Fault {
  static float weight(double score, double m) { return std::max(Recurrence::weight(score, m), 0x1p-14f); }
};
struct ExpFloorMaskedToo : Fault {
  static bool is_masked(double) { return false; }
  static float weight(double score, double m) { return std::max(Recurrence::weight(score, m), 0x1p-14f); }
};
template <int kBits>
struct ExpBiased : Fault {
  static float weight(double score, double m) {
    const float p = Recurrence::weight(score, m);
    return p < 1 ? p * (1 + std::ldexp(1.0f, -kBits)) : p;
  }
};
struct ExpNoisy : Fault {
  static float weight(double score, double m) {
    const float p = Recurrence::weight(score, m);
    const bool up = (elementary::bits_of(score) * 0x9E3779B97F4A7C15u >> 63) != 0;
    return p < 1 ? p * (up ? 1 + 0x1p-11f : 1 - 0x1p-11f) : p;
  }
};
struct LogTwoEInF16 : Fault {
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : exponential((score - m) * static_cast<double>(to_f16(1.4426950408889634f)) / 1.4426950408889634); }
};
struct ExpPolynomialWraps : Fault {
  static float weight(double score, double m) {
    if (is_masked(score)) return 0;
    const double x = (score - m) * 1.4426950408889634;
    return static_cast<float>(x < -126 ? std::exp2(x + 256) : std::exp2(x));
  }
};

// --- inputs ----------------------------------------------------------------------------------------------------

float to_tf32(float x) { return numbers::float_of(numbers::bits_of(x) & 0xFFFFE000u); }

struct InputsInTf32 : Fault {
  static void change(FaultyCall& call) {
    if (call.q.dtype.bits != 32) return;
    for (Descriptor* t : {&call.q, &call.k}) call.map(*t, [](double x) { return static_cast<double>(to_tf32(static_cast<float>(x))); });
  }
};
struct ValuesInBf16 : Fault {
  static void change(FaultyCall& call) {
    call.map(call.v, [](double x) { return static_cast<double>(to_bf16(static_cast<float>(x))); });
  }
};
struct SubnormalInputsFlushed : Fault {
  static void change(FaultyCall& call) {
    const double least = call.q.dtype.code == kDLFloat && call.q.dtype.bits == 16 ? 0x1p-14 : 0x1p-126;
    for (Descriptor* t : {&call.q, &call.k, &call.v}) call.map(*t, [&](double x) { return std::fabs(x) < least ? 0 : x; });
  }
};
struct InputsClampedTo65504 : Fault {
  static void change(FaultyCall& call) {
    for (Descriptor* t : {&call.q, &call.k, &call.v}) call.map(*t, [&](double x) { return x == x ? std::clamp(x, -65504.0, 65504.0) : x; });
  }
};

}  // namespace

Family numbers() {
  return {"numbers",
          {mutant<WeightsTowardZero>("weights_toward_zero", "P is cut to its type, not rounded."),
           mutant<WeightsInBf16>("weights_in_bf16", "P is rounded to bf16 whatever the input type."),
           mutant<WeightsIn16BitsForF32>("weights_in_f16_for_f32", "P is rounded to f16 for inputs in f32."),
           mutant<WeightsInE4m3>("weights_in_e4m3", "P is rounded to e4m3 before P V, l sums it whole.", "C01 C02"),
           mutant<WeightsFlushed>("weights_flushed_below_2_14", "P below 2^-14 is 0 in P V, l sums it."),
           mutant<WeightsRoundedTwice>("weights_rounded_twice", "P is rounded to its type twice, at two scales."),
           mutant<DenominatorFromRounded>("denominator_from_rounded_weights", "l sums P after its rounding.", "",
                                          "The contract leaves it free whether l sums P before or after the rounding; the bound and the budget hold for both."),
           mutant<DenominatorInF16>("denominator_in_f16", "l is summed in f16 within a tile.", "H07"),
           mutant<DenominatorInBf16>("denominator_in_bf16", "l is summed in bf16 within a tile."),
           mutant<DenominatorSaturates>("denominator_of_tile_saturates", "What one tile adds to l is at most 64."),
           mutant<AccumulatorIn16Bits<true>>("accumulator_in_f16", "O is summed in f16.", "H07"),
           mutant<AccumulatorIn16Bits<false>>("accumulator_in_bf16", "O is summed in bf16."),
           mutant<ProductsInF16>("value_products_in_f16", "Products of P and V are rounded to f16."),
           mutant<ScoresInF16>("scores_in_f16", "Scores are rounded to f16.", "H04 H09"),
           mutant<ScoresInBf16>("scores_in_bf16", "Scores are rounded to bf16."),
           mutant<ProductsOverflowF16>("dot_products_in_f16", "Dot products are rounded to f16 before the scale.", "H03 H05"),
           mutant<QueryScaledInItsType>("query_scaled_in_its_type", "Q times scale is rounded to the input type."),
           mutant<MaximumRoundedInBaseTwo>("maximum_rounded_in_base_two", "The weights use m log2 e with an error of 2^-12, the rescale does not.", "C04 G01"),
           mutant<ExpFlushedEarly>("exp_flushed_below_minus_16", "exp(x) is 0 below -16."),
           mutant<ExpFloor>("exp_floor", "exp(x) is at least 2^-14.", "C09"),
           mutant<ExpFloorMaskedToo>("exp_floor_masked_too", "exp(x) is at least 2^-14, for masked keys too.", "C09"),
           mutant<ExpBiased<23>>("exp_biased_by_2_23", "exp(x) is 2^-23 too large but for x = 0.", "",
                                 "The model lets exp err by 2^-22 relative at its argument, and this one errs by 2^-23 and a rounding: a kernel within it."),
           mutant<ExpBiased<12>>("exp_biased_by_2_12", "exp(x) is 2^-12 too large but for x = 0."),
           mutant<ExpNoisy>("exp_of_eleven_bits", "exp(x) errs by 2^-11, up or down."),
           mutant<LogTwoEInF16>("log2e_in_f16", "log2 e is rounded to f16."),
           mutant<ExpPolynomialWraps>("exp2_wraps_below_minus_126", "exp2 wraps its exponent below -126.", "C11"),
           mutant<InputsInTf32>("inputs_in_tf32", "Q and K in f32 are cut to tf32."),
           mutant<ValuesInBf16>("values_in_bf16", "V is rounded to bf16."),
           mutant<SubnormalInputsFlushed>("subnormal_inputs_flushed", "Subnormal inputs are read as 0."),
           mutant<InputsClampedTo65504>("inputs_clamped_to_65504", "Inputs are clamped to the range of f16.")}};
}

}  // namespace attest::mutants
