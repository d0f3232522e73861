#include "reference/judge.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>
#include <tuple>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "reference/bound.h"
#include "reference/enclosure.h"
#include "reference/exact.h"
#include "reference/hot_loops.h"
#include "reference/scores.h"

namespace attest {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr size_t kWorst = 10;

std::string format(const char* pattern, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

// Units in the last place of `type` between two values.
double ulps_between(DType type, double got, double exact) {
  return std::isfinite(got) && std::isfinite(exact) ? std::fabs(got - exact) / ulp_at(type, exact) : kInfinity;
}

// The noise of the rows of one case that differ in their outputs, pooled. Rows whose output is mostly one value are left
// out: others with the same value would round alike.
constexpr double kSpreadWeights = 4;  // l of a row whose largest weight is at most a quarter
struct Pool {
  struct Member {
    int64_t b, h, i;
    double error2, variance;
  };
  std::vector<Member> members;
  std::unordered_set<uint64_t> seen;

  // The rows together: lambda_max of the block diagonal is the largest of the rows', at most 1 within each.
  struct Together {
    double noise = 0, threshold = kInfinity;
  };
  Together together(double rate) const {
    double error2 = 0, variance = 0, variance2 = 0, largest = 0;
    for (const Member& m : members) {
      error2 += m.error2;
      variance += m.variance;
      variance2 += m.variance * m.variance;
      largest = std::max(largest, m.variance);
    }
    if (members.size() < 2 || !(variance > 0)) return {};
    return {error2 / variance, noise_threshold({variance2 / (variance * variance), largest / variance, variance}, rate)};
  }
};

// Rows with the same hash are taken for one in the pool: their outputs agree to 8 bits, so that they
// would round alike.
uint64_t hash_outputs(const Row& row) {
  uint64_t h = 0x9E3779B97F4A7C15u;
  for (size_t d = 0; d < row.o_hi.size(); ++d)  // (what a path leaves in a column that is not judged says nothing)
    if (!row.column_nonfinite[d]) h = (std::rotl(h, 27) ^ from_double(DType::bf16, row.o_hi[d])) * 0xD6E8FEB86659FD93u;
  return h;
}

}  // namespace

struct ExactRows {
  std::unordered_map<int64_t, std::pair<Row, ExactRow<Dec50>>> rows;  // by (b Hq + h) Nq + i
};

std::shared_ptr<ExactRows> make_exact_rows() { return std::make_shared<ExactRows>(); }

struct Judge::Impl {
  HeadData head;
  std::vector<double> q;
  std::vector<float> narrow_q;
  Row row;
  RowBound bound;
  ExactRow<Dec50> exact;
  std::vector<double> error;  // |got - exact| per column

  void load_q(const Problem& p, int64_t b, int64_t h, int64_t i) {
    const auto width = static_cast<size_t>(p.shape.d);
    const uint8_t* from = p.q.storage.data() + p.q.layout.at(b, h, i, 0) * size_of(p.q.type);
    narrow_q.resize(width);
    if (p.q.type == DType::f32) std::memcpy(narrow_q.data(), from, 4 * width);
    else (p.q.type == DType::bf16 ? hot_loops().widen_bf16 : hot_loops().widen_f16)(from, p.shape.d, narrow_q.data());
    q.assign(narrow_q.begin(), narrow_q.end());
  }

  // The reference of a classified, normal row by one of the two paths, and its bound.
  void refer(const Problem& p, const JudgeOptions& options, bool exactly) {
    if (exactly) refer_exactly(p, options.exact_rows.get());
    else enclose_row(p, head, q.data(), row);
    if (options.numerics.aligned_blocks) sum_fields(p, head, q.data(), row);
    bound_row(row, head, p, options.numerics, bound);
  }

