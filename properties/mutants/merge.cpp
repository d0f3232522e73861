// merge.cpp: faults of the merge of partial states, of splits and of the sink.
#include "properties/mutants/fault.h"

namespace attest::mutants {

namespace {

struct Unweighted : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double) { return {m_a == kMinusInfinity ? 0.0f : 1.0f, m_b == kMinusInfinity ? 0.0f : 1.0f}; }
};
struct Swapped : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {rescale(m_b, m), rescale(m_a, m)}; }
};
struct BaseTwo : Fault {
  static float power(double x) { return x == kMinusInfinity ? 0.0f : static_cast<float>(std::exp2(x)); }
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {power(m_a - m), power(m_b - m)}; }
};
struct LogTwoETwice : Fault {
  static float power(double m_old, double m) { return rescale(m_old * 1.4426950408889634, m * 1.4426950408889634); }
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {power(m_a, m), power(m_b, m)}; }
};
// Neither the state without keys is left out nor exp(-inf - -inf) guarded.
struct EmptyUnguarded : Fault {
  static bool is_empty(double) { return false; }
  static float power(double x) { return static_cast<float>(std::exp(x)); }
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {power(m_a - m), power(m_b - m)}; }
};
// LSE of the states is stored where the caller's is.
struct UnweightedWithoutLse : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double m) {
    if (call().args.q == nullptr || call().args.lse != nullptr) return HostSteps::merge_factors(m_a, m_b, m);
    return Unweighted::merge_factors(m_a, m_b, m);
  }
};
struct SecondDropped : Fault {
  static MergeFactors merge_factors(double m_a, double, double m) {
    if (m_a == kMinusInfinity) return {0, 1};
    return {rescale(m_a, m), 0};
  }
};
struct LargerAlone : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double) { return {m_a >= m_b ? 1.0f : 0.0f, m_a >= m_b ? 0.0f : 1.0f}; }
};
struct SecondTwice : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {rescale(m_a, m), 2 * rescale(m_b, m)}; }
};
struct FirstNotRescaled : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {m_a == kMinusInfinity ? 0.0f : 1.0f, rescale(m_b, m)}; }
};
struct FactorsInBf16 : Fault {
  static float cut(float x) { return numbers::from_bf16(numbers::to_bf16(x)); }
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {cut(rescale(m_a, m)), cut(rescale(m_b, m))}; }
};
struct SecondFactorInF16 : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double m) { return {rescale(m_a, m), numbers::from_f16(numbers::to_f16(rescale(m_b, m)))}; }
};
// States meet at a reference that starts at 0.
struct ReferenceAtLeastZero : Fault {
  static MergeFactors merge_factors(double m_a, double m_b, double m) {
    const double reference = std::max(m, 0.0);
    return {rescale(m_a, reference), rescale(m_b, reference)};
  }
};

}  // namespace

Family merge() {
  return {"merge",
          {mutant<Unweighted>("merge_without_weights", "States are added without being brought to one maximum.", "E05"),
           mutant<Swapped>("merge_weights_swapped", "Each state has the other's factor."),
           mutant<BaseTwo>("merge_base_two", "The factors are powers of 2 of natural logarithms.", "D03 D04 E18"),
           mutant<LogTwoETwice>("merge_log2e_twice", "The factors are taken in base e of logarithms to base 2.", "D03"),
           mutant<EmptyUnguarded>("merge_empty_state_unguarded", "A state without keys gives exp(-inf - -inf).", "A12 E01 E02 E12"),
           mutant<UnweightedWithoutLse>("merge_without_weights_or_lse", "States are added as they are where no LSE is asked for.", "E10"),
           mutant<SecondDropped>("merge_drops_second_state", "The second state counts only where the first is empty.", "E06"),
           mutant<LargerAlone>("merge_keeps_larger_state", "Only the state of the larger maximum counts."),
           mutant<SecondTwice>("merge_counts_second_twice", "The second state counts twice."),
           mutant<FirstNotRescaled>("merge_first_state_not_rescaled", "The first state keeps its own maximum."),
           mutant<FactorsInBf16>("merge_factors_in_bf16", "Both factors are rounded to bf16.", "E14"),
           mutant<SecondFactorInF16>("merge_second_factor_in_f16", "The second state's factor is rounded to f16.", "E14"),
           mutant<ReferenceAtLeastZero>("merge_reference_at_least_zero", "The common maximum of two states is not below 0.")}};
}

}  // namespace attest::mutants
