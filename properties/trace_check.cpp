#include "properties/trace_check.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <limits>
#include <map>
#include <span>

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kUnit = 0x1p-24;  // largest relative error of one f32 rounding

// How far the kernel's score of one visible key may lie from the exact one: the dot product of n nonzero terms
// (none for one term), the rounding of scale and product, softcap (x, x / c, tanh, the product), the bias's
// own rounding and that of the sum, and what may flush. Same model as reference/bound.md, section 1.
double score_error(const Problem& p, const Numerics& numerics, const Row& row, size_t n, double x, double s) {
  const double unit = numerics.aligned_blocks ? 1.25 * numerics.sum_unit : numerics.sum_unit;
  const double additions = std::max(0.0, row.dot_terms[n] - 1);
  double e = std::fabs(double(p.scale)) * row.dot_sizes(numerics.aligned_blocks)[n] * std::expm1(additions * std::log1p(unit)) + 2 * kUnit * std::fabs(x) + 0x1p-126;
  if (p.softcap > 0) {
    // tanh has slope 1 at most, and the result never leaves [-c, c].
    const double capped = std::min(std::fabs(x), double(p.softcap));
    e = std::min(e + kUnit * std::fabs(x), 2 * double(p.softcap)) + (0x1p-21 + 2 * kUnit) * capped;
  }
  if (p.bias) e += kUnit * (std::fabs(s - row.bias[n]) + std::fabs(s));
  return e;
}

struct Key {
  int64_t index;
  double score, error;
};

// The walk over the records of one split of one row.
class Walk {
 public:
  Walk(Verdict& verdict, const Problem& p, const JudgeOptions& options, TraceInvariant invariant) : verdict_(verdict), p_(p), options_(options), invariant_(invariant) {}

  void row(const std::vector<Key>& keys, std::optional<double> sink) {
    keys_ = keys;
    sink_ = options_.conventions.sink_first ? sink : std::nullopt;
  }

  void split(std::span<const TraceRecord> records) {
    low_ = high_ = sink_.value_or(-kInfinity);
    seen_ = sink_ ? 1 : 0;
    double m = sink_.value_or(-kInfinity), l = sink_ ? 1 : 0;
    int64_t visits = 0;
    for (const TraceRecord& r : records) {
      ++verdict_.elements;
      ++visits;
      const auto first = std::lower_bound(keys_.begin(), keys_.end(), r.key_begin, [](const Key& k, int64_t at) { return k.index < at; });
      const auto last = std::lower_bound(first, keys_.end(), r.key_end, [](const Key& k, int64_t at) { return k.index < at; });
      const int64_t before = seen_;
      for (auto k = first; k != last; ++k) {
        low_ = std::max(low_, k->score - k->error);
        high_ = std::max(high_, k->score + k->error);
      }
      seen_ += last - first;
      switch (invariant_) {
        case TraceInvariant::scale: scale(r, m, before, seen_); break;
        case TraceInvariant::maximum: maximum(r, m); break;
        case TraceInvariant::denominator: denominator(r, visits); break;
        case TraceInvariant::masked_tiles:
          if (first == last) masked(r, m, l, before);
          break;
        case TraceInvariant::last_state: break;
      }
      m = r.m;
      l = r.l;
    }
  }

  void complain(const TraceRecord& r, const char* what, double got, double expected, double ratio) {
    char text[240];
    std::snprintf(text, sizeof text, "%s at b=%ld, h=%ld, row %ld, split %ld, keys %ld to %ld: %.9g, expected %.9g", what, long(r.b), long(r.h), long(r.row),
                  long(r.split), long(r.key_begin), long(r.key_end), got, expected);
    ++verdict_.buckets[static_cast<size_t>(bucket_of(ratio))];
    fail(verdict_, Check::invariant, Disposition::incorrect, text, {r.b, r.h, r.row, -1, got, expected, 0, ratio, 0});
  }

  // |got - expected| <= bound; infinite values must agree.
  void within(const TraceRecord& r, const char* what, double got, double expected, double bound) {
    const double error = got == expected ? 0 : std::fabs(got - expected);
    const double ratio = error == 0 ? 0 : error / bound;
    if (ratio <= 1) {
      verdict_.worst_ratio = std::max(verdict_.worst_ratio, ratio);
      ++verdict_.buckets[static_cast<size_t>(bucket_of(ratio))];
    } else {
      complain(r, what, got, expected, std::isnan(ratio) ? kInfinity : ratio);  // NaN also fails `<=`
    }
  }

