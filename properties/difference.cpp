#include "properties/difference.h"

#include <algorithm>
#include <cmath>

namespace attest {

namespace {

constexpr std::array<uint64_t, kDistances - 1> kMost{0, 1, 2, 4, 16, 256, ~uint64_t{0}};  // of each bucket but the last

int bucket_of_distance(DType type, double a, double b) {
  if (same_value(a, b)) return 0;
  if (!std::isfinite(a) || !std::isfinite(b)) return kDistances - 1;
  return static_cast<int>(std::lower_bound(kMost.begin(), kMost.end(), steps_between(type, a, b)) - kMost.begin());
}

void compare_all(Difference& d, DType type, const std::vector<double>& a, const std::vector<double>& b) {
  if (a.size() != b.size()) return;
  d.elements += static_cast<int64_t>(a.size());
  for (size_t n = 0; n < a.size(); ++n) ++d.distances[static_cast<size_t>(bucket_of_distance(type, a[n], b[n]))];
}

}  // namespace

std::string distance_name(int bucket) {
  constexpr const char* kNames[kDistances] = {"0", "1", "2", "3-4", "5-16", "17-256", "more", "not finite"};
  return kNames[bucket];
}

void Difference::add(const Difference& o) {
  cases += o.cases;
  without_baseline += o.without_baseline;
  elements += o.elements;
  for (size_t n = 0; n < distances.size(); ++n) distances[n] += o.distances[n];
  nearer += o.nearer;
  baseline_nearer += o.baseline_nearer;
  rows += o.rows;
  rows_nearer += o.rows_nearer;
  rows_baseline_nearer += o.rows_baseline_nearer;
}

uint64_t steps_between(DType type, double a, double b) {
  // Bit patterns of one sign are in the order of their values.
  const auto place = [&](double x) {
    const uint32_t bits = from_double(type, std::fabs(x));
    return std::signbit(x) ? -static_cast<int64_t>(bits) : static_cast<int64_t>(bits);
  };
  const int64_t from = place(a), to = place(b);
  return static_cast<uint64_t>(from < to ? to - from : from - to);
}

Difference difference(const Problem& problem, const Observation& kernel, const Observation& baseline, const Details& exact) {
  Difference d;
  if (kernel.status != RunStatus::ok) return d;
  if (baseline.status != RunStatus::ok) {
    d.without_baseline = 1;
    return d;
  }
  d.cases = 1;
  compare_all(d, problem.type, kernel.o, baseline.o);
  compare_all(d, DType::f32, kernel.lse, baseline.lse);

  const Shape& s = problem.shape;
  double mine = 0, theirs = 0;  // squared errors of O in the row at hand
  int64_t row = -1;
  const auto end_row = [&] {
    if (row < 0) return;
    ++d.rows;
    d.rows_nearer += mine < theirs;
    d.rows_baseline_nearer += theirs < mine;
  };
  for (const ElementError& e : exact.elements) {
    const int64_t here = (e.b * s.hq + e.h) * s.nq + e.row;
    if (e.col < 0 && baseline.lse.empty()) continue;
    const double other = e.col < 0 ? baseline.lse[static_cast<size_t>(here)] : baseline.o[static_cast<size_t>(here * s.dv + e.col)];
    if (!std::isfinite(e.exact) || !std::isfinite(e.got) || !std::isfinite(other)) continue;
    const double error = std::fabs(e.got - e.exact), other_error = std::fabs(other - e.exact);
    d.nearer += error < other_error;
    d.baseline_nearer += other_error < error;
    if (e.col < 0) continue;
    if (here != row) {
      end_row();
      row = here;
      mine = theirs = 0;
    }
    mine += error * error;
    theirs += other_error * other_error;
  }
  end_row();
  return d;
}

}  // namespace attest
