// Is the noise budget's rate true? Runs correct kernels on generated problems and counts the rows whose R lies above the
// threshold of a rate, for the rates 1e-2, 1e-4 and 1e-6. At 1e-9, the rate of the judge, nothing could be counted: that
// one follows from the threshold's derivation (reference/bound.md), which these three put to the test.
//
//   noise_calibration [--rows N] [--seed S] [--threads T] [--planted-error F]
//
// Kernels: the host kernel; the same with O summed in f32 where P is kept in f32; each judged with sums in any order and with
// the depth of its sums declared (`sum_depth`). Rows are counted by score regime, values, Dv, kernel, and regime with values,
// for each type.
//
// Exit 1 where a group has more rows above a threshold than its rate allows. Rows of one case share K, V and often
// their scores, so only cases count as independent. Y_c, the share of case c's rows that are over, lies in [0, 1] and has
// a mean of `rate` at most, whatever the dependence within the case; so over n cases (Hoeffding 1963, theorem 1)
//     P(mean of Y_c >= y) <= e^(-n KL(y, rate)),   KL(y, r) = y ln(y / r) + (1 - y) ln((1 - y) / (1 - r)).
// A group fails where that is below 1e-6 divided by the number of groups and rates.
//
// --planted-error F moves every result F times as far from the exact one: with 4, the run must fail.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "kernel/host/host_kernel.h"
#include "kernel/runner/kernel.h"
#include "properties/generate/generate.h"
#include "properties/generate/values.h"
#include "reference/judge.h"

using namespace attest;

namespace {

constexpr std::array<double, 3> kRates = {1e-2, 1e-4, 1e-6};
constexpr double kConfidence = 1e-6;  // chance that a true budget fails, over all groups

// O in f32 even where P is: each addition rounds once to f32.
struct NarrowSums : host::HostSteps {
  template <class Sum>
  static void add_value(Sum* o, Sum p, const float* v, int64_t dv) {
    for (int64_t d = 0; d < dv; ++d) o[d] = static_cast<Sum>(static_cast<float>(o[d] + p * static_cast<Sum>(v[d])));
  }
};

enum class Variant { host, host_depth, narrow, narrow_depth };
constexpr Variant kVariants[] = {Variant::host, Variant::host_depth, Variant::narrow, Variant::narrow_depth};
constexpr const char* kVariantNames[] = {"host, sums in any order", "host, sum_depth", "O summed in f32, any order", "O summed in f32, sum_depth"};

// Most additions that a term of the host kernel's sums passes: l sums each tile, then the tiles; O sums key by key, in
// double where P is in f32; then come the splits and the sink.
int64_t depth_of(const Problem& p, bool narrow_sums) {
  const int64_t splits = std::max<int64_t>(1, p.choice.splits), keys = (p.shape.nk + splits - 1) / splits;
  const int64_t tile = p.choice.tile_keys > 0 ? p.choice.tile_keys : kDefaultTile;
  const int64_t of_l = std::min(tile, keys) + (keys + tile - 1) / tile, of_o = narrow_sums ? keys : 0;
  return std::max(of_l, of_o) + splits + 1;
}

enum class Values { normal, ones, equal_columns, indicators, digits, constant, one_column, cancelling, extreme };
constexpr Values kValues[] = {Values::normal, Values::ones, Values::equal_columns, Values::indicators, Values::digits,
                              Values::constant, Values::one_column, Values::cancelling, Values::extreme};
constexpr const char* kValueNames[] = {"normal", "ones", "equal columns", "indicators", "digits", "constant", "one column", "cancelling", "extreme"};
constexpr Regime kFilledBy[] = {Regime::random_wide, Regime::ones, Regime::random_wide, Regime::tile_indicators, Regime::key_digits,
                                Regime::constant, Regime::one_column, Regime::cancelling, Regime::extreme_values};

void fill(Problem& p, Values values, int64_t tile, Choices& c) {
  fill_values(p, kFilledBy[static_cast<int>(values)], tile, c);
  if (values != Values::equal_columns) return;
  for (int64_t b = 0; b < p.shape.b; ++b)
    for (int64_t g = 0; g < p.shape.hk; ++g)
      for (int64_t j = 0; j < p.shape.nk; ++j)
        for (int64_t d = 1; d < p.shape.dv; ++d) p.v.set_bits(p.v.layout.at(b, g, j, d), p.v.bits(p.v.layout.at(b, g, j, 0)));
}

struct Group {
  int64_t rows = 0, cases = 0;
  double r = 0;  // sum of R
  std::array<int64_t, kRates.size()> over{};
  std::array<double, kRates.size()> case_shares{};  // sum over cases of the share of rows that are over