  void refer_exactly(const Problem& p, ExactRows* kept) {
    const int64_t number = (row.b * p.shape.hq + row.h) * p.shape.nq + row.i;
    if (kept != nullptr)
      if (const auto found = kept->rows.find(number); found != kept->rows.end()) {
        std::tie(row, exact) = found->second;
        return;
      }
    exact_row(p, head, q.data(), row, exact);
    if (kept != nullptr) kept->rows.emplace(number, std::pair(row, exact));
  }

  struct RowOutcome {
    bool decided = true;
    double lse_ratio = 0, worst = 0, noise = 0, threshold = kInfinity, variance = 0, error2 = 0;
  };

  // Compares one normal row with what was seen; undecided where the double path cannot tell.
  RowOutcome compare(const Problem& p, const JudgeOptions& options, const double* got, const double* got_lse, bool exactly, bool leaks) {
    RowOutcome out;
    const auto columns = static_cast<size_t>(head.dv);
    error.assign(columns, 0.0);
    const auto too_close = [&](double ratio, double blur) {
      if (exactly || !(blur > 0)) return false;
      // The verdict at 1, and the error bucket, must not depend on the path.
      const double low = std::max(0.0, ratio - blur), high = ratio + blur;
      return (low <= 1) != (high <= 1) || bucket_of(low) != bucket_of(high);
    };
    if ((row.wide || bound.near_binade) && !exactly) out.decided = false;
    for (size_t d = 0; d < columns; ++d) {
      if (row.column_nonfinite[d] || (leaks && !std::isfinite(got[d]))) continue;
      if (!std::isfinite(got[d])) {
        error[d] = kInfinity;
        out.worst = kInfinity;
        continue;
      }
      error[d] = exactly ? static_cast<double>(Dec50(abs(Dec50(got[d]) - exact.o[d]))) : std::fabs((got[d] - row.o_hi[d]) - row.o_lo[d]);
      const double ratio = bound.o[d] > 0 ? error[d] / bound.o[d] : (error[d] > 0 ? kInfinity : 0.0);
      out.worst = std::max(out.worst, ratio);
      const double blur = (bound.enclosure[d] + row.o_sum_error[d]) / bound.o[d] + ratio * 0x1p-38;
      if (too_close(ratio, blur)) out.decided = false;
      const double excess = std::max(0.0, error[d] - bound.drift[d]);
      out.error2 += excess * excess;
      out.variance += bound.variance[d];
    }
    if (got_lse != nullptr && std::isfinite(*got_lse)) {
      const double e = exactly ? static_cast<double>(Dec50(abs(Dec50(*got_lse) - exact.lse))) : std::fabs(*got_lse - row.lse);
      out.lse_ratio = e / bound.lse;
      if (too_close(out.lse_ratio, row.lse_error / bound.lse + out.lse_ratio * 0x1p-38)) out.decided = false;
    }
    if (options.noise_budget && out.variance > 0 && std::isfinite(out.error2)) {
      out.noise = out.error2 / out.variance;
      out.threshold = noise_threshold_equal_columns(static_cast<double>(columns), options.noise_rate);
      const bool near = std::fabs(out.noise - out.threshold) < out.threshold * 0x1p-20;
      if (out.noise > out.threshold || near) {
        // The kernel's tile size is not known: one that explains the noise is enough.
        const double own_variance = out.variance;
        double limit = out.threshold * out.variance;
        const auto still_above_with = [&](Tiling tiling) {
          const Spectrum spectrum = noise_spectrum(row, head, p.type, tiling, bound);
          const double variance = std::max(own_variance, spectrum.trace), threshold = noise_threshold(spectrum, options.noise_rate);
          if (variance * threshold > limit) {
            out.variance = variance;
            out.threshold = threshold;
            limit = variance * threshold;
          }
          if (!exactly && std::fabs(out.error2 - limit) < limit * 0x1p-20) out.decided = false;
          return out.error2 >= limit;
        };
        const int64_t split = p.choice.splits > 1 ? std::max<int64_t>(1, (head.nk + p.choice.splits - 1) / p.choice.splits) : head.nk;
        int64_t tile = std::max<int64_t>(1, std::min<int64_t>(16, options.numerics.tile));
        const int64_t least_tile = tile;
        while (still_above_with({split, tile}) && tile < split) tile *= 2;
        if (split < head.nk && out.error2 >= limit) still_above_with({head.nk, head.nk});
        // Nearly tied keys round alike, too, and so do keys at one distance from the maximum of their tiles.
        if (const double cell = near_tie_cell(options.numerics); cell > 0)
          for (Walk walk : {Walk::unknown, Walk::up, Walk::down})
            for (tile = least_tile; out.error2 >= limit && still_above_with({split, tile, cell, walk}) && tile < split;) tile *= 2;
        out.noise = out.error2 / out.variance;
      }
    }
    return out;
  }
};

Judge::Judge() : impl_(std::make_unique<Impl>()) {}
Judge::~Judge() = default;
Judge::Judge(Judge&&) noexcept = default;

namespace {

// Collects what fails, keeps the worst ten and the first complaint in the order of the checks.
class Tally {
 public:
  explicit Tally(Verdict& verdict) : v_(verdict) {}

