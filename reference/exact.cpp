#include "reference/exact.h"

#include <cmath>

namespace attest {

template <class Real>
void exact_row(const Problem& problem, const HeadData& head, const double* q, Row& row, ExactRow<Real>& exact) {
  const size_t n = row.key.size();
  const auto columns = static_cast<size_t>(head.dv);
  row.x.resize(n);
  row.s.resize(n);
  row.s_low.assign(n, 0.0);
  row.ds.resize(n);
  row.p.resize(n);
  exact.s.assign(n, Real(0));
  exact.p.assign(n, Real(0));

  // x = scale * dot, s = softcap(x) + bias, m = max s.
  const Real scale(problem.scale), cap(problem.softcap);
  for (size_t j = 0; j < n; ++j) {
    const float* k = head.k_row(row.key[j]);
    Real dot(0);
    for (int64_t d = 0; d < head.d; ++d)
      if (q[d] != 0 && k[d] != 0) dot += Real(q[d]) * Real(k[d]);
    const Real x = scale * dot;
    Real s = x;
    if (problem.softcap > 0) {
      // tanh by its exponential; beyond 200 it is 1 to more digits than there are.
      const Real t = x / cap;
      if (abs(t) > 500) {
        s = t > 0 ? cap : -cap;
      } else {
        const Real e = exp(-2 * abs(t));
        s = cap * (1 - e) / (1 + e);
        if (t < 0) s = -s;
        // 1 - e loses digits for small t; the series of tanh does not.
        if (abs(t) < Real(1e-8)) s = cap * (t - t * t * t / 3 + 2 * t * t * t * t * t / 15 - 17 * t * t * t * t * t * t * t / 315);
      }
    }
    if (row.bias[j] != 0) s += Real(row.bias[j]);
    exact.s[j] = s;
    row.x[j] = static_cast<double>(x);
    row.s[j] = static_cast<double>(s);
    if (j == 0 || s > exact.m) exact.m = s;
  }
  if (row.has_sink && Real(row.sink) > exact.m) exact.m = Real(row.sink);

  // p = exp(s - m), l = sum p, LSE = m + ln l.
  exact.l = 0;
  for (size_t j = 0; j < n; ++j) {
    const Real ds = exact.s[j] - exact.m;
    row.ds[j] = static_cast<double>(ds);
    exact.p[j] = ds < -5000 ? Real(0) : Real(exp(ds));  // below 1e-2171 nothing reaches any result
    row.p[j] = static_cast<double>(exact.p[j]);
    exact.l += exact.p[j];
  }
  if (row.has_sink) {
    const Real ds = Real(row.sink) - exact.m;
    row.sink_ds = static_cast<double>(ds);
    const Real p = ds < -5000 ? Real(0) : Real(exp(ds));
    row.sink_p = static_cast<double>(p);
    exact.l += p;
  }
  exact.lse = exact.m + log(exact.l);
  row.m = static_cast<double>(exact.m);
  row.l = static_cast<double>(exact.l);
  row.lse = static_cast<double>(exact.lse);

  // O = sum p v / l.
  exact.o.assign(columns, Real(0));
  row.column_nonfinite.assign(columns, 0);
  for (size_t j = 0; j < n; ++j) {
    const float* v = head.v_row(row.key[j]);
    for (size_t d = 0; d < columns; ++d) {
      if (!std::isfinite(v[d])) row.column_nonfinite[d] = 1;
      else if (v[d] != 0) exact.o[d] += exact.p[j] * Real(v[d]);
    }
  }
  row.o_hi.resize(columns);
  row.o_lo.resize(columns);
  row.o_sum_error.assign(columns, 0.0);
  row.o_abs.assign(columns, 0.0);
  for (size_t j = 0; j < n; ++j)
    for (size_t d = 0; d < columns; ++d) row.o_abs[d] += row.p[j] * std::fabs(static_cast<double>(head.v_row(row.key[j])[d]));
  for (size_t d = 0; d < columns; ++d) {
    exact.o[d] /= exact.l;
    row.o_hi[d] = static_cast<double>(exact.o[d]);
    row.o_lo[d] = static_cast<double>(Real(exact.o[d] - Real(row.o_hi[d])));
  }
  row.enclosed = row.wide = false;
  row.kappa.assign(n, 0.0);
  row.sink_kappa = 0;
  row.lse_error = 0;
}

template void exact_row<Dec50>(const Problem&, const HeadData&, const double*, Row&, ExactRow<Dec50>&);
template void exact_row<Dec200>(const Problem&, const HeadData&, const double*, Row&, ExactRow<Dec200>&);

}  // namespace attest
