// Do the two paths of the judge agree? Judges the same results by the double path and by cpp_dec_float and compares
// every element and every row.
//
//   judge_agreement [--rows N] [--long-rows N] [--seed S] [--threads T]
//   judge_agreement --case SEED...     the cases of short rows that complaints name
//
// N rows of 1 to 64 keys, D and Dv up to 16, and N long rows of 1024 keys, D = Dv = 64, over all regimes and types, results
// of the host kernel. Each row is judged as it is, and with planted results: one element at bound x (1 -+ 1e-9) and exactly at the bound,
// and the whole row scaled to its noise threshold x (1 -+ 1e-9). Exit 1 where the paths disagree, or where a planted
// result is not judged as planted.
#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>

#include "kernel/runner/kernel.h"
#include "properties/generate/generate.h"
#include "reference/judge.h"

using namespace attest;

namespace {

constexpr double kSame = 1e-9;  // of an error / bound and of R, or of 1 where that is larger

struct Share {
  int64_t rows = 0, exact = 0;
};

struct Tally {
  int64_t rows = 0, exact = 0, elements = 0, planted = 0, planted_decided = 0, disagreements = 0;
  double ratio_difference = 0, noise_difference[3] = {};
  std::map<std::string, Share> regimes;
  std::vector<std::string> complaints;

  void add(const Tally& t) {
    rows += t.rows;
    exact += t.exact;
    elements += t.elements;
    planted += t.planted;
    planted_decided += t.planted_decided;
    disagreements += t.disagreements;
    ratio_difference = std::max(ratio_difference, t.ratio_difference);
    for (int n = 0; n < 3; ++n) noise_difference[n] = std::max(noise_difference[n], t.noise_difference[n]);
    for (const auto& [name, share] : t.regimes) {
      regimes[name].rows += share.rows;
      regimes[name].exact += share.exact;
    }
    complaints.insert(complaints.end(), t.complaints.begin(), t.complaints.end());
  }
  void complain(const std::string& what) {
    ++disagreements;
    if (complaints.size() < 10) complaints.push_back(what);
  }
};

double difference(double a, double b) {
  if (a == b) return 0;
  return std::isfinite(a) && std::isfinite(b) ? std::fabs(a - b) / std::max({1.0, a, b}) : INFINITY;
}

class Comparer {
 public:
  explicit Comparer(Tally& tally) : tally_(tally), host_(std::get<Kernel>(Kernel::load("host"))) {}

  void one_case(uint64_t seed, const Target& target, const Recipe& recipe) {
    Choices c = Choices::seeded(seed);
    const Generated g = generate(c, target, recipe);
    const Problem& p = g.problem;
    if (!host_.refuses(p).empty()) return;
    Observation seen = host_.run(p, {.check_memory = false});
    options_ = {.numerics = host_.numerics(p, Contract::strict), .conventions = host_.conventions(), .exact_rows = make_exact_rows()};

    const int64_t exact = both(p, seen, fmt::format("seed {}", seed));
    tally_.rows += p.shape.rows();
    tally_.exact += exact;
    for (Regime r : g.regimes) {
      Share& s = tally_.regimes[std::string(name_of(r))];
      s.rows += p.shape.rows();
      s.exact += exact;
    }
    plant(p, seen, seed, c);
  }

