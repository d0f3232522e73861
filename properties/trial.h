// trial.h: one run of the kernel inside a property, its verdict, and the comparison of two runs.
//
// Guarantee: two runs are held to each other only in rows that are in range in the first problem, and a
// difference is reported at the element where it stands. Non-finite values of V may become any non-finite
// output, so two non-finite outputs count as equal unless the check asks for the same run again.
// Example:
//     Trial first = run_and_judge(problem, context);
//     Observation again = observe(problem, context);
//     compare(first.verdict, problem, first.seen, again, {}, context);
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "properties/property.h"
#include "reference/scores.h"

namespace attest {

// The quick run: no second fill to find unwritten elements, no trace.
inline constexpr RunOptions kPlainRun{.trace = false, .want_lse = true, .poison = 0, .check_memory = false};

struct Trial {
  Observation seen;
  Verdict verdict;
};

JudgeOptions judge_options(const Problem& problem, const PropertyContext& context);
Observation observe(const Problem& problem, const PropertyContext& context, const RunOptions& options = kPlainRun);
Trial run_and_judge(const Problem& problem, const PropertyContext& context, const RunOptions& options = kPlainRun);

// A case that the property says nothing about, or that the kernel refuses.
Verdict not_applicable(const std::string& why);
// Did the run give outputs? If not, `verdict` takes the judge's complaint about it.
bool ran(Verdict& verdict, const Problem& problem, const Observation& seen, const PropertyContext& context);

// Adds a further run's verdict: counts add up, maxima stay, the first failure stays, its detail begun by `run`.
// A refusal of a further run makes the whole case not applicable.
void add(Verdict& verdict, const Verdict& further, const std::string& run);

// Fails `verdict` unless it has failed already.
void fail(Verdict& verdict, Check check, Disposition disposition, const std::string& detail, const ElementError& where);

struct Comparison {
  // Row (b, h, i) of the second problem that stands for this row of the first; nullopt: not compared.
  struct Place {
    int64_t b, h, i;
  };
  std::function<std::optional<Place>(Place)> row = nullptr;    // nullptr: the same place
  std::function<double(double)> o = nullptr;                   // what an output of the first must have become
  std::function<bool(Place, double)> skip = nullptr;           // elements of the first that prove nothing
  Shape second_shape{};                                        // of the second problem where it differs
  bool differs = false;                                        // `second_shape` is set
  bool same_non_finite = false;                                // two non-finite outputs must be the same
  Check check = Check::relation;
  std::string relation;                                        // in words, for the detail
};

// Same bits (same_value) of O and LSE, row by row.
void compare(Verdict& verdict, const Problem& first, const Observation& a, const Observation& b, const Comparison& how,
             const PropertyContext& context);

// The scores of one row, in double, with what the row is. Loads a head once and keeps it.
class RowScores {
 public:
  RowScores(const Problem& problem, const Conventions& conventions);
  // Fills row() and score(); keys with score -inf are left out.
  void load(int64_t b, int64_t h, int64_t i);
  const Row& row() const { return row_; }
  RowKind kind() const { return row_.kind; }
  const std::vector<int64_t>& keys() const { return row_.key; }
  const std::vector<double>& scores() const { return scores_; }   // per key of keys(), rounded to double
  const std::vector<double>& dots() const { return x_; }          // scale * dot, per key
  std::optional<double> sink() const;                             // finite sink of the head
  double value(int64_t key, int64_t column) const { return head_.v_row(key)[column]; }

 private:
  const Problem& problem_;
  Conventions conventions_;
  HeadData head_;
  int64_t head_b_ = -1, head_k_ = -1;
  Row row_;
  std::vector<double> q_, x_, scores_;
  int64_t h_ = 0;
};

}  // namespace attest