  void fail(Check check, Disposition disposition, const std::string& detail) {
    if (v_.check != Check::none && v_.check <= check) return;
    v_.check = check;
    v_.disposition = disposition;
    v_.detail = detail;
  }

  void element(const ElementError& e) {
    if (v_.worst.size() < kWorst || e.ratio > v_.worst.back().ratio) {
      const auto at = std::upper_bound(v_.worst.begin(), v_.worst.end(), e, [](const ElementError& a, const ElementError& b) { return a.ratio > b.ratio; });
      v_.worst.insert(at, e);
      if (v_.worst.size() > kWorst) v_.worst.pop_back();
    }
  }
  bool wants(double ratio) const { return ratio > 0 && (v_.worst.size() < kWorst || ratio > v_.worst.back().ratio); }

  static std::string place(const Row& r, int64_t col) {
    return col < 0 ? format("LSE[b=%ld,h=%ld,i=%ld]", long(r.b), long(r.h), long(r.i))
                   : format("O[b=%ld,h=%ld,i=%ld,d=%ld]", long(r.b), long(r.h), long(r.i), long(col));
  }

  // An element that must have a certain special value.
  void special(const Row& row, int64_t col, double got, double expected, bool right, const char* because) {
    ++v_.elements;
    if (right) {
      ++v_.buckets[0];
      return;
    }
    ++v_.failures;
    ++v_.buckets[kBuckets - 1];
    (col < 0 ? v_.worst_lse_ratio : v_.worst_ratio) = kInfinity;
    element({row.b, row.h, row.i, col, got, expected, 0, kInfinity, kInfinity});
    const bool finite = std::isfinite(got);
    fail(Check::non_finite, finite ? Disposition::incorrect : Disposition::non_finite,
         place(row, col) + format(" is %.9g, expected %.9g: ", got, expected) + because);
  }