 private:
  // Judges by both paths and compares; returns the rows that the double path handed on.
  int64_t both(const Problem& p, const Observation& seen, const std::string& where) {
    JudgeOptions fast = options_, slow = options_;
    fast.details = &fast_;
    slow.details = &slow_;
    slow.exact = true;
    const Verdict a = judge_(p, seen, fast), b = judge_(p, seen, slow);
    tally_.elements += b.elements;
    if (a.disposition != b.disposition || a.check != b.check || a.failures != b.failures || a.budget_failures != b.budget_failures ||
        a.buckets != b.buckets || a.elements != b.elements || fast_.elements.size() != slow_.elements.size() || fast_.rows.size() != slow_.rows.size()) {
      std::string what = a.check != b.check ? "" : "; what differs:";
      if (a.failures != b.failures) what += fmt::format(" {} and {} failures", a.failures, b.failures);
      if (a.budget_failures != b.budget_failures) what += fmt::format(" {} and {} rows over their budget", a.budget_failures, b.budget_failures);
      for (size_t n = 0; n < a.buckets.size(); ++n)
        if (a.buckets[n] != b.buckets[n]) what += fmt::format(" {} and {} elements in bucket {}", a.buckets[n], b.buckets[n], n);
      tally_.complain(fmt::format("{}: double path says {} / {}, cpp_dec_float {} / {}{}", where, name_of(a.check), a.detail, name_of(b.check), b.detail, what));
      return a.rows_exact;
    }
    for (size_t n = 0; n < fast_.elements.size(); ++n) {
      const ElementError &x = fast_.elements[n], &y = slow_.elements[n];
      tally_.ratio_difference = std::max(tally_.ratio_difference, difference(x.ratio, y.ratio));
      if (bucket_of(x.ratio) != bucket_of(y.ratio) || difference(x.ratio, y.ratio) > kSame)
        tally_.complain(fmt::format("{}: O[{},{},{},{}] has error/bound {:.17g} and {:.17g}", where, x.b, x.h, x.row, x.col, x.ratio, y.ratio));
    }
    for (size_t n = 0; n < fast_.rows.size(); ++n) {
      const Details::Noise &x = fast_.rows[n], &y = slow_.rows[n];
      double& most = tally_.noise_difference[static_cast<int>(p.type)];
      most = std::max(most, difference(x.r, y.r));
      if ((x.r > x.threshold) != (y.r > y.threshold) || difference(x.r, y.r) > kSame)
        tally_.complain(fmt::format("{}: row [{},{},{}] has R {:.17g} of {:.17g} and {:.17g} of {:.17g}", where, x.b, x.h, x.row, x.r, x.threshold, y.r, y.threshold));
    }
    return a.rows_exact;
  }

  // Moves one element of one row to its bound, then the row to its noise threshold.
  void plant(const Problem& p, Observation& seen, uint64_t seed, Choices& c) {
    const Shape& s = p.shape;
    if (s.rows() == 0 || s.dv == 0) return;
    const int64_t b = c.between(0, s.b - 1), h = c.between(0, s.hq - 1), i = c.between(0, s.nq - 1), d = c.between(0, s.dv - 1);
    const RowReference row = judge_.row(p, b, h, i, options_);
    if (!row.in_range || row.nan || row.empty) return;
    const auto first = static_cast<size_t>(((b * s.hq + h) * s.nq + i) * s.dv), at = first + static_cast<size_t>(d);
    const double o = row.o[static_cast<size_t>(d)], bound = row.bound[static_cast<size_t>(d)];
    const std::vector<double> kept(seen.o.begin() + static_cast<int64_t>(first), seen.o.begin() + static_cast<int64_t>(first) + s.dv);
    if (std::isfinite(o) && bound > 0) {
      for (double factor : {1 - 1e-9, 1.0, 1 + 1e-9})
        for (double sign : {-1.0, 1.0}) {
          seen.o[at] = o + sign * bound * factor;
          both(p, seen, fmt::format("seed {}, planted at the bound x {:.10g}", seed, factor));
          ++tally_.planted;
          // The planted value is a double: does it say anything about the exact bound?
          const double rounding = 2 * std::ldexp(std::fabs(seen.o[at]) + std::fabs(o), -53);
          if (factor == 1.0 || rounding > 0.5e-9 * bound) continue;
          ++tally_.planted_decided;
          const auto x = std::find_if(slow_.elements.begin(), slow_.elements.end(), [&](const ElementError& e) { return e.b == b && e.h == h && e.row == i && e.col == d; });
          if (x == slow_.elements.end() || (x->ratio > 1) != (factor > 1))
            tally_.complain(fmt::format("seed {}: planted at the bound x {:.10g}, judged {:.17g}", seed, factor, x == slow_.elements.end() ? NAN : x->ratio));
        }
    }
    std::copy(kept.begin(), kept.end(), seen.o.begin() + static_cast<int64_t>(first));
    // The row's threshold, as the exact path sees it where the row is over it.
    for (double factor : {1 - 1e-9, 1 + 1e-9}) {
      double size = 1;
      for (int round = 0; round < 3; ++round) {
        const auto x = std::find_if(slow_.rows.begin(), slow_.rows.end(), [&](const Details::Noise& e) { return e.b == b && e.h == h && e.row == i; });
        if (x == slow_.rows.end() || !(x->r > 0) || !std::isfinite(x->r)) return;
        size *= std::sqrt(x->threshold * factor / x->r);
        for (int64_t k = 0; k < s.dv; ++k) {
          const auto n = static_cast<size_t>(k);
          if (std::isfinite(row.o[n]) && std::isfinite(kept[n])) seen.o[first + n] = row.o[n] + size * (kept[n] - row.o[n]);
        }
        both(p, seen, fmt::format("seed {}, planted at the noise threshold x {:.10g}", seed, factor));
      }
      ++tally_.planted;
    }
    std::copy(kept.begin(), kept.end(), seen.o.begin() + static_cast<int64_t>(first));
  }

