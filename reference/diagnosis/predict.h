// predict.h: what the outputs of a row would be if a kernel had a given fault, and nothing else wrong.
//
// Computed in double from the stored inputs, walking over the tiles as the fault says, because most faults depend on
// where tiles end. Beside each value stands how far a kernel with this fault may lie from it by rounding: first order,
// with the units of the kernel's Numerics, not a proven bound. Sums that leave f32 are infinite, as they would be.
// Without a fault the prediction is the contract's result; a test holds it to the judge's reference.
// Example: Predictor predict(problem, {}, strict(problem.type)); predict.row(fault, {0, 0, 3}, columns).o[0].value
#pragma once

#include <array>
#include <map>
#include <span>
#include <vector>

#include "reference/diagnosis/fault.h"
#include "reference/numerics.h"
#include "reference/row.h"
#include "reference/scores.h"

namespace attest {

struct RowPlace {
  int64_t b = 0, h = 0, i = 0;
  auto operator<=>(const RowPlace&) const = default;
};

struct Predicted {
  double value = 0;
  double tolerance = 0;  // infinite: the model says nothing about this element
  bool overflow = false; // a sum or weight left f32: NaN, an infinity or 0, by how the kernel goes on

  // |seen - value| in units of the tolerance; infinite where one is finite and the other is not.
  double misfit(double seen) const;
};

struct PredictedVisit {
  int32_t split = 0;
  int64_t begin = 0, end = 0;      // keys
  double m = 0, l = 0, factor = 0; // after the visit, as a trace records them
  double l_tolerance = 0, m_tolerance = 0;
};

struct RowPrediction {
  std::vector<Predicted> o;  // of the columns asked for
  Predicted lse;
  double m = 0, ln_l = 0;  // of the state that LSE is made of
  std::vector<PredictedVisit> visits;  // tiles with a key that counts
};

struct Dot {
  double value = 0;  // sum q_d k_d
  double abs = 0;    // sum |q_d k_d|
  double terms = 0;  // nonzero products
};

class Predictor {
 public:
  Predictor(const Problem& problem, const Conventions& conventions, const Numerics& numerics);
  // Valid until the next call. `lse_seen`: what the kernel gave, for faults of which only a bound is known; or nullptr.
  const RowPrediction& row(const Fault& fault, const RowPlace& place, std::span<const int64_t> columns, const double* lse_seen = nullptr);

  // The row as the contract sees it: its kind and visible keys.
  RowKind kind(const RowPlace& place);
  const std::vector<int64_t>& visible(const RowPlace& place);

 private:
  struct Key {
    int64_t index;       // -1: padding
    bool counts;         // takes part
    double score, error; // and how far the score may be off
  };
  struct State {
    double m, l, l_error;
    double last_m, last_l;  // of the last tile alone
    std::vector<double> o, o_error;
    bool seen = false, overflow = false;
  };

  const RowPrediction& one_row(const Fault& fault, const RowPlace& place, std::span<const int64_t> columns);
  const HeadData& head(int64_t b, int64_t key_head);
  const std::vector<Dot>& dots(int64_t qb, int64_t qh, int64_t qi, int64_t kb, int64_t key_head, int64_t columns);
  void look(const Fault& fault, const RowPlace& place);
  bool at_split_boundary(const Fault& fault, int64_t key) const;
  bool reaches_padding(const Fault& fault) const;
  bool visible_by_mask(const Fault& fault, const RowPlace& place, int64_t j) const;
  void walk_split(const Fault& fault, int64_t begin, int64_t end, int32_t split, const HeadData& values, std::span<const int64_t> columns, State& state);
  void merge(const Fault& fault, State& into, const State& other, bool rescaled, std::span<const int64_t> columns) const;
  void finish(const Fault& fault, State& state, double lse_without_sink, bool lse_seen, std::span<const int64_t> columns, const HeadData& values);

  const Problem& p_;
  Conventions conventions_;
  Numerics numerics_;
  std::map<std::array<int64_t, 2>, HeadData> heads_;
  std::map<std::array<int64_t, 6>, std::vector<Dot>> dots_;
  std::map<RowPlace, std::pair<RowKind, std::vector<int64_t>>> kinds_;
  std::vector<Key> keys_;
  int64_t range_begin_ = 0, range_end_ = 0;  // what causal, window and length leave
  int64_t length_ = 0;
  RowPrediction out_;
  State state_, part_;
  const double* seen_ = nullptr;
  bool poisoned_ = false;  // -inf - -inf was formed
};

// `value` rounded to a narrow format.
double round_narrow(Narrow format, double value, bool truncated);
// Half a unit in the last place relative to the value.
double unit_of(Narrow format);

}  // namespace attest
