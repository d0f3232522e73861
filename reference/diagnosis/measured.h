// measured.h: faults whose number is measured from what the kernel gave: a power, a constant, a threshold, a column.
//
// A measured fault is one more model: diagnose.cpp holds it to all evidence like any other. Each carries how many of its
// numbers were measured, and its words give them.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "reference/diagnosis/fault.h"
#include "reference/diagnosis/predict.h"

namespace attest {

// One row of one run, what was seen there, and a fault as it is in that run.
struct SeenRow {
  Predictor* predict = nullptr;
  RowPlace place;
  std::vector<int64_t> columns;
  std::vector<double> o;  // of these columns
  std::optional<double> lse;
  bool wrong = false;     // the contract does not explain it
  std::function<Fault(const Fault&)> here;
};

std::vector<Fault> measured(const Problem& problem, const std::vector<SeenRow>& rows, const std::vector<Walk>& walks);

// How far LSE lies from what a model gives, and what tolerance that has, both in the median over the rows; of `least` rows or more.
struct LseErrors {
  double off, tolerance;
};
std::optional<LseErrors> median_lse_errors(const std::vector<SeenRow>& rows, const Fault& fault, size_t least);

}  // namespace attest
