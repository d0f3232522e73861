#include "reference/diagnosis/measured.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <string>

#include "reference/diagnosis/candidates.h"

namespace attest {

namespace {

constexpr size_t kRows = 8;         // that a number is fitted to
constexpr size_t kThresholds = 64;  // tried
constexpr size_t kBestThresholds = 3;
constexpr size_t kConstants = 4;    // of one kind of fault

std::string decimal(double x) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", x);
  return text;
}

RowPrediction predicted(const SeenRow& row, const Fault& fault) { return row.predict->row(row.here(fault), row.place, row.columns); }

class Measure {
 public:
  Measure(const Problem& p, const std::vector<SeenRow>& rows, const std::vector<Walk>& walks) : p_(p), rows_(rows), walks_(walks) {
    // Wrong rows of several runs, each run in turn.
    for (size_t skip = 0; few_.size() < kRows && skip < rows.size(); ++skip) {
      const Predictor* run = nullptr;
      size_t of_run = 0;
      for (const SeenRow& row : rows) {
        if (row.predict != run) run = row.predict, of_run = 0;
        if (row.wrong && of_run++ == skip && few_.size() < kRows) few_.push_back(&row);
      }
    }
  }

  std::vector<Fault> take() { return std::move(list_); }

  void powers() {
    const auto base = [](double power) { return "powers of " + decimal(std::exp(power)) + " for powers of e, as measured"; };
    fit(Family::exponential_base, walks_.front(), "", base, [](Fault& f, double x) { f.exponent_factor = x; });
    for (const Walk& w : few_walks()) {
      fit(Family::exponential_base, w, ", in weights alone", base, [](Fault& f, double x) { f.weight_factor = x; });
      fit(Family::rescale_factor_wrong, w, "", base, [](Fault& f, double x) { f.fold = Fold::factor_power, f.merges_like_tiles = true, f.number = x; });
      if (w.splits > 1) fit(Family::merge_factor_wrong, w, "", base, [](Fault& f, double x) { f.merge = Merge::power, f.number = x; });
      if (w.splits > 1 && p_.sink) fit(Family::merge_factor_wrong, w, ", with the sink too", base, [](Fault& f, double x) { f.merge = Merge::power, f.merges_sink = true, f.number = x; });
    }
    const auto times = [](double x) { return "times " + decimal(x) + ", as measured"; };
    if (p_.sink) fit(Family::sink_wrong, walks_.front(), "", times, [](Fault& f, double x) { f.sink = SinkRule::times, f.number = x; });
    if (p_.bias) fit(Family::bias_wrong, walks_.front(), "", times, [](Fault& f, double x) { f.bias = BiasRule::times, f.number = x; });
  }

  // LSE tells the constant: what a model with score 0 adds to exp(LSE), times exp(c), is what was added.
  void constants() {
    std::vector<uint8_t> kinds;
    if (p_.mask) kinds.push_back(hides::mask);
    if (p_.bias) kinds.push_back(hides::bias);
    if (p_.causal) kinds.push_back(hides::causal);
    if (p_.window.left || p_.window.right) kinds.push_back(hides::window);
    if (p_.key_lengths) kinds.push_back(hides::length);
    if (kinds.size() > 1) kinds.push_back(hides::anything);
    for (const uint8_t kind : kinds)
      constant(Family::masked_scored_finite, walks_.front(), kind == hides::anything ? "" : " where one thing alone hides them", [&](Fault& f, double c) { f.masked_score = c, f.scored_kinds = kind; });
    std::set<std::pair<int64_t, Cut>> done;
    for (const Walk& w : walks_)
      if (w.splits > 1 && done.insert({w.splits, w.cut}).second) constant(Family::merge_empty_counted, w, " as its LSE", [](Fault& f, double c) { f.merge = Merge::empty_counted, f.number = c; });
  }

