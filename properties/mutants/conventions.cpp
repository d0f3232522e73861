#include "properties/mutants/conventions.h"

#include <algorithm>
#include <string>
#include <utility>

#include "properties/mutants/fault.h"

namespace attest::mutants {

namespace {

struct Nothing : Fault {};

struct TopLeft : Fault {
  static KeyRange key_range(int64_t row, int64_t, int64_t length, bool causal, int64_t left, int64_t right) {
    return Recurrence::key_range(row, length, length, causal, left, right);  // as if the queries were as many as the keys
  }
};

struct EmptyRowNan : Fault {
  static double normalise(double o, float l) { return l == 0 ? std::nan("") : Recurrence::normalise(o, l); }
};
struct EmptyRowLsePlusInfinity : Fault {
  static double log_sum_exp(double m, float l) { return l == 0 ? -kMinusInfinity : Recurrence::log_sum_exp(m, l); }
};
struct MaskedValueTimesZero : Fault {
  static bool is_masked(double) { return false; }
  static float weight(double score, double m) { return Recurrence::weight(score, m); }
};
struct BatchDependent : Fault {
  static void change(FaultyCall& call) {
    if (call.batches() * call.heads() > 2) call.args.tile_keys = 2 * call.tile();
  }
};

// The states of a trace as they are where the sink is the first state of the only split.
void put_sink_first(const attest_args& args) {
  if (args.trace == nullptr || args.sink == nullptr) return;
  const float* sink = FaultyCall::element<float>(*args.sink);
  double m_old = 0;
  for (uint64_t n = 0; n < std::min(*args.trace->count, args.trace->capacity); ++n) {
    attest_trace_record& r = args.trace->records[n];
    const auto s = static_cast<double>(sink[r.h]);
    if (s == Recurrence::kMinusInfinity) continue;
    if (r.sequence == 0) m_old = s;
    const double m = std::max(static_cast<double>(r.m), s);
    r.l = static_cast<float>(static_cast<double>(r.l) * std::exp(static_cast<double>(r.m) - m) + std::exp(s - m));
    r.scale = static_cast<float>(std::exp(m_old - m));
    r.m = static_cast<float>(m);
    m_old = m;
  }
}
struct SinkFirst : Fault {
  static void forward(const attest_args& args) {
    correct(args);
    put_sink_first(args);
  }
};

template <int32_t kType>
struct WeightsIn : Fault {
  static float round_weight(float p, int32_t) { return HostSteps::round_weight(p, kType); }
  static void change(FaultyCall& call) {
    if (kType == ATTEST_F32) call.args.p_type = ATTEST_F32;
  }
};
struct WeightsTowardZero : Fault {
  static float round_weight(float p, int32_t type) {
    if (type == ATTEST_F32) return p;
    const float nearest = HostSteps::round_weight(p, type);
    if (nearest <= p) return nearest;
    return type == ATTEST_BF16 ? numbers::from_bf16(static_cast<uint16_t>(numbers::to_bf16(p) - 1)) : numbers::from_f16(static_cast<uint16_t>(numbers::to_f16(p) - 1));
  }
};
struct DenominatorFromUnrounded : Fault {};
struct DenominatorFromRounded : Fault {
  static float add_weight(float l, float, float rounded) { return l + rounded; }
};
// Sums of O have 24 bits and are cut; in their exponent they go as far as the host kernel's.
struct AccumulatorTruncates : Fault {
  template <class Sum>
  static void add_value(Sum* o, Sum p, const float* v, int64_t dv) {
    for (int64_t d = 0; d < dv; ++d) {
      const double sum = static_cast<double>(o[d]) + static_cast<double>(p) * static_cast<double>(v[d]);
      const double cut = elementary::double_of(elementary::bits_of(sum) & ~((uint64_t{1} << 29) - 1));
      o[d] = static_cast<Sum>(std::isnan(sum) ? sum : cut);
    }
  }
};
// exp is off by 2^-12, up or down.
struct CoarseExponential : Fault {
  static float weight(double score, double m) {
    const float p = Recurrence::weight(score, m);
    const bool up = (elementary::bits_of(score) * 0x9E3779B97F4A7C15u >> 63) != 0;
    return p < 1 ? p * (up ? 1 + 0x1p-12f : 1 - 0x1p-12f) : p;
  }
};
// The reference point stays until a tile is above it by more than 8 ln 2.
struct LazyRescale : Fault {
  static constexpr double kLag = 8 * 0.6931471805599453;
  static float exp_of(double x) { return x <= 0 ? exponential(x) : static_cast<float>(std::exp(x)); }
  static double new_maximum(double m, double tile_maximum) { return tile_maximum <= m + kLag ? m : Recurrence::maximum(m, tile_maximum); }
  static float weight(double score, double m) { return is_masked(score) ? 0.0f : exp_of(score - m); }
  static MergeFactors merge_factors(double m_a, double m_b, double m) {
    return {m_a == kMinusInfinity ? 0.0f : exp_of(m_a - m), m_b == kMinusInfinity ? 0.0f : exp_of(m_b - m)};
  }
};
struct TileOf64 : Fault {};

// All conventions at once, each where its bit is set: one kernel for every combination.
enum : unsigned { kTopLeft = 1, kEmptyNan = 2, kEmptyPlusInfinity = 4, kLeaks = 8, kBatchDependent = 16, kSinkFirst = 32, kCombinations = 64 };
struct Combined : Fault {
  static inline thread_local unsigned follows = 0;
  static bool is(unsigned convention) { return (follows & convention) != 0; }
  static KeyRange key_range(int64_t row, int64_t rows, int64_t length, bool causal, int64_t left, int64_t right) {
    return is(kTopLeft) ? TopLeft::key_range(row, rows, length, causal, left, right) : Recurrence::key_range(row, rows, length, causal, left, right);
  }
  static double normalise(double o, float l) { return is(kEmptyNan) ? EmptyRowNan::normalise(o, l) : Recurrence::normalise(o, l); }
  static double log_sum_exp(double m, float l) { return is(kEmptyPlusInfinity) ? EmptyRowLsePlusInfinity::log_sum_exp(m, l) : Recurrence::log_sum_exp(m, l); }
  static bool is_masked(double score) { return !is(kLeaks) && Recurrence::is_masked(score); }
  static float weight(double score, double m) { return Recurrence::weight(score, m); }
  static void change(FaultyCall& call) {
    if (is(kBatchDependent)) BatchDependent::change(call);
  }
};

template <unsigned kFollows>
attest_status combined_forward(const attest_args* args, void* stream, char* message, size_t size) {
  Combined::follows = kFollows;
  const attest_status status = mutant_forward<Combined>(args, stream, message, size);
  if (status == ATTEST_OK && Combined::is(kSinkFirst)) put_sink_first(*args);
  return status;
}
template <unsigned kFollows>
attest_status combined_merge(const attest_state* a, const attest_state* b, const attest_state* out, void* stream, char* message, size_t size) {
  Combined::follows = kFollows;
  return host::HostKernel<Combined>::merge(a, b, out, stream, message, size);
}

template <unsigned kFollows>
const attest_kernel* combined() {
  static const std::string name = "conventions_" + std::to_string(kFollows);
  static const attest_kernel table = [] {
    attest_kernel t = *host::host_kernel_table<Combined>("");
    t.name = name.c_str();
    t.forward = &combined_forward<kFollows>;
    t.merge = &combined_merge<kFollows>;
    t.conventions.causal_top_left = (kFollows & kTopLeft) != 0;
    t.conventions.empty_row_o_nan = (kFollows & kEmptyNan) != 0;
    t.conventions.empty_row_lse_inf = (kFollows & kEmptyPlusInfinity) != 0;
    t.conventions.nonfinite_v_leaks = (kFollows & kLeaks) != 0;
    t.conventions.batch_dependent = (kFollows & kBatchDependent) != 0;
    t.conventions.sink_first = (kFollows & kSinkFirst) != 0;
    if (t.conventions.sink_first) t.split_count = 0;
    return t;
  }();
  return &table;
}

template <class F, class Declare>
const attest_kernel* declared(const char* name, Declare declare) {
  attest_kernel& table = table_of<F>(name);
  declare(table);
  return &table;
}

}  // namespace

std::vector<const attest_kernel*> every_combination_of_conventions() {
  return []<unsigned... kFollows>(std::integer_sequence<unsigned, kFollows...>) {
    return std::vector<const attest_kernel*>{combined<kFollows>()...};
  }(std::make_integer_sequence<unsigned, kCombinations>{});
}

std::vector<const attest_kernel*> correct_kernels() {
  return {declared<Nothing>("contract", [](attest_kernel&) {}),
          declared<TopLeft>("causal_top_left", [](attest_kernel& t) { t.conventions.causal_top_left = 1; }),
          declared<EmptyRowNan>("empty_row_o_nan", [](attest_kernel& t) { t.conventions.empty_row_o_nan = 1; }),
          declared<EmptyRowLsePlusInfinity>("empty_row_lse_inf", [](attest_kernel& t) { t.conventions.empty_row_lse_inf = 1; }),
          declared<MaskedValueTimesZero>("nonfinite_v_leaks", [](attest_kernel& t) { t.conventions.nonfinite_v_leaks = 1; }),
          declared<BatchDependent>("batch_dependent", [](attest_kernel& t) { t.conventions.batch_dependent = 1; }),
          declared<SinkFirst>("sink_first",
                              [](attest_kernel& t) {
                                t.conventions.sink_first = 1;
                                t.split_count = 0;
                              }),
          declared<WeightsIn<ATTEST_F32>>("p_type_f32",
                                          [](attest_kernel& t) {
                                            t.numerics.p_type = ATTEST_F32;
                                            t.p_type_count = 0;
                                          }),
          declared<WeightsIn<ATTEST_F16>>("p_type_f16",
                                          [](attest_kernel& t) {
                                            t.numerics.p_type = ATTEST_F16;
                                            t.p_type_count = 0;
                                          }),
          declared<WeightsIn<ATTEST_BF16>>("p_type_bf16",
                                           [](attest_kernel& t) {
                                             t.numerics.p_type = ATTEST_BF16;
                                             t.p_type_count = 0;
                                           }),
          declared<WeightsTowardZero>("p_toward_zero", [](attest_kernel& t) { t.numerics.p_rounding = 2; }),
          declared<DenominatorFromUnrounded>("l_from_unrounded", [](attest_kernel& t) { t.numerics.l_from = 1; }),
          declared<DenominatorFromRounded>("l_from_rounded", [](attest_kernel& t) { t.numerics.l_from = 2; }),
          declared<AccumulatorTruncates>("accumulator_toward_zero", [](attest_kernel& t) { t.numerics.acc_rounding = 2; }),
          declared<CoarseExponential>("exp_rel_error", [](attest_kernel& t) { t.numerics.exp_rel_error = 0x1p-11f; }),
          declared<LazyRescale>("max_lag", [](attest_kernel& t) { t.numerics.max_lag = static_cast<float>(LazyRescale::kLag); }),
          declared<TileOf64>("tile_of_64", [](attest_kernel& t) {
            t.numerics.tile = 64;
            t.tile_count = 0;
          })};
}

}  // namespace attest::mutants
