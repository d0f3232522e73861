#include "cli/selftest.h"

#include <fmt/format.h>

#include <cfenv>
#include <cmath>
#include <cstring>
#include <limits>

#include "cli/arguments.h"
#include "cli/commands.h"
#include "kernel/runner/kernel.h"
#include "properties/mutants/broken_ten.h"
#include "reference/judge.h"

namespace attest::cli {

namespace {

// Three tiles of four keys, two heads. In query row 0 the scores rise from key to key, so that every tile rescales; in
// row 1 they come and go. The last two keys are masked by length and hold large values that must not count.
Problem rising_scores(DType type) {
  Problem p = Problem::make({.b = 1, .hq = 2, .hk = 2, .nq = 2, .nk = 12, .d = 4, .dv = 3}, type);
  p.scale = 0.5f;
  p.choice.tile_keys = 4;
  p.key_lengths = std::vector<int32_t>{10};
  for (int64_t h = 0; h < 2; ++h) {
    for (int64_t i = 0; i < 2; ++i) p.q.set(0, h, i, i, 2);  // score (i, j) = K[j, i], exactly
    for (int64_t j = 0; j < 12; ++j) {
      p.k.set(0, h, j, 0, 0.75 * static_cast<double>(j) - 12);
      p.k.set(0, h, j, 1, 1.25 * static_cast<double>(j % 5));
      for (int64_t d = 0; d < 3; ++d) p.v.set(0, h, j, d, j < 10 ? std::ldexp(static_cast<double>((j * 7 + d * 3) % 11 - 5), -2) : 1000);
    }
  }
  return p;
}

// The same without a visible key in the first query row.
Problem empty_row(DType type) {
  Problem p = rising_scores(type);
  p.shape.nk = 1;
  p.k = Tensor::packed(type, {1, 2, 1, 4});
  p.v = Tensor::packed(type, {1, 2, 1, 3});
  p.key_lengths = std::vector<int32_t>{1};
  p.causal = true;  // bottom right: of two rows over one key the first sees none
  return p;
}

struct Named {
  const char* name;
  Problem problem;
};
std::vector<Named> cases() {
  std::vector<Named> all;
  for (DType type : kAllDTypes) {
    all.push_back({"rising scores", rising_scores(type)});
    all.push_back({"empty row", empty_row(type)});
  }
  return all;
}

// The processor's state that the judge relies on; "" if it is as needed.
std::string arithmetic_fault() {
  if (std::fegetround() != FE_TONEAREST) return "the rounding mode is not to nearest";
  volatile float one = 1, tiny = 0x1p-25f;
  if (one + tiny != 1 || one + 3 * tiny == 1) return "f32 additions are not rounded to nearest";
  volatile float least_normal = 0x1p-126f, half = 0.5f;
  const float subnormal = least_normal * half;
  uint32_t bits;
  std::memcpy(&bits, &subnormal, 4);
  if (bits == 0) return "subnormal results are flushed to zero (FTZ)";
  volatile float least = std::numeric_limits<float>::denorm_min(), large = 0x1p100f;
  if (least * large == 0) return "subnormal operands are read as zero (DAZ)";
  volatile double least_double = std::numeric_limits<double>::denorm_min();
  if (least_double * 2 == 0) return "subnormal doubles are flushed to zero";
  return "";
}

// Both paths of the judge on one run; a line into `faults` where they differ.
Verdict judged(const Kernel& kernel, const Named& c, std::vector<std::string>& faults) {
  Judge judge;
  JudgeOptions options{.numerics = kernel.numerics(c.problem, Contract::strict), .conventions = kernel.conventions()};
  const Observation seen = kernel.run(c.problem);
  const Verdict fast = judge(c.problem, seen, options);
  options.exact = true;
  const Verdict exact = judge(c.problem, seen, options);
  if (fast.disposition != exact.disposition || fast.check != exact.check || fast.failures != exact.failures)
    faults.push_back(fmt::format("the double path says {} and cpp_dec_float says {} about kernel {} on {} in {}", name_of(fast.disposition),
                                 name_of(exact.disposition), kernel.name(), c.name, name_of(c.problem.type)));
  return fast;
}

}  // namespace

std::vector<std::string> selftest(std::vector<std::string>* done) {
  std::vector<std::string> faults;
  const auto passed = [&](const std::string& what) {
    if (done != nullptr) done->push_back(what);
  };
  if (const std::string fault = arithmetic_fault(); !fault.empty())
    faults.push_back(fault);
  else
    passed("arithmetic rounds to nearest and keeps subnormals");

  const std::vector<Named> all = cases();
  const Kernel host = load_kernel("host");
  const size_t before = faults.size();
  for (const Named& c : all)
    if (const Verdict v = judged(host, c, faults); v.disposition != Disposition::passed)
      faults.push_back(fmt::format("the host kernel is {} on {} in {}: {}", name_of(v.disposition), c.name, name_of(c.problem.type), v.detail));
  if (faults.size() == before) passed(fmt::format("the host kernel passes {} cases", all.size()));

  for (const mutants::Mutant& mutant : mutants::broken_ten()) {
    const Kernel broken = Kernel::from_table(mutant.kernel);
    bool rejected = false;
    for (const Named& c : all) rejected = judged(broken, c, faults).disposition != Disposition::passed || rejected;
    if (rejected)
      passed(fmt::format("the broken kernel {} is rejected", broken.name()));
    else
      faults.push_back(fmt::format("the broken kernel {} passes all {} cases", broken.name(), all.size()));
  }
  if (faults.empty()) passed("the double path and cpp_dec_float give the same verdicts");
  return faults;
}

void require_selftest() {
  const std::vector<std::string> faults = selftest();
  if (!faults.empty()) throw Stop(Exit::self_check, "self check failed: " + faults.front());
}

Action add_selftest(CommandLine) {
  return [] {
    std::vector<std::string> done;
    const std::vector<std::string> faults = selftest(&done);
    for (const std::string& line : done) fmt::print("ok: {}\n", line);
    for (const std::string& line : faults) fmt::print(stderr, "attest: self check failed: {}\n", line);
    return faults.empty() ? Exit::holds : Exit::self_check;
  };
}

}  // namespace attest::cli
