// The primitives that kernels compute with, over all their inputs, against the exact value: errors, monotonicity, special
// values.
//
//   primitives [--all] [--device host|cuda] [--threads T] [--against FILE]
//
// Without --all one input in 3000 and every power of two with its neighbours are taken. The table goes to docs/results/. Exit 1
// where an error exceeds what the model of reference/bound.md or the primitive's own header allows, a special value or a
// conversion is wrong, or, with --against, where an error exceeds the one that FILE records: FILE holds the maxima over all
// inputs, which no sample exceeds.
//
// Exact values: of conversions in double, where they are exact; of functions by the library function in double, within 2^-51
// (glibc manual, "Errors in Math Functions"), where the error measured is above 2^-36 and no tie within 2^-20 of a unit in the
// last place; else by the one in long double, within 2^-61. Where that leaves open which way a value rounds (2^-36 of a unit),
// cpp_dec_float decides.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <boost/multiprecision/cpp_dec_float.hpp>
#include <cfloat>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "bench/primitives/evaluate.h"
#include "reference/numerics.h"

using namespace attest;
using namespace attest::primitives;

namespace {

static_assert(LDBL_MANT_DIG >= 64, "the reference needs a long double of 64 bits");
using Real = long double;
using Decimal = boost::multiprecision::cpp_dec_float_50;

enum class Inputs { any, not_positive, not_negative, bits_16 };

struct Primitive {
  Function function;
  const char* name;
  Inputs inputs;
  std::optional<DType> result;     // none: a double, measured in units of f32 all the same
  Real (*exact)(uint32_t bits);
  Decimal (*decimal)(double x);    // null: `exact` is exact
  double (*quick)(double x);       // `exact` within 2^-51, or exactly where that is exact, of the input as a double; null: none
  int slope;                       // +1 rises, -1 falls
  double relative, ulps;           // most that the error may be, either is enough; 0: not by this measure
  const char* allowed_by;
  bool device_only = false;
  double flush_below = 0;          // results below may be 0
};

Real value(uint32_t bits) { return numbers::float_of(bits); }
template <DType type>
Real value_16(uint32_t bits) {  // by the definition of the format
  const int fraction_bits = significand_bits(type) - 1, exponent_bits = 15 - fraction_bits;
  const int exponent = static_cast<int>(bits >> fraction_bits & ((1u << exponent_bits) - 1)), fraction = static_cast<int>(bits & ((1u << fraction_bits) - 1));
  const Real sign = bits & 0x8000 ? -1 : 1;
  if (exponent == (1 << exponent_bits) - 1) return fraction == 0 ? sign * INFINITY : NAN;
  const int whole = exponent == 0 ? fraction : fraction + (1 << fraction_bits);
  return sign * ldexpl(whole, min_subnormal_exponent(type) + std::max(exponent, 1) - 1);
}
Real exp_of(uint32_t bits) { return expl(value(bits)); }
Real exp2_of(uint32_t bits) { return exp2l(value(bits)); }
Real ln_of(uint32_t bits) { return logl(value(bits)); }
Real log2_of(uint32_t bits) { return log2l(value(bits)); }
Real tanh_of(uint32_t bits) { return tanhl(value(bits)); }
Real inverse_of(uint32_t bits) { return bits << 1 == 0 ? 0 : 1 / value(bits); }  // by the contract a row without weight is 0
Real inverse_plain(uint32_t bits) { return (bits & 0x7F800000u) == 0 ? copysignl(INFINITY, value(bits)) : 1 / value(bits); }  // subnormals flushed
Real above(uint32_t bits) { return beside(static_cast<double>(value(bits)), 1); }
Real below(uint32_t bits) { return beside(static_cast<double>(value(bits)), -1); }
double itself(double x) { return x; }
double inverse_quick(double x) { return 1 / x; }
double above_quick(double x) { return beside(x, 1); }
double below_quick(double x) { return beside(x, -1); }
double exp_quick(double x) { return std::exp(x); }
double exp2_quick(double x) { return std::exp2(x); }
double log2_quick(double x) { return std::log2(x); }
double tanh_quick(double x) { return std::tanh(x); }
Decimal exp_decimal(double x) { return exp(Decimal(x)); }
Decimal exp2_decimal(double x) { return exp(Decimal(x) * log(Decimal(2))); }
Decimal ln_decimal(double x) { return log(Decimal(x)); }
Decimal log2_decimal(double x) { return log(Decimal(x)) / log(Decimal(2)); }
Decimal tanh_decimal(double x) { return tanh(Decimal(x)); }
Decimal inverse_decimal(double x) { return 1 / Decimal(x); }

const double kExp = strict(DType::f32).exp_rel_error;
constexpr const char* kModel = "strict model";
constexpr const char* kHeader = "kernel/elementary.h";

std::vector<Primitive> all_primitives() {
  using enum Inputs;
  const auto f32 = DType::f32, f16 = DType::f16, bf16 = DType::bf16;
  return {
      {Function::exp_double, "e^x in double", not_positive, {}, exp_of, exp_decimal, exp_quick, 1, 0x1p-35, 0, kHeader, false, 0x1p-126},
      {Function::exp_f32, "e^x in f32", not_positive, f32, exp_of, exp_decimal, exp_quick, 1, kExp, 0, kModel, false, 0x1p-126},
      {Function::ln, "ln x in double", not_negative, {}, ln_of, ln_decimal, nullptr, 1, 0x1p-50, 0, kHeader},
      {Function::tanh, "tanh x in double", Inputs::any, {}, tanh_of, tanh_decimal, tanh_quick, 1, 0x1p-34, 0, kHeader},
      {Function::reciprocal, "1 / l in f32", not_negative, f32, inverse_of, inverse_decimal, inverse_quick, -1, 0, kDivisionUlps, kModel},
      {Function::from_f16, "f16 to f32", bits_16, f32, value_16<DType::f16>, nullptr, nullptr, 1, 0, 0.5, "one rounding"},
      {Function::from_bf16, "bf16 to f32", bits_16, f32, value_16<DType::bf16>, nullptr, nullptr, 1, 0, 0.5, "one rounding"},
      {Function::to_f16, "f32 to f16", Inputs::any, f16, value, nullptr, itself, 1, 0, 0.5, "one rounding"},
      {Function::to_bf16, "f32 to bf16", Inputs::any, bf16, value, nullptr, itself, 1, 0, 0.5, "one rounding"},
      {Function::to_f16_above, "double above an f32 to f16", Inputs::any, f16, above, nullptr, above_quick, 1, 0, 0.5, "one rounding"},
      {Function::to_bf16_above, "double above an f32 to bf16", Inputs::any, bf16, above, nullptr, above_quick, 1, 0, 0.5, "one rounding"},
      {Function::to_f16_below, "double below an f32 to f16", Inputs::any, f16, below, nullptr, below_quick, 1, 0, 0.5, "one rounding"},
      {Function::to_bf16_below, "double below an f32 to bf16", Inputs::any, bf16, below, nullptr, below_quick, 1, 0, 0.5, "one rounding"},
      {Function::ex2_approx, "ex2.approx.ftz.f32", not_positive, f32, exp2_of, exp2_decimal, exp2_quick, 1, kExp, 0, kModel, true, 0x1p-126},
      {Function::rcp_approx, "rcp.approx.ftz.f32", not_negative, f32, inverse_plain, inverse_decimal, inverse_quick, -1, 0, 1, "PTX ISA", true, 0x1p-126},
      {Function::log2_device, "log2f", not_negative, f32, log2_of, log2_decimal, log2_quick, 1, kLnError, 0, kModel, true},
      {Function::cvt_f16, "cvt.rn.f16.f32", Inputs::any, f16, value, nullptr, itself, 1, 0, 0.5, "one rounding", true},
      {Function::cvt_bf16, "cvt.rn.bf16.f32", Inputs::any, bf16, value, nullptr, itself, 1, 0, 0.5, "one rounding", true},
  };
}

double power_of_two(int exponent) { return elementary::double_of(static_cast<uint64_t>(exponent + 1023) << 52); }

// The unit in the last place of `type` at a number of this size, no subnormal double.
double unit_at(DType type, double size) {
  const int binade = static_cast<int>(elementary::bits_of(size) >> 52) - 1023;
  return power_of_two(std::max(binade, min_normal_exponent(type)) - (significand_bits(type) - 1));
}

// The same where y is a normal double and exact: quicker.
double rounded_double(DType type, double y) {
  const double unit = unit_at(type, std::fabs(y)), result = std::nearbyint(y / unit) * unit;
  return std::fabs(result) > largest_finite(type) ? std::copysign(INFINITY, y) : result;
}

// What a relative error is relative to: ln is held to max(1, |ln x|), others to their own size.
template <class Number>
Number measured_against(const Primitive& p, Number size) {
  const bool logarithm = p.function == Function::ln || p.function == Function::log2_device;
  return logarithm ? std::max(size, Number{1}) : size;
}

bool allowed(const Primitive& p, double relative, double ulps) {
  return (p.relative > 0 && std::fabs(relative) <= p.relative) || (p.ulps > 0 && ulps <= p.ulps);
}

// y rounded to nearest even, from its value or, where that is too near to a tie, from its decimals.
Real rounded(const Primitive& p, DType type, Real y, double x) {
  if (y == 0 || !std::isfinite(y)) return y;
  if (p.decimal == nullptr) return rounded_double(type, static_cast<double>(y));
  const int exponent = std::max(ilogbl(y), min_normal_exponent(type)) - (significand_bits(type) - 1);
  const Real units = scalbnl(y, -exponent), below = floorl(units);
  Real nearest = nearbyintl(units);
  if (p.decimal != nullptr && fabsl(units - below - 0.5L) < 0x1p-36L) {
    const Decimal tie = Decimal(static_cast<long long>(2 * below + 1)) * ldexp(Decimal(1), exponent - 1);
    const Decimal exact = p.decimal(x);
    if (exact != tie) nearest = exact > tie ? below + 1 : below;
  }
  const Real result = scalbnl(nearest, exponent);
  return fabsl(result) > largest_finite(type) ? copysignl(INFINITY, y) : result;
}

struct Tally {
  int64_t inputs = 0, measured = 0, normal = 0, not_nearest = 0, falls = 0, wrong_special = 0, over = 0;
  double most_ulps = 0, most_relative = 0;
  Real sum_ulps = 0, sum_relative = 0;  // of |error|, of error
  std::string complaint;