  void inside(const TraceRecord& r, const char* what, double got, double least, double most) {
    if (got >= least && got <= most) ++verdict_.buckets[0];
    else complain(r, what, got, got < least ? least : most, kInfinity);
  }

 private:
  // m is kept in units of log2 or of the score and converted once: three roundings of its size.
  static double conversion(double m) { return std::isfinite(m) ? 3 * kUnit * std::fabs(m) + 0x1p-126 : 0; }

  void scale(const TraceRecord& r, double m_old, int64_t before, int64_t after) {
    if (!(r.scale >= 0 && r.scale <= 1)) return complain(r, "scale", r.scale, r.scale > 1 ? 1 : 0, kInfinity);
    if (before == 0 && after == 0) return;  // anything in [0, 1]
    if (before == 0) return within(r, "scale at the first visible key", r.scale, 0, 0);
    // The two m's of the trace carry the conversion's roundings; the factor is an exp of the kernel.
    const double argument = m_old - double(r.m), exact = std::exp(std::min(argument, 0.0));
    const double error = conversion(m_old) + conversion(r.m) + 2 * kUnit * std::fabs(argument);
    within(r, "scale", r.scale, exact, exact * std::expm1(error + options_.numerics.exp_rel_error + kUnit) + 0x1p-126);
  }

  void maximum(const TraceRecord& r, double m_old) {
    if (seen_ == 0) return within(r, "m before the first visible key", r.m, -kInfinity, 0);
    if (std::isnan(r.m) || r.m < m_old) return complain(r, "m", r.m, std::max(m_old, low_), kInfinity);
    const double slack = conversion(std::max(std::fabs(low_), std::fabs(high_)));
    const double least = low_ - options_.numerics.max_lag - slack, most = high_ + slack;
    inside(r, "m", r.m, least, most);
  }

  void denominator(const TraceRecord& r, int64_t visits) {
    if (seen_ == 0) return within(r, "l before the first visible key", r.l, 0, 0);
    const Numerics& n = options_.numerics;
    const auto count = static_cast<double>(seen_);
    // One addition and one rescale for each term at most, each P an exp; the rounding of m's reference (2^-23 of
    // its size) is common to all P; P rounded to a narrower type moves the sum by half its unit in the last place.
    const double p_unit = n.l_from == DenominatorFrom::unrounded ? 0 : std::ldexp(1.0, -significand_bits(n.p_type)) * (n.p_rounding == Rounding::nearest ? 1 : 2);
    const double eps = std::expm1((count + double(visits)) * n.sum_unit + double(1 + visits) * (n.exp_rel_error + n.sum_unit) + 2 * n.sum_unit * std::fabs(r.m) + p_unit);
    const double least = 1 - std::min(1.0, eps), most = count * std::exp(n.max_lag) * (1 + eps);
    inside(r, "l", r.l, least, most);
  }

  void masked(const TraceRecord& r, double m_old, double l_old, int64_t before) {
    if (!same_value(r.m, m_old)) return complain(r, "m after a tile without a visible key", r.m, m_old, kInfinity);
    if (!same_value(r.l, l_old)) return complain(r, "l after a tile without a visible key", r.l, l_old, kInfinity);
    if (before > 0 && r.scale != 1) return complain(r, "scale of a tile without a visible key", r.scale, 1, kInfinity);
    if (!(r.scale >= 0 && r.scale <= 1)) return complain(r, "scale", r.scale, 0, kInfinity);
    ++verdict_.buckets[0];
  }

  Verdict& verdict_;
  const Problem& p_;
  const JudgeOptions& options_;
  TraceInvariant invariant_;
  std::vector<Key> keys_;
  std::optional<double> sink_;
  double low_ = 0, high_ = 0;  // where the kernel's running maximum must lie
  int64_t seen_ = 0;           // visible keys so far, a leading sink included
};