  void add(const Group& g) {
    rows += g.rows;
    cases += g.cases;
    r += g.r;
    for (size_t n = 0; n < over.size(); ++n) {
      over[n] += g.over[n];
      case_shares[n] += g.case_shares[n];
    }
  }
};

// The most that the chance of so large a mean share of rows over the threshold can be: see the head of this file.
double most_likely(const Group& g, size_t n) {
  const double rate = kRates[n], cases = static_cast<double>(g.cases), y = g.case_shares[n] / cases;
  if (y <= rate) return 1;
  const double rest = y < 1 ? (1 - y) * std::log((1 - y) / (1 - rate)) : 0.0;
  return std::exp(-cases * (y * std::log(y / rate) + rest));
}

using Name = std::array<std::string, 3>;  // by what, which, type
using Groups = std::map<Name, Group>;

std::string width_bucket(int64_t dv) {
  int64_t high = 1;
  while (high < dv) high *= 2;
  return high <= 2 ? fmt::format("{:3}", high) : fmt::format("{:3} to {}", high / 2 + 1, high);
}

class Counter {
 public:
  explicit Counter(double planted)
      : planted_(planted), host_(Kernel::from_table(host::host_kernel_table<host::HostSteps>("host"))),
        narrow_(Kernel::from_table(host::host_kernel_table<NarrowSums>("narrow sums"))), target_(Target::from_table(host_.table())) {
    for (Regime r : regimes_of(Axis::score))
      if (!(traits_of(r) & kNonFinite)) scores_.push_back(r);
  }

  // Case `index`: types, score regimes, values and kernels in turn. Returns the rows that were held to the budget.
  int64_t one_case(uint64_t seed, uint64_t index, Groups& groups) {
    const auto next = [&](size_t n) {
      const size_t at = index % n;
      index /= n;
      return at;
    };
    Choices c = Choices::seeded(Choices::mix(seed, index));
    const DType type = kAllDTypes[next(std::size(kAllDTypes))];
    const Regime score = scores_[next(scores_.size())];
    const Values values = kValues[next(std::size(kValues))];
    const Variant variant = kVariants[next(std::size(kVariants))];
    const bool narrow = variant == Variant::narrow || variant == Variant::narrow_depth;
    Recipe recipe{.pins = {score, Regime::plain_payload}, .never_traits = kNonFinite, .type = type};
    const bool longer = c.chance(1, 8);
    recipe.max_keys = longer ? 2048 : 96;
    recipe.work = longer ? 2e5 : 3e4;
    Generated g = generate(c, target_, recipe);
    Problem& p = g.problem;
    fill(p, values, g.tile, c);
    const Kernel& kernel = narrow ? narrow_ : host_;
    if (p.shape.rows() == 0 || !kernel.refuses(p).empty()) return 0;
    // P in f32 is finer than strict: O is summed in double or, by `narrow`, in f32.
    kernel.run(p, {.check_memory = false}, seen_);
    JudgeOptions options{.numerics = kernel.numerics(p, Contract::strict), .details = &details_, .noise_rate = kRates[0]};
    const bool sums_in_f32 = narrow || (p.choice.p_type ? *p.choice.p_type : type) != DType::f32;
    if (variant == Variant::host_depth || variant == Variant::narrow_depth) options.numerics.sum_depth = depth_of(p, sums_in_f32);
    judge_(p, seen_, options);
    if (planted_ != 1) {
      const Shape& s = p.shape;
      for (const ElementError& e : details_.elements)
        if (e.col >= 0) seen_.o[static_cast<size_t>(((e.b * s.hq + e.h) * s.nq + e.row) * s.dv + e.col)] = e.exact + planted_ * (e.got - e.exact);
      judge_(p, seen_, options);
    }
    Group found;
    found.rows = static_cast<int64_t>(details_.rows.size());
    if (found.rows == 0) return 0;
    found.cases = 1;
    for (const Details::Noise& n : details_.rows) found.r += std::isfinite(n.r) ? n.r : 0;
    for (size_t n = 0; n < kRates.size(); ++n) {
      if (n > 0) {  // thresholds rise: rows below one are below the next
        options.noise_rate = kRates[n];
        judge_(p, seen_, options);
      }
      for (const Details::Noise& row : details_.rows) found.over[n] += row.r <= row.threshold ? 0 : 1;
      found.case_shares[n] = static_cast<double>(found.over[n]) / static_cast<double>(found.rows);
      if (found.over[n] == 0) break;
    }
    const std::string of_type(name_of(type)), of_score(name_of(score)), of_values = kValueNames[static_cast<int>(values)];
    groups[{"all", "", of_type}].add(found);
    groups[{"scores", of_score, of_type}].add(found);
    groups[{"values", of_values, of_type}].add(found);
    groups[{"Dv", width_bucket(p.shape.dv), of_type}].add(found);
    groups[{"kernel", kVariantNames[static_cast<int>(variant)], of_type}].add(found);
    groups[{"scores and values", of_score + ", " + of_values, of_type}].add(found);
    return found.rows;
  }

