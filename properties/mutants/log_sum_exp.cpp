// log_sum_exp.cpp: faults of LSE: its value, its base, its place.
#include "properties/mutants/fault.h"

namespace attest::mutants {

namespace {

double ln(double x) { return elementary::ln_of(x); }

struct WithoutMaximum : Fault {
  static double log_sum_exp(double, float l) { return ln(static_cast<double>(l)); }
};
struct MaximumAlone : Fault {
  static double log_sum_exp(double m, float) { return m; }
};
struct BaseTwo : Fault {
  static double log_sum_exp(double m, float l) { return Recurrence::log_sum_exp(m, l) * 1.4426950408889634; }
};
struct TimesLnTwo : Fault {
  static double log_sum_exp(double m, float l) { return Recurrence::log_sum_exp(m, l) * 0.6931471805599453; }
};
struct LogTwoOfL : Fault {
  static double log_sum_exp(double m, float l) { return l == 0 ? kMinusInfinity : m + std::log2(static_cast<double>(l)); }
};
struct MaximumInBaseTwo : Fault {
  static double log_sum_exp(double m, float l) { return l == 0 ? kMinusInfinity : m * 1.4426950408889634 + ln(static_cast<double>(l)); }
};
struct PlusInfinityForEmpty : Fault {
  static double log_sum_exp(double m, float l) { return l == 0 ? -kMinusInfinity : Recurrence::log_sum_exp(m, l); }
};
struct ZeroForEmpty : Fault {
  static double log_sum_exp(double m, float l) { return l == 0 ? 0 : Recurrence::log_sum_exp(m, l); }
};
struct LowestForEmpty : Fault {
  static double log_sum_exp(double m, float l) { return l == 0 ? -3.4028234663852886e38 : Recurrence::log_sum_exp(m, l); }
};
struct Negated : Fault {
  static double log_sum_exp(double m, float l) { return m - ln(static_cast<double>(l)); }
};
struct InBf16 : Fault {
  static double log_sum_exp(double m, float l) { return static_cast<double>(numbers::from_bf16(numbers::to_bf16(static_cast<float>(Recurrence::log_sum_exp(m, l))))); }
};
struct NotWritten : Fault {
  static void change(FaultyCall& call) { call.args.lse = nullptr; }
};
struct NotWrittenWithSplits : Fault {
  static void change(FaultyCall& call) {
    if (call.splits() > 1) call.args.lse = nullptr;
  }
};
struct FirstHeadOfGroupAlone : Fault {
  static void forward(const attest_args& args) {
    for_each_head(args, [&](FaultyCall& call, int64_t, int64_t h) {
      if (h % (args.q->shape[1] / args.k->shape[1]) != 0) call.args.lse = nullptr;
      correct(call.args);
    });
  }
};
// Rows and heads change places within the memory that LSE has.
struct Transposed : Fault {
  static void change(FaultyCall& call) {
    if (call.args.lse == nullptr) return;
    const View lse = view_of(call.lse);
    if (lse.stride[1] != call.rows() || lse.stride[2] != 1) return;
    call.lse.own_strides[1] = 1;
    call.lse.own_strides[2] = call.heads();
  }
};

}  // namespace

Family log_sum_exp() {
  return {"log_sum_exp",
          {mutant<WithoutMaximum>("lse_without_maximum", "LSE is ln l."),
           mutant<MaximumAlone>("lse_is_maximum", "LSE is m."),
           mutant<BaseTwo>("lse_in_base_two", "LSE is the logarithm to base 2.", "D05 D06 D07 D15"),
           mutant<TimesLnTwo>("lse_times_ln_two", "LSE is converted from base 2 though it is natural.", "D08"),
           mutant<LogTwoOfL>("lse_log2_of_l", "LSE is m + log2 l.", "D10"),
           mutant<MaximumInBaseTwo>("lse_maximum_in_base_two", "LSE is m log2 e + ln l.", "D07"),
           mutant<Negated>("lse_l_subtracted", "LSE is m - ln l."),
           mutant<PlusInfinityForEmpty>("lse_plus_infinity_for_empty_row", "LSE of an empty row is +inf.", "D01"),
           mutant<ZeroForEmpty>("lse_zero_for_empty_row", "LSE of an empty row is 0.", "E03"),
           mutant<LowestForEmpty>("lse_finite_for_empty_row", "LSE of an empty row is the lowest finite number.", "E03"),
           mutant<InBf16>("lse_in_bf16", "LSE is rounded to bf16."),
           mutant<NotWritten>("lse_not_written", "LSE is not written.", "D15 D16"),
           mutant<NotWrittenWithSplits>("lse_not_written_with_splits", "LSE is not written where the keys are split.", "E10"),
           mutant<FirstHeadOfGroupAlone>("lse_of_first_head_of_group_alone", "LSE is written for the first query head of each key head only.", "D13"),
           mutant<Transposed>("lse_transposed", "LSE is written as [B, Nq, Hq].", "D12 D16")}};
}

}  // namespace attest::mutants