  void add(const Tally& t) {
    inputs += t.inputs, measured += t.measured, normal += t.normal, not_nearest += t.not_nearest, falls += t.falls, wrong_special += t.wrong_special, over += t.over;
    sum_ulps += t.sum_ulps, sum_relative += t.sum_relative;
    most_ulps = std::max(most_ulps, t.most_ulps);
    most_relative = std::max(most_relative, t.most_relative);
    if (complaint.empty()) complaint = t.complaint;
  }
};

// The usual input, by its exact value in double. False where more digits or rules are needed; then nothing was tallied.
bool measure_quickly(const Primitive& p, uint32_t bits, double got, Tally& t) {
  if (p.quick == nullptr) return false;
  const double y = p.quick(static_cast<double>(numbers::float_of(bits))), size = std::fabs(y), error = got - y;
  const DType type = p.result.value_or(DType::f32);
  const bool is_exact = p.decimal == nullptr, is_normal = size >= power_of_two(min_normal_exponent(type));
  if (!(size > 0 && size < INFINITY) || (!is_exact && (!is_normal || size > largest_finite(type)))) return false;
  const double unit = unit_at(type, size), ulps = std::fabs(error) / unit;
  bool nearest = true;
  if (p.result) {
    const double rounded = rounded_double(type, y);
    if (is_exact && (got != rounded || std::signbit(got) != std::signbit(y))) return false;  // to be told at length
    if (is_exact && !std::isfinite(rounded)) {
      ++t.inputs;
      return true;
    }
    if (!is_exact && std::fabs(size / unit - std::floor(size / unit) - 0.5) < 0x1p-20) return false;
    nearest = got == rounded;
  } else if (std::fabs(error) < 0x1p-36 * size) {
    return false;
  }
  const double relative = error / measured_against(p, size);
  if (!allowed(p, relative, ulps)) return false;  // to be told at length
  ++t.inputs, ++t.measured;
  if (!nearest) ++t.not_nearest;
  t.sum_ulps += ulps;
  t.most_ulps = std::max(t.most_ulps, ulps);
  if (!is_normal) return true;  // units, and no relative accuracy
  ++t.normal;
  t.sum_relative += relative;
  t.most_relative = std::max(t.most_relative, std::fabs(relative));
  return true;
}

void measure(const Primitive& p, uint32_t bits, double got, Tally& t) {
  if (measure_quickly(p, bits, got, t)) return;
  ++t.inputs;
  const Real y = p.exact(bits);
  const double x = p.inputs == Inputs::bits_16 ? 0.0 : static_cast<double>(numbers::float_of(bits));
  const DType type = p.result.value_or(DType::f32);
  const auto wrong = [&](int64_t& count, const char* what) {
    ++count;
    if (t.complaint.empty()) t.complaint = fmt::format("{} of {:.9g} (bits {:08x}) is {:.17g}, exact {:.17g}: {}", p.name, x, bits, got, static_cast<double>(y), what);
  };
  if (std::isnan(y)) {
    if (!std::isnan(got)) wrong(t.wrong_special, "NaN expected");
    return;
  }
  const Real nearest = p.result ? rounded(p, type, y, x) : y;
  if (y == 0 || !std::isfinite(nearest)) {
    if (got != static_cast<double>(nearest) || (p.decimal == nullptr && std::signbit(got) != std::signbit(y))) wrong(t.wrong_special, "a special value");
    return;
  }
  if (fabsl(y) < p.flush_below && got == 0) return;
  if (!std::isfinite(got)) {
    wrong(t.wrong_special, "a finite value expected");
    return;
  }
  ++t.measured;
  if (p.result && got != static_cast<double>(nearest)) ++t.not_nearest;
  const Real error = got - y;
  const auto relative = static_cast<double>(error / measured_against(p, fabsl(y)));
  const auto ulps = static_cast<double>(fabsl(error)) / ulp_at(type, static_cast<double>(y));
  t.sum_ulps += ulps;
  t.most_ulps = std::max(t.most_ulps, ulps);
  // A subnormal result has units, and no relative accuracy.
  if (fabsl(y) >= ldexpl(1, min_normal_exponent(type))) {
    ++t.normal;
    t.sum_relative += relative;
    t.most_relative = std::max(t.most_relative, std::fabs(relative));
  }
  if (!allowed(p, relative, ulps)) wrong(t.over, "further off than allowed");
}

// Inputs from `first` on, in blocks; all of one sign, so that they rise or fall in order.
struct Range {
  uint32_t first;
  uint64_t count;
};
std::vector<Range> ranges(Inputs inputs) {
  const Range positive{0, 0x80000000u}, negative{0x80000000u, 0x80000000u};
  switch (inputs) {
    case Inputs::any: return {positive, negative};
    case Inputs::not_positive: return {negative, {0, 1}};
    case Inputs::not_negative: return {positive, {0x80000000u, 1}};
    case Inputs::bits_16: break;
  }
  return {{0, 0x8000}, {0x8000, 0x8000}};
}

constexpr uint32_t kBlock = 1u << 16;

// The inputs of a block that are taken: of a sample its first ones, where exponents begin, its last, and some between.
std::vector<uint32_t> taken(bool all, uint32_t n) {
  std::vector<uint32_t> offsets;
  for (uint32_t at = 0; at < n; ++at)
    if (all || n < kBlock || at < 8 || at >= kBlock - 4 || at % 6553 == 0) offsets.push_back(at);
  return offsets;
}

void run_block(const Primitive& p, const std::vector<uint32_t>& offsets, bool device, uint32_t first, uint32_t n, std::mutex& one_at_a_time, Tally& t) {
  thread_local std::vector<double> got(kBlock);
  if (device) {
    const std::lock_guard guard(one_at_a_time);
    if (const char* error = evaluate_on_device(p.function, first, n, got.data()); *error != 0) {
      fmt::print(stderr, "primitives: {}\n", error);
      std::exit(4);
    }
  } else {
    dispatch(p.function, [&]<Function f>() {
      for (uint32_t at : offsets) got[at] = evaluate<f>(first + at);
    });
  }
  const bool wide = p.inputs != Inputs::bits_16;
  const double step = (first & (wide ? 0x80000000u : 0x8000u)) != 0 ? -p.slope : p.slope;  // the way results go as bits rise
  double before = NAN;
  for (uint32_t at : offsets) {
    measure(p, first + at, got[at], t);
    // The contract's 1 / 0 = 0 is no part of the curve.
    const bool on_curve = !std::isnan(got[at]) && !(p.function == Function::reciprocal && (first + at) << 1 == 0);
    if (on_curve && (got[at] - before) * step < 0) ++t.falls;
    before = on_curve ? got[at] : NAN;
  }
  // The step into the next block.
  if (n == kBlock && !device && (first + n) << 1 != 0 && wide) {
    double next = 0;
    dispatch(p.function, [&]<Function f>() { next = evaluate<f>(first + n); });
    if ((next - before) * step < 0) ++t.falls;
  }
}

Tally run(const Primitive& p, bool all, bool device, int threads) {
  Tally total;
  std::mutex lock, one_at_a_time;
  for (const Range& r : ranges(p.inputs)) {
    const auto size = static_cast<uint32_t>(std::min<uint64_t>(kBlock, r.count));
    const uint64_t blocks = r.count / size;  // all ranges are a power of two
    const std::vector<uint32_t> offsets = taken(all, size);
    std::atomic<uint64_t> next{0};
    std::vector<std::thread> workers;
    for (int t = 0; t < threads; ++t)
      workers.emplace_back([&] {
        Tally mine;
        for (uint64_t block; (block = next++) < blocks;)
          run_block(p, offsets, device, r.first + static_cast<uint32_t>(block * size), size, one_at_a_time, mine);
        const std::lock_guard guard(lock);
        total.add(mine);
      });
    for (std::thread& w : workers) w.join();
  }
  return total;
}

// Largest relative error and ulps of each primitive in a table that this program wrote.
std::map<std::string, std::pair<double, double>> read_table(const std::string& path) {
  std::map<std::string, std::pair<double, double>> table;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    std::vector<std::string> cells;
    for (size_t from = 2, to; line.starts_with("| ") && (to = line.find(" |", from)) != std::string::npos; from = to + 3) cells.push_back(line.substr(from, to - from));
    if (cells.size() > 4 && cells[0] != "primitive") table[cells[0]] = {std::atof(cells[2].c_str()), std::atof(cells[4].c_str())};
  }
  return table;
}

