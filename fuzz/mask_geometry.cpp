// Which keys a kernel sees, against the judge's own reading of the masks.
//
// Scores are all 0 and V is the identity, so that O[i, j] is 1 / count for a visible key and 0 for a masked one, and
// LSE is ln count. A bias holds 0 or -inf, which masks. No reference in many digits is needed, and executions are cheap.
#include <algorithm>
#include <cmath>
#include <limits>

#include "fuzz/feedback.h"
#include "fuzz/problem_target.h"
#include "reference/visible.h"

namespace attest::fuzz {

namespace {

constexpr int64_t kMostKeys = 64;  // O has a column for each

void adapt(Problem& p) {
  Shape& s = p.shape;
  const int64_t keys = std::min(s.nk, kMostKeys);
  // Masks and bias keep what they say of the first keys.
  const auto cut = [&](Layout& l) {
    if (l.extent[3] == s.nk) l.extent[3] = keys;
  };
  if (p.mask) cut(p.mask->layout);
  if (p.bias) cut(p.bias->layout);
  if (p.key_lengths)
    for (int32_t& n : *p.key_lengths) n = std::min(n, static_cast<int32_t>(keys));
  s.nk = keys;
  s.d = 1;
  s.dv = std::max<int64_t>(keys, 1);
  const auto flat = [&](Tensor& t, std::array<int64_t, 4> extent) {
    t.layout = Layout::packed(extent);
    t.storage.assign(static_cast<size_t>(t.layout.span() * size_of(t.type)), 0);
  };
  flat(p.q, {s.b, s.hq, s.nq, s.d});
  flat(p.k, {s.b, s.hk, s.nk, s.d});
  flat(p.v, {s.b, s.hk, s.nk, s.dv});
  const uint32_t one = from_double(p.type, 1.0);
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hk; ++h)
      for (int64_t j = 0; j < s.nk; ++j) p.v.set_bits(p.v.layout.at(b, h, j, j), one);
  p.o = Layout::packed({s.b, s.hq, s.nq, s.dv});
  p.lse = Layout::packed({s.b, s.hq, s.nq, 1});
  p.sink.reset();
  if (p.bias) {
    Tensor& bias = *p.bias;
    const uint32_t masks = from_double(bias.type, -std::numeric_limits<double>::infinity());
    const auto count = static_cast<int64_t>(bias.storage.size()) / size_of(bias.type);
    for (int64_t n = 0; n < count; ++n) bias.set_bits(n, bias.bits(n) & 1 ? masks : 0);
  }
}

bool seen_as(double o, double lse, bool visible, double count, DType type) {
  if (!visible) return o == 0;
  return std::fabs(o * count - 1) < 4 * std::ldexp(1.0, -significand_bits(type)) && std::fabs(lse - std::log(count)) < 0x1p-18 * (1 + lse);
}

Judged judge(const Kernel& kernel, const Problem& p) {
  static Observation seen;
  static std::vector<int64_t> keys;
  static std::vector<uint8_t> visible;
  kernel.run(p, {}, seen);
  Verdict v;
  if (seen.status == RunStatus::unsupported) {
    v.disposition = Disposition::not_supported;
    v.detail = seen.message;
    return {v};
  }
  const auto wrong = [&](const std::string& what, const ElementError& where) {
    ++v.failures;
    if (v.check != Check::none) return;
    v.check = Check::bound;
    v.disposition = Disposition::incorrect;
    v.detail = what;
    v.worst.push_back(where);
  };
  if (seen.status != RunStatus::ok || !seen.overrun.empty() || !seen.unwritten.empty() || !seen.input_change.empty())
    wrong(seen.message + seen.overrun + seen.unwritten + seen.input_change, {});
  const Shape& s = p.shape;
  size_t row = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i, ++row) {
        visible_keys(p, kernel.conventions(), b, h, i, keys);
        visible.assign(static_cast<size_t>(s.nk), 0);
        for (int64_t j : keys)
          visible[static_cast<size_t>(j)] =
              !p.bias || to_double(p.bias->type, p.bias->bits(broadcast_at(p.bias->layout, b, h, i, j))) == 0;
        const auto count = static_cast<double>(std::count(visible.begin(), visible.end(), 1));
        if (seen.status != RunStatus::ok) return {v};
        for (int64_t j = 0; j < s.nk; ++j) {
          const double o = seen.o[row * static_cast<size_t>(s.dv) + static_cast<size_t>(j)];
          const bool expected = visible[static_cast<size_t>(j)] != 0;
          if (!seen_as(o, seen.lse.empty() ? std::log(count) : seen.lse[row], expected, count, p.type))
            wrong("key " + std::to_string(j) + " is " + (expected ? "visible" : "masked") + " to row " + std::to_string(i) + ", O there is " +
                      std::to_string(o), {b, h, i, j, o, expected ? 1 / count : 0, 0, INFINITY, INFINITY});
        }
        record_class(0, count == 0 ? 0 : count == 1 ? 1 : static_cast<int>(count) == s.nk ? 2 : 3);
        if (!keys.empty()) record_class(1, static_cast<int>(keys.front() % 64));
        if (!keys.empty()) record_class(2, static_cast<int>(keys.back() % 64));
      }
  return {v};
}

}  // namespace

const ProblemTarget problem_target{.kernel_variable = nullptr, .adapt = adapt, .judge = judge};

}  // namespace attest::fuzz

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) { return attest::fuzz::run_input(data, size); }