 private:
  Verdict& v_;
};

}  // namespace

Verdict Judge::operator()(const Problem& p, const Observation& seen, const JudgeOptions& options) {
  Impl& me = *impl_;
  Verdict v;
  Tally tally(v);
  const Shape& s = p.shape;
  if (options.details) *options.details = {};

  // Status and memory.
  switch (seen.status) {
    case RunStatus::ok: break;
    case RunStatus::unsupported: v.disposition = Disposition::not_supported; v.detail = seen.message; return v;
    case RunStatus::failed: tally.fail(Check::status, Disposition::incorrect, "the kernel failed: " + seen.message); return v;
    case RunStatus::crashed: tally.fail(Check::status, Disposition::crashed, "the kernel crashed: " + seen.message); return v;
    case RunStatus::timed_out: tally.fail(Check::status, Disposition::timed_out, "the kernel did not end: " + seen.message); return v;
  }
  if (!seen.overrun.empty()) tally.fail(Check::memory, Disposition::overran_buffer, seen.overrun);
  if (!seen.unwritten.empty()) tally.fail(Check::memory, Disposition::incorrect, seen.unwritten);
  if (!seen.input_change.empty()) tally.fail(Check::memory, Disposition::incorrect, seen.input_change);
  const auto rows = static_cast<size_t>(s.rows());
  if (seen.o.size() != rows * static_cast<size_t>(s.dv) || (!seen.lse.empty() && seen.lse.size() != rows)) {
    tally.fail(Check::status, Disposition::incorrect, format("the observation has %zu outputs, expected %zu", seen.o.size(), rows * static_cast<size_t>(s.dv)));
    return v;
  }

  Pool pool;
  int64_t head_b = -1, head_k = -1;
  for (int64_t b = 0; b < s.b; ++b)
    for (int64_t h = 0; h < s.hq; ++h) {
      const int64_t hk = s.key_head(h);
      if (b != head_b || hk != head_k) {
        me.head.load(p, b, hk);
        head_b = b;
        head_k = hk;
      }
      const bool leaks = options.conventions.nonfinite_v_leaks && me.head.v_nonfinite;
      for (int64_t i = 0; i < s.nq; ++i) {
        const auto at = static_cast<size_t>((b * s.hq + h) * s.nq + i);
        const double* got = seen.o.data() + at * static_cast<size_t>(s.dv);
        const double* got_lse = seen.lse.empty() ? nullptr : &seen.lse[at];
        me.load_q(p, b, h, i);
        Row& row = me.row;
        classify(p, options.conventions, me.head, me.q.data(), b, h, i, row);
        ++v.rows;
        if (row.kind == RowKind::out_of_range) {
          ++v.rows_out_of_range;
          continue;
        }
        if (row.kind == RowKind::nan) {
          for (int64_t d = 0; d < s.dv; ++d) tally.special(row, d, got[d], NAN, std::isnan(got[d]), "a visible key has a NaN or +inf score");
          if (got_lse) tally.special(row, -1, *got_lse, NAN, std::isnan(*got_lse), "a visible key has a NaN or +inf score");
          continue;
        }
        if (row.kind == RowKind::empty) {
          const bool nan = options.conventions.empty_row_o_nan && !row.has_sink;
          for (int64_t d = 0; d < s.dv; ++d) {
            const bool leaked = leaks && !std::isfinite(got[d]);
            tally.special(row, d, got[d], nan ? NAN : 0.0, leaked || (nan ? std::isnan(got[d]) : got[d] == 0.0), "no key is visible");
          }
          if (got_lse) {
            if (row.has_sink) {
              const double bound = 0x1p-22 * std::fabs(row.sink) + 0x1p-126;
              tally.special(row, -1, *got_lse, row.sink, std::fabs(*got_lse - row.sink) <= bound, "no key is visible, the sink is all");
            } else {
              const double expected = options.conventions.empty_row_lse_inf ? kInfinity : -kInfinity;
              tally.special(row, -1, *got_lse, expected, *got_lse == expected, "no key is visible");
            }
          }
          continue;
        }

        bool exactly = options.exact;
        me.refer(p, options, exactly);
        Impl::RowOutcome outcome = me.compare(p, options, got, got_lse, exactly, leaks);
        if (!outcome.decided) {
          exactly = true;
          me.refer(p, options, true);
          outcome = me.compare(p, options, got, got_lse, true, leaks);
        }
        if (exactly) ++v.rows_exact;

        double largest_error = 0, largest_output = 0;
        // Positions of NaN and infinity, then LSE, then O against its bound.
        for (int64_t d = 0; d < s.dv; ++d) {
          const auto c = static_cast<size_t>(d);
          const double o = row.o_hi[c];
          if (row.column_nonfinite[c]) {
            tally.special(row, d, got[d], NAN, !std::isfinite(got[d]), "a visible key has a non-finite value there");
            continue;
          }
          if (!std::isfinite(got[d])) {
            tally.special(row, d, got[d], o, leaks, "every visible score and value is finite");
            continue;
          }
          ++v.elements;
          const double ratio = me.bound.o[c] > 0 ? me.error[c] / me.bound.o[c] : (me.error[c] > 0 ? kInfinity : 0.0);
          ++v.buckets[static_cast<size_t>(bucket_of(ratio))];
          v.worst_ratio = std::max(v.worst_ratio, ratio);
          largest_error = std::max(largest_error, me.error[c]);
          largest_output = std::max(largest_output, std::fabs(o));
          if (me.bound.score_part[c] > me.bound.range[c] / 4) ++v.loose;
          if (!(ratio <= 1)) {  // a bound that is not a number fails, too
            ++v.failures;
            tally.fail(Check::bound, Disposition::incorrect,
                       Tally::place(row, d) + format(" is %.9g, exact %.9g: error %.3g is %.3g times the bound %.3g", got[d], o, me.error[c], ratio, me.bound.o[c]));
          }
          if (options.details) options.details->elements.push_back({b, h, i, d, got[d], o, me.bound.o[c], ratio, 0});
          if (tally.wants(ratio))
            tally.element({b, h, i, d, got[d], o, me.bound.o[c], ratio, ulps_between(p.type, got[d], o)});
        }
        if (largest_output > 0) {
          const double ulps = largest_error / ulp_at(p.type, largest_output);
          v.errors_by_keys[static_cast<size_t>(key_bucket_of(row.size()))].add({1, ulps, std::log2(std::max(ulps, 0x1p-10))});
        }
        if (got_lse) {
          if (!std::isfinite(*got_lse)) {
            tally.special(row, -1, *got_lse, row.lse, false, "every visible score is finite");
          } else {
            ++v.elements;
            ++v.buckets[static_cast<size_t>(bucket_of(outcome.lse_ratio))];
            if (options.details) options.details->elements.push_back({b, h, i, -1, *got_lse, row.lse, me.bound.lse, outcome.lse_ratio, 0});
            v.worst_lse_ratio = std::max(v.worst_lse_ratio, outcome.lse_ratio);
            if (!(outcome.lse_ratio <= 1)) {
              ++v.failures;
              tally.fail(Check::lse, Disposition::incorrect,
                         Tally::place(row, -1) + format(" is %.9g, exact %.9g: error %.3g is %.3g times the bound %.3g", *got_lse, row.lse, std::fabs(*got_lse - row.lse), outcome.lse_ratio, me.bound.lse));
            }
            if (tally.wants(outcome.lse_ratio) && outcome.lse_ratio > 1)
              tally.element({b, h, i, -1, *got_lse, row.lse, me.bound.lse, outcome.lse_ratio, ulps_between(DType::f32, *got_lse, row.lse)});
          }
        }
        if (!options.noise_budget) continue;
        if (options.details) options.details->rows.push_back({b, h, i, outcome.noise, outcome.threshold});
        v.worst_budget = std::max(v.worst_budget, outcome.noise);
        v.worst_budget_share = std::max(v.worst_budget_share, outcome.noise / outcome.threshold);
        if (outcome.variance > 0) {
          ++v.noise_buckets[static_cast<size_t>(bucket_of(outcome.noise))];
          ++v.budget_buckets[static_cast<size_t>(bucket_of(outcome.noise / outcome.threshold))];
          v.least_threshold = std::min(v.least_threshold, outcome.threshold);
        }
        if (!(outcome.noise <= outcome.threshold)) {
          ++v.budget_failures;
          tally.fail(Check::budget, Disposition::incorrect,
                     format("row [b=%ld,h=%ld,i=%ld] has %.3g times the rounding noise that its inputs explain, threshold %.3g", long(b), long(h), long(i), outcome.noise, outcome.threshold));
        }
        if (row.l >= kSpreadWeights && outcome.variance > 0 && std::isfinite(outcome.error2) && pool.seen.insert(hash_outputs(row)).second) {
          pool.members.push_back({b, h, i, outcome.error2, outcome.variance});
        }
      }
    }

  if (options.noise_budget) {
    Pool::Together all = pool.together(options.noise_rate);
    // Rows whose keys round alike are not independent of each other; that is looked for only where it decides.
    if (const double cell = near_tie_cell(options.numerics); !(all.noise <= all.threshold) && cell > 0) {
      std::erase_if(pool.members, [&](const Pool::Member& m) {
        me.head.load(p, m.b, s.key_head(m.h));
        me.load_q(p, m.b, m.h, m.i);
        classify(p, options.conventions, me.head, me.q.data(), m.b, m.h, m.i, me.row);
        me.refer(p, options, false);
        for (Walk walk : {Walk::unknown, Walk::up, Walk::down})
          for (int64_t tile = 16; tile == 16 || tile < s.nk; tile *= 2)
            if (rounds_alike(me.row, {s.nk, tile, cell, walk})) return true;
        return false;
      });
      all = pool.together(options.noise_rate);
    }
    v.worst_budget_share = std::max(v.worst_budget_share, all.noise / all.threshold);
    if (!(all.noise <= all.threshold)) {
      ++v.budget_failures;
      tally.fail(Check::budget, Disposition::incorrect,
                 format("%zu rows together have %.3g times the rounding noise that their inputs explain, threshold %.3g", pool.members.size(), all.noise, all.threshold));
    }
  }
  return v;
}

RowReference Judge::row(const Problem& p, int64_t b, int64_t h, int64_t i, const JudgeOptions& options) {
  Impl& me = *impl_;
  me.head.load(p, b, p.shape.key_head(h));
  me.load_q(p, b, h, i);
  classify(p, options.conventions, me.head, me.q.data(), b, h, i, me.row);
  const auto columns = static_cast<size_t>(p.shape.dv);
  RowReference out;
  out.in_range = me.row.kind != RowKind::out_of_range;
  out.nan = me.row.kind == RowKind::nan;
  out.visible = me.row.size();
  out.o.assign(columns, 0.0);
  out.bound.assign(columns, 0.0);
  out.variance.assign(columns, 0.0);
  out.loose.assign(columns, 0.0);
  switch (me.row.kind) {
    case RowKind::nan:
      out.m = out.l = out.lse = NAN;
      out.o.assign(columns, NAN);
      return out;
    case RowKind::empty:
      out.empty = true;
      out.m = out.lse = me.row.has_sink ? me.row.sink : -kInfinity;
      out.l = me.row.has_sink ? 1 : 0;
      out.lse_bound = me.row.has_sink ? 0x1p-22 * std::fabs(me.row.sink) + 0x1p-126 : 0;
      if (options.conventions.empty_row_lse_inf && !me.row.has_sink) out.lse = kInfinity;
      if (options.conventions.empty_row_o_nan && !me.row.has_sink) out.o.assign(columns, NAN);
      return out;
    case RowKind::out_of_range: return out;
    case RowKind::normal: break;
  }
  me.refer(p, options, true);
  out.m = me.row.m;
  out.l = me.row.l;
  out.lse = me.row.lse;
  out.lse_bound = me.bound.lse;
  for (size_t d = 0; d < columns; ++d) {
    out.o[d] = me.row.column_nonfinite[d] ? NAN : me.row.o_hi[d];
    out.bound[d] = me.row.column_nonfinite[d] ? kInfinity : me.bound.o[d];
    out.variance[d] = me.bound.variance[d];
    out.loose[d] = me.bound.score_part[d] > me.bound.range[d] / 4 ? 1.0 : 0.0;
  }
  return out;
}

}  // namespace attest
