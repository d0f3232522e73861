#include "cli/reference_states.h"

#include <cmath>
#include <limits>

#include "reference/exact.h"

namespace attest::cli {

namespace {

long double distance(const Dec50& a, const Dec50& b) { return Dec50(a - b).convert_to<long double>(); }

}  // namespace

ReferenceStates reference_states(const Problem& problem, const Conventions& conventions, int64_t b, int64_t h, int64_t i,
                                 const std::vector<KeyBlock>& visits) {
  HeadData head;
  head.load(problem, b, problem.shape.key_head(h));
  std::vector<double> q(static_cast<size_t>(problem.shape.d));
  for (int64_t d = 0; d < problem.shape.d; ++d) q[static_cast<size_t>(d)] = problem.q.get(b, h, i, d);
  Row row;
  classify(problem, conventions, head, q.data(), b, h, i, row);

  ReferenceStates result;
  result.kind = row.kind;
  if (row.kind != RowKind::normal && row.kind != RowKind::empty) return result;
  ExactRow<Dec50> exact;
  if (row.kind == RowKind::normal) exact_row(problem, head, q.data(), row, exact);

  const bool sink_inside = conventions.sink_first && row.has_sink;
  const Dec50 sink(row.sink);
  const auto width = static_cast<size_t>(head.dv);
  std::vector<bool> seen(row.key.size(), false);
  bool any = sink_inside;  // whether m is finite
  Dec50 m = sink_inside ? sink : Dec50(0);
  for (const KeyBlock& block : visits) {
    const bool any_before = any;
    const Dec50 before = m;
    for (size_t n = 0; n < row.key.size(); ++n) {
      if (row.key[n] < block.begin || row.key[n] >= block.end) continue;
      seen[n] = true;
      if (!any || exact.s[n] > m) m = exact.s[n];
      any = true;
    }
    ReferenceState state;
    state.m = any ? m.convert_to<long double>() : -std::numeric_limits<long double>::infinity();
    state.scale = !any ? std::numeric_limits<long double>::quiet_NaN() : any_before ? std::exp(distance(before, m)) : 0;
    state.l = sink_inside ? std::exp(distance(sink, m)) : 0;
    state.o.assign(width, 0);
    for (size_t n = 0; n < row.key.size(); ++n) {
      if (!seen[n]) continue;
      const long double p = std::exp(distance(exact.s[n], m));
      state.l += p;
      for (size_t d = 0; d < width; ++d) state.o[d] += p * static_cast<long double>(row.v(head, static_cast<int64_t>(n), static_cast<int64_t>(d)));
    }
    result.states.push_back(std::move(state));
  }
  return result;
}

}  // namespace attest::cli
