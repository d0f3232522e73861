// diagnose.h: which fault explains what a kernel was seen to do.
//
// A pure function from evidence, pairs of a problem and what the kernel made of it, to findings; next_problems() says
// which further runs would tell more: V of key indicators on the same Q and K, which shows the weight that each key
// got in any kernel, and contents on which the models that still explain everything part. properties/explain.h owns the
// loop that runs them.
//
// A model explains if every element compared lies within `kFits` tolerances of its prediction (predict.h): O and LSE
// of the rows taken, and the states of a trace. Models of several families that explain the same evidence are one
// class: the evidence cannot tell them apart. Without one the answer is that none fits.
// An answer is certain if one family alone explains, models that allow the contract's values as well set aside, if it explains
// a wrong run of other contents that was made later, and if no run that came out right speaks against it.
// What it does not do: find two faults at once, or a fault that shows only now and then.
// Example: Diagnosis d = diagnose(evidence); puts(argument(evidence, d).c_str());
#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "reference/diagnosis/fault.h"
#include "reference/diagnosis/predict.h"
#include "reference/numerics.h"
#include "reference/observation.h"
#include "reference/problem.h"

namespace attest {

inline constexpr double kFits = 1.5;

enum class Purpose : uint8_t {
  found,
  related,  // another problem on which the failing property ran the kernel
  repeated, key_indicators, tile_indicators, separating,
  larger,   // more keys and rows, other contents; where the contract explains it, the fault needs what it lacks
  finer,    // the same contents in f32, likewise
  repacked, // the same contents in packed tensors
  others_replaced  // the worst row beside other rows, heads and batches
};

struct EvidenceRun {
  Problem problem;
  Observation seen;
  Numerics numerics;
  Purpose purpose = Purpose::found;
};

struct Evidence {
  std::vector<EvidenceRun> runs;  // the first is the case as it was found
  Conventions conventions;
};

// One element of one run, beside what a model says. column: -1 for LSE, -2 for a state of the trace.
struct Discrepancy {
  size_t run = 0;
  RowPlace place;
  int64_t column = 0;
  double predicted = 0, seen = 0, misfit = 0;
};

struct Finding {
  Fault fault;
  bool explains = false;        // all outputs
  bool explains_trace = true;   // and all states, where there is a trace
  double misfit = 0;            // the largest
  int64_t elements = 0;         // compared
  int64_t telling = 0;          // of rows that the contract does not explain
  int64_t excused = 0;          // rows left out because the contract explains them
  int64_t foretold = 0;         // wrong runs of other contents, made later, that it explains
  int64_t contradicted = 0;     // runs in which it expects something wrong and nothing is
  bool vague = false;           // mostly by allowing what the contract gives as well: it comes last, and is never certain
  bool overflows = false;       // mostly by predicting an overflow or anything at all, which says little
  Discrepancy worst;
};

// The first state of a trace that no kernel within its numerics has.
struct WrongState {
  RowPlace place;
  TraceRecord record;
  double m = 0, l = 0, factor = 0;  // what they must be
  std::string what;                 // "m", "l", "scale" or what is wrong with the visit
};

// How much of its due weight a run of keys got in one row, measured with key indicators.
struct MeasuredWeight {
  RowPlace place;
  int64_t begin = 0, end = 0;  // keys
  double ratio = 1;            // to the median of the row; infinite: keys that are masked
};

// Two rows of equal contents and unequal bits (equal_rows.h).
struct UnequalRows {
  size_t run_a = 0, run_b = 0;  // indices into Evidence::runs
  RowPlace a, b;
  int64_t column = 0;           // -1: LSE
  double seen_a = 0, seen_b = 0;
  // What the two runs differ in: nothing; where their tensors lie in memory; contents or number of other rows.
  enum class Apart : uint8_t { nothing, layout, others } apart = Apart::others;
};

// LSE of every row is within its tolerance of the contract, and a model is far closer to all of them.
struct PooledLse {
  int64_t rows = 0;
  double from_contract = 0, from_model = 0;  // median distance
};

struct Diagnosis {
  bool outputs_right = false;          // the contract itself explains everything
  std::vector<Finding> explaining;     // the likeliest first, one of each family
  std::vector<Fault> survivors;        // every model that explains, several of a family
  std::vector<Finding> rejected;       // one of each family, the nearest first, at most five
  bool certain = false;                // one family alone explains, and enough elements tell it from the contract
  int64_t telling = 0;                 // elements that the contract does not explain
  double contract_misfit = 0;
  Discrepancy contract_worst;
  std::optional<WrongState> wrong_state;
  std::vector<MeasuredWeight> weights;
  std::optional<double> measured_scale;  // factor on the scale that fits best, where one fits
  std::optional<PooledLse> pooled;       // where the outputs are right one by one
  std::optional<UnequalRows> unequal;    // where such rows are all that is known
  int64_t elements = 0, rows = 0, models = 0;

  Family top() const { return explaining.empty() ? Family::none : explaining.front().fault.family; }
  bool holds(Family f) const;  // is it in the class of the explaining ones?
};

struct DiagnoseOptions {
  std::set<Family> without = {};  // families whose models are left out
  bool use_trace = true;
  // Only these models: the survivors of a diagnosis on a part of the evidence, which more evidence can only thin out.
  std::vector<Fault> among = {};
};

Diagnosis diagnose(const Evidence& evidence, const DiagnoseOptions& options = {});

struct NextRuns {
  Purpose purpose = Purpose::found;
  std::vector<Problem> problems;
  bool first_only = false;  // the problems are alternatives, the most telling first: one of them is enough
};
// Runs that would tell more; empty where none would. `widest`: the largest Dv worth trying.
NextRuns next_runs(const Evidence& evidence, const Diagnosis& diagnosis, int64_t widest);

// Let ... Then ... However ...; several lines.
std::string argument(const Evidence& evidence, const Diagnosis& diagnosis);

}  // namespace attest