 private:
  double planted_;
  Kernel host_, narrow_;
  Target target_;
  std::vector<Regime> scores_;
  Judge judge_;
  Observation seen_;
  Details details_;
};

std::string row_of(const Name& name, const Group& g) {
  std::string text = fmt::format("| {} | {} | {} | {} | {:.3g} |", name[1], name[2], g.rows, g.cases, g.r / static_cast<double>(g.rows));
  for (size_t n = 0; n < kRates.size(); ++n)
    text += g.over[n] == 0 ? " 0 |" : fmt::format(" {} ({:.1g}) |", g.over[n], static_cast<double>(g.over[n]) / static_cast<double>(g.rows));
  return text + "\n";
}

}  // namespace

int main(int count, char** arguments) {
  double rows = 1e5, seed = 1, threads = std::thread::hardware_concurrency(), planted = 1;
  for (int n = 1; n < count; n += 2) {
    const std::string name = arguments[n];
    double* value = name == "--rows" ? &rows : name == "--seed" ? &seed : name == "--threads" ? &threads : name == "--planted-error" ? &planted : nullptr;
    if (value == nullptr || n + 1 == count) {
      fmt::print(stderr, "noise_calibration: {} is no option with a value\n", name);
      return 2;
    }
    *value = std::atof(arguments[n + 1]);
  }

  Groups groups;
  std::mutex lock;
  std::atomic<uint64_t> next{0};
  std::atomic<int64_t> done{0};
  std::vector<std::thread> workers;
  for (int t = 0; t < static_cast<int>(threads); ++t)
    workers.emplace_back([&] {
      Counter counter(planted);
      Groups mine;
      while (static_cast<double>(done) < rows)
        done += counter.one_case(static_cast<uint64_t>(seed), next++, mine);
      const std::lock_guard guard(lock);
      for (const auto& [name, g] : mine) groups[name].add(g);
    });
  for (std::thread& w : workers) w.join();

  const double least = kConfidence / static_cast<double>(groups.size() * kRates.size());
  std::vector<std::string> failed;
  std::string by;
  for (const auto& [name, g] : groups) {
    if (name[0] != "scores and values") {
      if (by != name[0]) fmt::print("\n| {} | type | rows | cases | mean R | over at 1e-2 | at 1e-4 | at 1e-6 |\n|---|---|---|---|---|---|---|---|\n", by = name[0]);
      fmt::print("{}", row_of(name, g));
    }
    for (size_t n = 0; n < kRates.size(); ++n)
      if (const double p = most_likely(g, n); p < least)
        failed.push_back(fmt::format("{} {}: {} of {} rows over the threshold of {:g} in {} cases, a chance of {:.1e} at most\n", name[2], name[0] == "all" ? "all" : name[1], g.over[n], g.rows, kRates[n], g.cases, p));
  }
  fmt::print("\n{} groups, {} with scores and values together; {} with more rows over a threshold than its rate allows\n", groups.size(),
             std::count_if(groups.begin(), groups.end(), [](const auto& g) { return g.first[0] == "scores and values"; }), failed.size());
  for (const std::string& f : failed) fmt::print("{}", f);
  return failed.empty() ? 0 : 1;
}
