#include "properties/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>
#include <regex>
#include <thread>

namespace attest {

namespace {

constexpr uint64_t kAttempts = 16;    // draws of one case before it counts as refused for good
constexpr int64_t kCasesPerItem = 8;  // small enough that no thread idles at the end

uint64_t hash_of(std::string_view text) {  // FNV-1a
  uint64_t h = 0xCBF29CE484222325u;
  for (char c : text) h = (h ^ static_cast<uint8_t>(c)) * 0x100000001B3u;
  return h;
}

using Clock = std::chrono::steady_clock;
double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// Cases of each property: what its regimes need first, the rest by weight. Sums to `total`.
std::vector<int64_t> share_out(const std::vector<const Property*>& properties, const Target& target, int64_t total) {
  std::vector<int64_t> share(properties.size(), 0), first;
  double weights = 0;
  for (const Property* p : properties) {
    first.push_back(p->first_cases(target));
    weights += p->weight;
  }
  const int64_t need = std::accumulate(first.begin(), first.end(), int64_t{0});
  // Largest remainder, so that the shares depend on nothing but the list and add up.
  const auto distribute = [&](int64_t amount, auto part) {
    int64_t left = amount;
    std::vector<std::pair<double, size_t>> remainder;
    for (size_t n = 0; n < properties.size(); ++n) {
      const double exact = static_cast<double>(amount) * part(n);
      const auto whole = static_cast<int64_t>(exact);
      share[n] += whole;
      left -= whole;
      remainder.push_back({static_cast<double>(whole) - exact, n});
    }
    std::stable_sort(remainder.begin(), remainder.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    for (size_t n = 0; left > 0 && n < remainder.size(); ++n, --left) ++share[remainder[n].second];
  };
  if (total <= need) {
    distribute(total, [&](size_t n) { return static_cast<double>(first[n]) / static_cast<double>(need); });
    return share;
  }
  distribute(total - need, [&](size_t n) { return properties[n]->weight / weights; });
  for (size_t n = 0; n < properties.size(); ++n) share[n] += first[n];
  return share;
}

struct WorkItem {
  size_t property;
  uint64_t first, last;  // case numbers, half open
};

void add(PropertyReport& r, PropertyReport&& other) {
  r.cases += other.cases;
  r.rows += other.rows;
  r.violations += other.violations;
  r.refused += other.refused;
  r.elements += other.elements;
  r.loose += other.loose;
  r.rows_out_of_range += other.rows_out_of_range;
  r.rows_exact += other.rows_exact;
  r.worst_ratio = std::max(r.worst_ratio, other.worst_ratio);
  r.worst_lse_ratio = std::max(r.worst_lse_ratio, other.worst_lse_ratio);
  r.worst_budget = std::max(r.worst_budget, other.worst_budget);
  r.worst_budget_share = std::max(r.worst_budget_share, other.worst_budget_share);
  for (size_t n = 0; n < r.buckets.size(); ++n) r.buckets[n] += other.buckets[n];
  for (const auto& [name, n] : other.regimes) r.regimes[name] += n;
  for (const auto& [name, looseness] : other.looseness) r.looseness[name].add(looseness);
  for (Failure& f : other.failures) r.failures.push_back(std::move(f));
}

void add(Mix& mix, const Mix& other) {
  if (other.cases == 0) return;
  mix.min_width = mix.cases == 0 ? other.min_width : std::min(mix.min_width, other.min_width);
  mix.max_width = std::max(mix.max_width, other.max_width);
  mix.cases += other.cases;
  mix.keys_128 += other.keys_128;
  mix.keys_512 += other.keys_512;
  mix.keys_2048 += other.keys_2048;
  mix.width_32 += other.width_32;
  mix.query_rows += other.query_rows;
  for (const auto& [name, n] : other.types) mix.types[name] += n;
}

// Works through lists of work items with a fixed number of threads.
class Loop {
 public:
  Loop(const Kernel& kernel, const std::vector<const Property*>& properties, const VerifyOptions& options,
       const std::function<void(const Progress&)>& progress)
      : kernel_(kernel), properties_(properties), options_(options), progress_(progress) {
    int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
    threads_.resize(static_cast<size_t>(std::max(1, threads)));
    for (PerThread& t : threads_)
      for (const Property* p : properties) t.reports.emplace_back().name = p->name;
  }

  int64_t total = 0;  // for the progress

  void run(const std::vector<WorkItem>& items) {
    std::atomic<size_t> next{0};
    const auto work = [&](PerThread& mine) {
      for (size_t n; !stop_ && (n = next++) < items.size();) work_on(items[n], mine);
    };
    std::vector<std::thread> others;
    for (size_t n = 1; n < threads_.size(); ++n) others.emplace_back(work, std::ref(threads_[n]));
    work(threads_[0]);
    for (std::thread& t : others) t.join();
    if (!error_.empty()) throw HarnessError(error_);
  }

  double seconds() const { return since(start_); }
  bool stopped() const { return stop_; }

  void collect(std::vector<PropertyReport*>& into, Mix& mix) {
    for (PerThread& t : threads_) {
      add(mix, t.mix);
      for (size_t n = 0; n < into.size(); ++n) add(*into[n], std::move(t.reports[n]));
    }
    for (PropertyReport* r : into) {
      std::sort(r->failures.begin(), r->failures.end(), [](const Failure& a, const Failure& b) { return a.index < b.index; });
      if (static_cast<int64_t>(r->failures.size()) > options_.keep_failures) r->failures.resize(static_cast<size_t>(options_.keep_failures));
    }
  }

 private:
  struct PerThread {
    std::vector<PropertyReport> reports;
    Mix mix;
    Judge judge;
  };

  void work_on(const WorkItem& item, PerThread& mine) {
    const Property& p = *properties_[item.property];
    PropertyReport& report = mine.reports[item.property];
    const PropertyContext context{kernel_, mine.judge, options_.contract, options_.exact};
    for (uint64_t index = item.first; index < item.last && !stop_; ++index) {
      if (static_cast<int64_t>(index % static_cast<uint64_t>(options_.shards)) != options_.shard) continue;
      try {
        one_case(p, index, context, report, mine.mix);
      } catch (const std::exception& e) {
        stop_with(std::string(p.name) + ", case " + std::to_string(index) + " of seed " + std::to_string(options_.seed) + ": " + e.what());
      } catch (...) {
        stop_with(std::string(p.name) + ", case " + std::to_string(index) + " of seed " + std::to_string(options_.seed) + ": unknown exception");
      }
    }
  }

  void one_case(const Property& p, uint64_t index, const PropertyContext& context, PropertyReport& report, Mix& mix) {
    for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
      Choices choices = case_choices(options_.seed, p.name, index, attempt);
      CaseResult result = p.run(choices, index, context);
      if (result.verdict.disposition == Disposition::not_supported) {
        ++report.refused;
        continue;
      }
      const bool failed = !result.verdict.ok();
      const double ratio = result.verdict.worst_ratio;
      count_case(report, mix, index, std::move(result), options_.keep_failures);
      tell(p, failed, ratio);
      if (failed && options_.until_violation) stop_ = true;
      return;
    }
    tell(p, false, 0);
  }

  void stop_with(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = what;
    stop_ = true;
  }

  void tell(const Property& p, bool failed, double ratio) {
    ++done_;
    if (failed) ++violations_;
    if (!progress_) return;
    const std::lock_guard lock(mutex_);
    worst_ = std::max(worst_, ratio);
    const double now = seconds();
    if (now < next_progress_ && done_ != total) return;
    next_progress_ = now + 0.1;
    progress_({done_, total, violations_, now, worst_, std::string(p.name)});
  }

  const Kernel& kernel_;
  const std::vector<const Property*>& properties_;
  const VerifyOptions& options_;
  const std::function<void(const Progress&)>& progress_;
  std::vector<PerThread> threads_;
  const Clock::time_point start_ = Clock::now();
  std::atomic<bool> stop_{false};
  std::atomic<int64_t> done_{0}, violations_{0};
  std::mutex mutex_;
  std::string error_;
  double worst_ = 0, next_progress_ = 0;
};

// Cuts the cases [from[n], to[n]) of every property into work items, the properties taking turns.
std::vector<WorkItem> items_of(const std::vector<int64_t>& from, const std::vector<int64_t>& to) {
  std::vector<WorkItem> items;
  for (int64_t start = 0, more = 1; more; start += kCasesPerItem) {
    more = 0;
    for (size_t n = 0; n < from.size(); ++n) {
      const int64_t first = from[n] + start, last = std::min(first + kCasesPerItem, to[n]);
      if (first >= to[n]) continue;
      items.push_back({n, static_cast<uint64_t>(first), static_cast<uint64_t>(last)});
      more = 1;
    }
  }
  return items;
}

bool too_few(const PropertyReport& r, const Property& p, const Target& target, const VerifyOptions& options) {
  // A shard answers for its part only.
  const int64_t enough = p.enough / options.shards;
  for (Regime regime : p.needed(target)) {
    const auto found = r.regimes.find(std::string(name_of(regime)));
    if (found == r.regimes.end() || found->second < enough) return true;
  }
  return r.cases < enough;
}

}  // namespace

void count_case(PropertyReport& r, Mix& mix, uint64_t index, CaseResult&& result, int64_t keep) {
  const Verdict& v = result.verdict;
  const Shape& s = result.problem.shape;
  ++r.cases;
  r.rows += v.rows;
  r.elements += v.elements;
  r.loose += v.loose;
  r.rows_out_of_range += v.rows_out_of_range;
  r.rows_exact += v.rows_exact;
  r.worst_ratio = std::max(r.worst_ratio, v.worst_ratio);
  r.worst_lse_ratio = std::max(r.worst_lse_ratio, v.worst_lse_ratio);
  r.worst_budget = std::max(r.worst_budget, v.worst_budget);
  r.worst_budget_share = std::max(r.worst_budget_share, v.worst_budget_share);
  for (size_t n = 0; n < r.buckets.size(); ++n) r.buckets[n] += v.buckets[n];
  for (const std::string& regime : result.regimes) {
    ++r.regimes[regime];
    Looseness& looseness = r.looseness[regime];
    looseness.elements[static_cast<size_t>(result.problem.type)] += v.elements;
    looseness.loose[static_cast<size_t>(result.problem.type)] += v.loose;
  }
  ++mix.cases;
  mix.keys_128 += s.nk >= 128;
  mix.keys_512 += s.nk >= 512;
  mix.keys_2048 += s.nk >= 2048;
  mix.width_32 += std::max(s.d, s.dv) >= 32;
  mix.query_rows += s.rows();
  mix.max_width = std::max({mix.max_width, s.d, s.dv});
  mix.min_width = mix.min_width == 0 ? std::min(s.d, s.dv) : std::min({mix.min_width, s.d, s.dv});
  ++mix.types[std::string(name_of(result.problem.type))];
  if (v.ok()) return;
  ++r.violations;
  if (static_cast<int64_t>(r.failures.size()) < keep) r.failures.push_back({r.name, index, std::move(result)});
}

Choices case_choices(uint64_t seed, std::string_view property, uint64_t index, uint64_t attempt) {
  return Choices::seeded(Choices::mix(Choices::mix(Choices::mix(seed, hash_of(property)), index), attempt));
}

VerifyReport verify(const Kernel& kernel, std::span<const Property> properties, const VerifyOptions& options,
                    const std::function<void(const Progress&)>& progress) {
  VerifyReport report;
  report.kernel = kernel.name();
  report.device = kernel.device();
  report.seed = options.seed;

  const Target target = Target::from_table(kernel.table());
  std::vector<const Property*> covered;
  const std::regex wanted(options.properties, std::regex::ECMAScript);
  std::vector<size_t> place;
  for (const Property& p : properties) {
    if (!options.properties.empty() && !std::regex_search(p.name.begin(), p.name.end(), wanted)) continue;
    PropertyReport& r = report.properties.emplace_back();
    r.name = p.name;
    r.not_covered = p.not_covered(kernel);
    if (!r.not_covered.empty()) continue;
    covered.push_back(&p);
    place.push_back(report.properties.size() - 1);
  }

  Loop loop(kernel, covered, options, progress);
  std::vector<int64_t> made(covered.size(), 0);
  if (!options.seconds) {
    const std::vector<int64_t> share = share_out(covered, target, options.cases);
    loop.total = std::accumulate(share.begin(), share.end(), int64_t{0});
    if (options.shards > 1) {
      loop.total = 0;
      for (int64_t n : share) loop.total += (n + options.shards - 1 - options.shard) / options.shards;
    }
    loop.run(items_of(made, share));
  } else if (!covered.empty()) {
    // A round makes a case in every needed regime of every property, more where the weight is larger.
    do {
      std::vector<int64_t> until = made;
      for (size_t n = 0; n < covered.size(); ++n) {
        const auto turns = std::max<int64_t>(1, static_cast<int64_t>(covered[n]->weight));
        until[n] += turns * std::max<int64_t>(1, static_cast<int64_t>(covered[n]->regimes.size())) * options.shards;
      }
      loop.run(items_of(made, until));
      made = until;
    } while (loop.seconds() < *options.seconds && !loop.stopped());
  }

  std::vector<PropertyReport*> into;
  for (size_t at : place) into.push_back(&report.properties[at]);
  loop.collect(into, report.mix);
  for (size_t n = 0; n < covered.size(); ++n) into[n]->inconclusive = too_few(*into[n], *covered[n], target, options);
  report.seconds = loop.seconds();
  return report;
}

VerifyReport verify(const Kernel& kernel, const VerifyOptions& options, const std::function<void(const Progress&)>& progress) {
  return verify(kernel, all_properties(), options, progress);
}

int64_t VerifyReport::cases() const {
  int64_t n = 0;
  for (const PropertyReport& p : properties) n += p.cases;
  return n;
}
int64_t VerifyReport::rows() const {
  int64_t n = 0;
  for (const PropertyReport& p : properties) n += p.rows;
  return n;
}
int64_t VerifyReport::violations() const {
  int64_t n = 0;
  for (const PropertyReport& p : properties) n += p.violations;
  return n;
}
bool VerifyReport::inconclusive() const {
  return std::any_of(properties.begin(), properties.end(), [](const PropertyReport& p) { return p.inconclusive; });
}
void Looseness::add(const Looseness& other) {
  for (size_t type = 0; type < elements.size(); ++type) {
    elements[type] += other.elements[type];
    loose[type] += other.loose[type];
  }
}

double Looseness::share(DType type) const {
  const auto n = static_cast<size_t>(type);
  return elements[n] == 0 ? 0.0 : static_cast<double>(loose[n]) / static_cast<double>(elements[n]);
}

std::map<std::string, Looseness> VerifyReport::looseness() const {
  std::map<std::string, Looseness> all;
  for (const PropertyReport& p : properties)
    for (const auto& [name, looseness] : p.looseness) all[name].add(looseness);
  return all;
}

std::map<std::string, int64_t> VerifyReport::regimes() const {
  std::map<std::string, int64_t> all;
  for (const PropertyReport& p : properties)
    for (const auto& [name, n] : p.regimes) all[name] += n;
  return all;
}

}  // namespace attest