// The merged last states of one row against the LSE that the kernel gave.
void last_state(Walk& walk, const Problem& p, std::span<const TraceRecord> records, const std::vector<Key>& keys, std::optional<double> sink,
                const double* lse, int64_t row_b, int64_t row_h, int64_t row_i, const JudgeOptions& options) {
  TraceRecord where;
  where.b = static_cast<int32_t>(row_b);
  where.h = static_cast<int32_t>(row_h);
  where.row = row_i;
  where.key_end = p.shape.nk;
  // Each visible key in exactly one tile.
  std::vector<std::pair<int64_t, int64_t>> tiles;
  for (const TraceRecord& r : records) tiles.push_back({r.key_begin, r.key_end});
  std::sort(tiles.begin(), tiles.end());
  for (size_t n = 1; n < tiles.size(); ++n)
    if (tiles[n].first < tiles[n - 1].second) {
      where.key_begin = tiles[n].first;
      where.key_end = tiles[n - 1].second;
      return walk.complain(where, "visits of the same keys", 2, 1, kInfinity);
    }
  size_t tile = 0;
  for (const Key& k : keys) {
    while (tile < tiles.size() && tiles[tile].second <= k.index) ++tile;
    if (tile < tiles.size() && tiles[tile].first <= k.index) continue;
    where.key_begin = k.index;
    where.key_end = k.index + 1;
    return walk.complain(where, "visits of a visible key", 0, 1, kInfinity);
  }
  if (lse == nullptr) return;
  double m = sink.value_or(-kInfinity), l = 0;
  int64_t splits = 0;
  std::vector<TraceRecord> last;
  for (size_t n = 0; n < records.size(); ++n)
    if (n + 1 == records.size() || records[n + 1].split != records[n].split) last.push_back(records[n]);
  for (const TraceRecord& r : last) m = std::max(m, double(r.m));
  if (m == -kInfinity) return;  // an empty row: empty_rows answers for it
  for (const TraceRecord& r : last)
    if (r.m != -kInfinity) {
      l += double(r.l) * std::exp(double(r.m) - m);
      ++splits;
    }
  // A state that has the sink from the start leaves no record where it visits no tile.
  if (sink && (!options.conventions.sink_first || last.empty())) l += std::exp(*sink - m);
  const double expected = m + std::log(l);
  // ln and its argument, one exp and one addition for each merged state and the sink, m in the kernel's units
  // and the result: roundings of f32 all of them.
  const double bound = double(splits + 1) * (options.numerics.exp_rel_error + 2 * options.numerics.sum_unit) + 0x1p-22 * (1 + std::fabs(std::log(l))) +
                       8 * kUnit * std::fabs(m) + 2 * kUnit * std::fabs(expected);
  walk.within(where, "LSE against the merged last states", *lse, expected, bound);
}

}  // namespace

void check_trace(Verdict& verdict, const Problem& p, const Observation& seen, TraceInvariant invariant, const JudgeOptions& options) {
  const Shape& s = p.shape;
  Walk walk(verdict, p, options, invariant);
  RowScores scores(p, options.conventions);
  std::vector<Key> keys;
  size_t at = 0;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h)
      for (int64_t i = 0; i < s.nq; ++i) {
        const size_t begin = at;
        while (at < seen.trace.size() && seen.trace[at].b == b && seen.trace[at].h == h && seen.trace[at].row == i) ++at;
        ++verdict.rows;
        scores.load(b, h, i);
        if (scores.kind() == RowKind::nan) continue;
        if (scores.kind() == RowKind::out_of_range) {
          ++verdict.rows_out_of_range;
          continue;
        }
        keys.clear();
        for (size_t n = 0; n < scores.keys().size() && scores.kind() == RowKind::normal; ++n)
          keys.push_back({scores.keys()[n], scores.scores()[n], score_error(p, options.numerics, scores.row(), n, scores.dots()[n], scores.scores()[n])});
        const std::span<const TraceRecord> records(seen.trace.data() + begin, at - begin);
        walk.row(keys, scores.sink());
        for (size_t from = 0, to = 0; from < records.size(); from = to) {
          for (to = from; to < records.size() && records[to].split == records[from].split;) ++to;
          walk.split(records.subspan(from, to - from));
        }
        if (invariant == TraceInvariant::last_state) {
          const double* lse = seen.lse.empty() ? nullptr : &seen.lse[static_cast<size_t>((b * s.hq + h) * s.nq + i)];
          last_state(walk, p, records, keys, scores.sink(), lse, b, h, i, options);
        }
      }
  if (at != seen.trace.size()) {
    const TraceRecord& r = seen.trace[at];
    walk.complain(r, "a record of a row that is not there, or out of order", static_cast<double>(r.row), 0, kInfinity);
  }
}

}  // namespace attest
