// judge.h: judges one observation of a kernel against the exact result.
//
// Guarantees: a kernel within the Numerics is never rejected by the worst-case bound, for errors of any size
// (reference/bound.md has the proof); the noise budget rejects a correct row at a rate of 1e-9 at most. Every
// element of every batch and head is compared. The double path and the exact path (cpp_dec_float_50) give the
// same verdict; `exact` forces the latter.
// Order of the checks: status, memory, NaN/Inf positions, LSE, O against the bound, O against the budget.
// Not judged here: relations between runs and determinism (properties/), rows out of range (counted).
//
// Example:
//     Judge judge;
//     Verdict v = judge(problem, observation, {.numerics = strict(problem.type)});
//     if (!v.ok()) puts(v.detail.c_str());
#pragma once

#include <memory>
#include <vector>

#include "reference/numerics.h"
#include "reference/observation.h"
#include "reference/problem.h"
#include "reference/verdict.h"

namespace attest {

// Every element that was held to a bound, and every row that was held to the noise budget, in order.
struct Details {
  struct Noise {
    int64_t b, h, row;
    double r, threshold;
  };
  std::vector<ElementError> elements;
  std::vector<Noise> rows;
};

// Exact references of one problem's rows. Whoever judges many results of one problem gives the same one each time.
struct ExactRows;
std::shared_ptr<ExactRows> make_exact_rows();

struct JudgeOptions {
  Numerics numerics = {};
  Conventions conventions = {};
  bool exact = false;       // decide everything in cpp_dec_float_50
  Details* details = nullptr;  // filled if given
  std::shared_ptr<ExactRows> exact_rows = nullptr;  // taken from here, and kept here where they are missing
  double noise_rate = kNoiseRate;  // another one calibrates the budget
  bool noise_budget = true; // off where the budget's assumptions do not hold, for instance a planted result
};

// What the exact result, its bound and its predicted noise are for one row; for reports and tests.
struct RowReference {
  bool in_range = true;
  bool empty = false;          // no visible key
  bool nan = false;            // a NaN or +inf score at a visible key: the row and its LSE are NaN
  int64_t visible = 0;         // visible keys
  double m = 0, l = 0, lse = 0;     // exact, rounded to double; the sink included in l and lse
  double lse_bound = 0;
  std::vector<double> o, bound, variance;  // [Dv]; a NaN in `o`: must be non-finite there
  std::vector<double> loose;               // [Dv] 1 where loose
};

// Keeps scratch memory between calls; not thread safe, cheap to make one per thread.
class Judge {
 public:
  Judge();
  ~Judge();
  Judge(Judge&&) noexcept;
  Verdict operator()(const Problem& problem, const Observation& seen, const JudgeOptions& options);
  // The reference of one row in cpp_dec_float_50.
  RowReference row(const Problem& problem, int64_t b, int64_t h, int64_t i, const JudgeOptions& options);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace attest