std::string allowed_text(const Primitive& p) {
  return p.relative > 0 ? fmt::format("2^{:g} relative, {}", std::log2(p.relative), p.allowed_by) : fmt::format("{:g} ulp, {}", p.ulps, p.allowed_by);
}

}  // namespace

int main(int count, char** arguments) {
  bool all = false, device = false;
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  std::string against;
  for (int n = 1; n < count; ++n) {
    const std::string name = arguments[n], value = n + 1 < count ? arguments[n + 1] : "";
    if (name == "--all") all = true;
    else if (name == "--device" && (value == "host" || value == "cuda")) device = value == "cuda", ++n;
    else if (name == "--threads" && std::atoi(value.c_str()) > 0) threads = std::atoi(value.c_str()), ++n;
    else if (name == "--against" && !value.empty()) against = value, ++n;
    else {
      fmt::print(stderr, "primitives: {} is no option, or lacks its value\n", name);
      return 2;
    }
  }
  if (device && *device_name() == 0) {
    fmt::print(stderr, "primitives: no CUDA device, or built without CUDA\n");
    return 4;
  }
  const auto recorded = against.empty() ? std::map<std::string, std::pair<double, double>>{} : read_table(against);
  if (!against.empty() && recorded.empty()) {
    fmt::print(stderr, "primitives: {} holds no table\n", against);
    return 2;
  }

  fmt::print("| primitive | inputs | largest error, ulp | mean | largest error, relative | mean, signed | not the nearest | against the slope | special values | allowed |\n"
             "|---|---|---|---|---|---|---|---|---|---|\n");
  bool right = true;
  std::string complaints;
  for (const Primitive& p : all_primitives()) {
    if (p.device_only && !device) continue;
    const Tally t = run(p, all, device, threads);
    const auto n = static_cast<double>(std::max<int64_t>(1, t.measured)), normal = static_cast<double>(std::max<int64_t>(1, t.normal));
    fmt::print("| {} | {} | {:.6g} | {:.3g} | {:.6g} | {:.2g} | {} | {} | {} | {} |\n", p.name, t.inputs, t.most_ulps, static_cast<double>(t.sum_ulps) / n, t.most_relative,
               static_cast<double>(t.sum_relative) / normal, p.result ? std::to_string(t.not_nearest) : "-", t.falls, t.wrong_special == 0 ? "right" : std::to_string(t.wrong_special) + " wrong",
               allowed_text(p));
    std::fflush(stdout);
    right = right && t.over == 0 && t.wrong_special == 0 && t.measured > 0 && (p.decimal != nullptr || t.not_nearest == 0);
    if (!t.complaint.empty()) complaints += t.complaint + "\n";
    if (against.empty()) continue;
    const auto known = recorded.find(p.name);
    constexpr double kPrinted = 1 + 1e-5;  // figures are printed to six digits
    if (known == recorded.end() || t.most_ulps > known->second.first * kPrinted || t.most_relative > known->second.second * kPrinted) {
      right = false;
      complaints += fmt::format("{}: {} has {}\n", p.name, against, known == recorded.end() ? "no such row" : "a smaller largest error than this run");
    } else if (p.relative > 0 ? known->second.second > p.relative : known->second.first > p.ulps) {
      right = false;
      complaints += fmt::format("{}: {} records more than {}\n", p.name, against, allowed_text(p));
    }
  }
  fmt::print("{}{}", complaints.empty() ? "" : "\n", complaints);
  return right ? 0 : 1;
}