  // Rises of the maximum tell the thresholds that can be told apart.
  void thresholds() {
    for (const Walk& w : few_walks()) {
      Fault right;
      right.walk = w;
      std::set<double> rises;
      for (const SeenRow& row : rows_) {
        const std::vector<PredictedVisit> visits = predicted(row, right).visits;
        for (size_t a = 0; a < visits.size(); ++a)
          for (size_t b = a + 1; b < visits.size() && visits[b].split == visits[a].split; ++b)
            if (const double rise = visits[b].m - visits[a].m; rise > 0 && std::isfinite(rise)) rises.insert(rise);
      }
      std::vector<double> between;
      for (auto next = rises.begin(); next != rises.end() && std::next(next) != rises.end(); ++next) between.push_back((*next + *std::next(next)) / 2);
      for (const auto& [fold, what] : {std::pair{Fold::lazy, "up to about %s, as measured, keeping the lower maximum"}, {Fold::skip_small, "up to about %s, as measured"}, {Fold::skip_large, "beyond about %s, as measured"}}) {
        std::vector<std::pair<double, Fault>> tried;
        for (size_t n = 0; n < std::min(kThresholds, between.size()); ++n) {
          Fault f = of(Family::rescale_by_size_missing, w);
          f.fold = fold;
          f.number = between[n * between.size() / std::min(kThresholds, between.size())];
          f.merges_like_tiles = fold != Fold::lazy;
          tried.emplace_back(cost(f), f);
        }
        std::stable_sort(tried.begin(), tried.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
        if (tried.size() > kBestThresholds) tried.resize(kBestThresholds);
        for (auto& [off, f] : tried) {
          char text[96];
          std::snprintf(text, sizeof text, what, decimal(f.number).c_str());
          f.what = text;
          list_.push_back(f);
        }
      }
    }
  }

  // LSE as a m + b ln l + c: by least squares.
  void affine_lse() {
    std::vector<std::array<double, 3>> points;  // m, ln l, seen
    for (const SeenRow& row : rows_) {
      if (!row.lse || !std::isfinite(*row.lse)) continue;
      Fault right;
      right.walk = walks_.front();
      const RowPrediction due = predicted(row, right);
      if (std::isfinite(due.m) && std::isfinite(due.ln_l)) points.push_back({due.m, due.ln_l, *row.lse});
    }
    if (points.size() < 4) return;
    const auto sum = [&](auto of) {
      double total = 0;
      for (const auto& x : points) total += of(x[0], x[1], x[2]);
      return total;
    };
    const double mm = sum([](double m, double, double) { return m * m; }), ml = sum([](double m, double l, double) { return m * l; }), ll = sum([](double, double l, double) { return l * l; });
    const double my = sum([](double m, double, double y) { return m * y; }), ly = sum([](double, double l, double y) { return l * y; });
    const auto add = [&](double a, double b, double c) {
      if (!std::isfinite(a) || !std::isfinite(b)) return;
      Fault f = of(Family::lse_wrong, walks_.front());
      f.free_numbers = (a != 1) + (b != 1) + (c != 0);
      f.lse = LseRule::affine;
      f.lse_of_m = a;
      f.lse_of_l = b;
      f.lse_plus = c;
      f.what = decimal(a) + " m + " + decimal(b) + " ln l" + (c != 0 ? " + " + decimal(c) : "") + ", as measured";
      list_.push_back(f);
    };
    add((my - ml) / mm, 1, 0);
    add(1, (ly - ml) / ll, 0);
    add(1, 1, sum([](double m, double l, double y) { return y - m - l; }) / double(points.size()));
    const double determinant = mm * ll - ml * ml;
    if (determinant > 1e-9 * mm * ll) add((my * ll - ly * ml) / determinant, (ly * mm - my * ml) / determinant, 0);
  }

  // The columns of O that are wrong say which ones a fault of O is about.
  void columns() {
    int64_t first = p_.shape.dv, last = -1;
    for (const SeenRow& row : rows_) {
      if (!row.wrong) continue;
      Fault right;
      right.walk = walks_.front();
      const RowPrediction due = predicted(row, right);
      for (size_t d = 0; d < row.columns.size(); ++d)
        if (due.o[d].misfit(row.o[d]) > 2) first = std::min(first, row.columns[d]), last = std::max(last, row.columns[d]);
    }
    if (last < 0) return;
    std::set<std::pair<int64_t, int64_t>> ranges;
    const int64_t all = std::numeric_limits<int64_t>::max();
    for (const int64_t unit : {1, 8, 16, 32, 64, 128}) {
      if (first / unit > 0) ranges.insert({first / unit * unit, all});
      if (first < unit || first == 0) ranges.insert({0, (last / unit + 1) * unit});
      ranges.insert({first / unit * unit, (last / unit + 1) * unit});
    }
    ranges.erase({0, all});
    for (const auto& [begin, end] : ranges) {
      const std::string what = "in columns from " + std::to_string(begin) + " on" + (end < all ? ", before " + std::to_string(end) : "") + ", as measured";
      const auto add = [&](Family family, const Walk& w, auto change) {
        Fault f = of(family, w);
        f.columns_begin = begin;
        f.columns_end = end;
        f.what = what;
        change(f);
        list_.push_back(f);
      };
      for (const Walk& w : walks_)
        for (const bool merges : {true, false}) {
          if (!merges && w.splits == 1 && !p_.sink) continue;
          add(Family::rescale_of_o_missing, w, [&](Fault& f) { f.fold = Fold::no_rescale_o, f.merges_like_tiles = merges; });
          add(Family::rescale_factor_wrong, w, [&](Fault& f) { f.fold = Fold::late_o, f.merges_like_tiles = merges, f.what = "that of the tile before, " + what; });
        }
      add(Family::not_divided, walks_.front(), [](Fault& f) { f.division = Division::none; });
    }
  }

 private:
  Fault of(Family family, const Walk& walk) const {
    Fault f;
    f.family = family;
    f.walk = walk;
    f.free_numbers = 1;
    return f;
  }

  std::vector<Walk> few_walks() const { return {walks_.begin(), walks_.begin() + static_cast<int64_t>(std::min<size_t>(walks_.size(), 6))}; }

  // How far off a model is, over a few rows; each element counts at most 1.
  double cost(const Fault& f) const {
    double sum = 0;
    for (const SeenRow* row : few_) {
      const RowPrediction model = predicted(*row, f);
      const auto add = [&](const Predicted& e, double seen) {
        const double off = std::fabs(seen - e.value);
        sum += e.overflow || !std::isfinite(off) ? (std::isfinite(seen) || !e.overflow ? 1 : 0) : off / (off + 1e-6 + std::fabs(e.value));
      };
      for (size_t d = 0; d < row->o.size(); ++d) add(model.o[d], row->o[d]);
      if (row->lse) add(model.lse, *row->lse);
    }
    return sum;
  }

  // A factor or power: coarse steps, then a golden section.
  void fit(Family family, const Walk& walk, const char* where, auto in_words, auto set) {
    if (few_.empty()) return;
    const auto at = [&](double x) {
      Fault f = of(family, walk);
      set(f, x);
      return f;
    };
    constexpr int kSteps = 16;  // from 2^-4 to 2^4
    double best = 1, least = cost(at(1));
    for (int n = -kSteps; n <= kSteps; ++n)
      if (const double c = n == 0 ? least : cost(at(std::exp2(n / 4.0))); c < least) least = c, best = std::exp2(n / 4.0);
    if (best == 1) return;
    constexpr double kGolden = 0.6180339887498949;
    double low = best * std::exp2(-0.25), high = best * std::exp2(0.25);
    double a = high - kGolden * (high - low), b = low + kGolden * (high - low), ca = cost(at(a)), cb = cost(at(b));
    for (int n = 0; n < 40; ++n) {
      if (ca < cb) {
        high = b, b = a, cb = ca;
        a = high - kGolden * (high - low), ca = cost(at(a));
      } else {
        low = a, a = b, ca = cb;
        b = low + kGolden * (high - low), cb = cost(at(b));
      }
    }
    Fault f = at((low + high) / 2);
    f.what = in_words((low + high) / 2) + where;
    list_.push_back(f);
  }

  void constant(Family family, const Walk& walk, const char* where, auto set) {
    Fault zero = of(family, walk), right;
    set(zero, 0.0);
    right.walk = walk;
    std::vector<double> found;
    for (const SeenRow& row : rows_) {
      if (!row.wrong || !row.lse || !std::isfinite(*row.lse) || found.size() >= kConstants) continue;
      const double with = predicted(row, zero).lse.value, without = predicted(row, right).lse.value, seen = *row.lse;
      if (!std::isfinite(with)) continue;
      const double most = std::max({with, without, seen});
      const double added = std::exp(seen - most) - std::exp(without - most), of_zero = std::exp(with - most) - std::exp(without - most);
      double c = std::isinf(without) ? seen - with : std::log(added / of_zero);
      if (!std::isfinite(c) || (!std::isinf(without) && added < 1e-4)) continue;
      // LSE is rounded to f32.
      if (std::fabs(c - std::round(c)) < 0x1p-22 * (16 + std::fabs(seen))) c = std::round(c);
      if (std::any_of(found.begin(), found.end(), [&](double x) { return std::fabs(x - c) <= 1e-3 * (1 + std::fabs(c)); })) continue;
      found.push_back(c);
      Fault f = of(family, walk);
      set(f, c);
      f.what = decimal(c) + where + ", as measured";
      list_.push_back(f);
    }
  }

  const Problem& p_;
  const std::vector<SeenRow>& rows_;
  const std::vector<Walk>& walks_;
  std::vector<const SeenRow*> few_;
  std::vector<Fault> list_;
};

}  // namespace

std::vector<Fault> measured(const Problem& problem, const std::vector<SeenRow>& rows, const std::vector<Walk>& walks) {
  Measure measure(problem, rows, walks);
  measure.columns();
  measure.affine_lse();
  measure.constants();
  measure.powers();
  measure.thresholds();
  return measure.take();
}

std::optional<LseErrors> median_lse_errors(const std::vector<SeenRow>& rows, const Fault& fault, size_t least) {
  std::vector<double> off, tolerance;
  for (const SeenRow& row : rows)
    if (row.lse && std::isfinite(*row.lse)) {
      const Predicted lse = predicted(row, fault).lse;
      off.push_back(std::fabs(lse.value - *row.lse));
      tolerance.push_back(lse.tolerance);
    }
  if (off.size() < std::max<size_t>(least, 1)) return std::nullopt;
  const auto median = [](std::vector<double>& x) {
    std::nth_element(x.begin(), x.begin() + static_cast<int64_t>(x.size() / 2), x.end());
    return x[x.size() / 2];
  };
  return LseErrors{median(off), median(tolerance)};
}

}  // namespace attest