  Tally& tally_;
  Kernel host_;
  Judge judge_;
  JudgeOptions options_;
  Details fast_, slow_;
};

const Recipe kShortRows{.max_keys = 64, .max_width = 16, .work = 5e4};

Tally these_cases(const std::vector<uint64_t>& seeds) {
  Tally t;
  Comparer comparer(t);
  for (uint64_t seed : seeds) comparer.one_case(seed, Target::from_table(std::get<Kernel>(Kernel::load("host")).table()), kShortRows);
  return t;
}

// Cases until `rows` rows were judged, shared among threads by their numbers.
Tally compare(int64_t rows, bool long_rows, uint64_t seed, int threads) {
  Target target = Target::from_table(std::get<Kernel>(Kernel::load("host")).table());
  Recipe recipe = kShortRows;
  if (long_rows) {
    target.widths = {64};
    recipe = {.min_keys = 1024, .max_keys = 1024, .work = 4e5};
  }
  Tally all;
  std::mutex lock;
  std::atomic<uint64_t> next{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < threads; ++t)
    workers.emplace_back([&] {
      Tally mine;
      Comparer comparer(mine);
      while (true) {
        {
          const std::lock_guard guard(lock);
          all.add(mine);
          mine = {};
          if (all.rows >= rows) return;
        }
        for (int n = 0; n < (long_rows ? 1 : 16); ++n) comparer.one_case(Choices::mix(seed, next++ * 2 + (long_rows ? 1 : 0)), target, recipe);
      }
    });
  for (std::thread& w : workers) w.join();
  return all;
}

void print(const char* title, const Tally& t) {
  fmt::print("{}: {} rows, {} elements, {} planted results ({} whose verdict is known)\n", title, t.rows, t.elements, t.planted, t.planted_decided);
  fmt::print("  disagreements                {}\n", t.disagreements);
  fmt::print("  rows in cpp_dec_float        {} ({:.2g} of all)\n", t.exact, static_cast<double>(t.exact) / static_cast<double>(std::max<int64_t>(1, t.rows)));
  fmt::print("  largest difference           error/bound {:.2g}; R: f32 {:.2g}, f16 {:.2g}, bf16 {:.2g}\n", t.ratio_difference, t.noise_difference[0],
             t.noise_difference[1], t.noise_difference[2]);
  std::vector<std::pair<double, std::string>> most;
  for (const auto& [name, s] : t.regimes)
    if (s.exact > 0) most.emplace_back(static_cast<double>(s.exact) / static_cast<double>(s.rows), name);
  std::sort(most.rbegin(), most.rend());
  fmt::print("  regimes                      {} of {}\n", t.regimes.size(), kRegimes);
  for (size_t n = 0; n < most.size() && n < 5; ++n) fmt::print("  {} in {:<18} {:.2g}\n", n == 0 ? "most cpp_dec_float" : "                  ", most[n].second, most[n].first);
  for (const std::string& c : t.complaints) fmt::print("  {}\n", c);
}

}  // namespace

int main(int count, char** arguments) {
  int64_t rows = 10000, long_rows = 100, seed = 1, threads = static_cast<int64_t>(std::thread::hardware_concurrency());
  for (int n = 1; n + 1 < count; n += 2) {
    const std::string name = arguments[n];
    if (name == "--case") {
      std::vector<uint64_t> seeds;
      for (int at = n + 1; at < count; ++at) seeds.push_back(std::strtoull(arguments[at], nullptr, 10));
      const Tally t = these_cases(seeds);
      print("These cases", t);
      return t.disagreements == 0 ? 0 : 1;
    }
    int64_t* value = name == "--rows" ? &rows : name == "--long-rows" ? &long_rows : name == "--seed" ? &seed : name == "--threads" ? &threads : nullptr;
    if (value == nullptr) {
      fmt::print(stderr, "judge_agreement: unknown option {}\n", name);
      return 2;
    }
    *value = std::atoll(arguments[n + 1]);
  }
  const Tally a = compare(rows, false, static_cast<uint64_t>(seed), static_cast<int>(threads));
  print("1 to 64 keys, D and Dv up to 16", a);
  const Tally b = compare(long_rows, true, static_cast<uint64_t>(seed), static_cast<int>(threads));
  print("1024 keys, D = Dv = 64", b);
  return a.disagreements + b.disagreements == 0 ? 0 : 1;
}
