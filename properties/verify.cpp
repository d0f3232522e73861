#include "properties/verify.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>
#include <optional>
#include <regex>
#include <set>
#include <thread>

#include "properties/signature.h"
#include "properties/trial.h"

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

// Cases of one round of a run that time ends: one in every needed regime, more where the weight is larger.
int64_t round_of(const Property& p) {
  return std::max<int64_t>(1, static_cast<int64_t>(p.weight)) * std::max<int64_t>(1, static_cast<int64_t>(p.regimes.size()));
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
  r.seconds += other.seconds;
  for (size_t n = 0; n < r.dispositions.size(); ++n) r.dispositions[n] += other.dispositions[n];
  for (size_t n = 0; n < r.checks.size(); ++n) r.checks[n] += other.checks[n];
  r.errors.add(other.errors);
  for (const auto& [name, n] : other.signatures) r.signatures[name] += n;
  for (const auto& [name, n] : other.known) r.known[name] += n;
  for (const auto& [name, n] : other.regimes) r.regimes[name] += n;
  for (const auto& [name, looseness] : other.looseness) r.looseness[name].add(looseness);
  for (const auto& [type, difference] : other.differences) r.differences[type].add(difference);
  for (Failure& f : other.failures) r.failures.push_back(std::move(f));
  for (FailureLine& l : other.lines) r.lines.push_back(std::move(l));
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

// What one batch gave. `lost_at`: the case at which a worker was lost, and what it gave in that worker.
struct BatchResult {
  PropertyReport report;
  Mix mix;
  std::vector<double> ratios;  // of its cases, for the progress
  bool lost = false;
  bool cut = false;  // interrupted: not all of its cases ran
  uint64_t lost_at = 0;
  std::optional<CaseResult> lost_result;
};

// Which case a thread is at, for what is told of a lost worker.
thread_local const Property* current_property = nullptr;
thread_local uint64_t current_index = 0;

// Works through lists of work items with a fixed number of threads.
class Loop {
 public:
  Loop(const Kernel& kernel, const std::vector<const Property*>& properties, const VerifyOptions& options, const VerifyListener& listener)
      : kernel_(kernel), properties_(properties), options_(options), listener_(listener) {
    int threads = options.threads > 0 ? options.threads : static_cast<int>(std::thread::hardware_concurrency());
    threads_.resize(static_cast<size_t>(std::max(1, threads)));
    for (PerThread& t : threads_)
      for (const Property* p : properties) t.reports.emplace_back().name = p->name;
    for (const FinishedBatch& f : options.finished) finished_[{f.batch.property, f.batch.first}] = &f;
    std::map<std::string, int64_t> kept;
    for (auto at = finished_.begin(); at != finished_.end();) {
      int64_t& n = kept[at->first.first];
      const bool wanted = at->second->report.violations > 0 && n < options.keep_failures;
      n += at->second->report.violations;
      at = wanted ? finished_.erase(at) : std::next(at);
    }
    listen(kernel_);
  }
  ~Loop() { kernel_.when_lost(nullptr); }
  Loop(const Loop&) = delete;
  Loop& operator=(const Loop&) = delete;

  int64_t total = 0;  // for the progress

  void run(const std::vector<WorkItem>& all) {
    const std::vector<WorkItem> items = without_finished(all);
    std::atomic<size_t> next{0};
    const auto work = [&](PerThread& mine) {
      for (size_t n; !stop_ && (n = next++) < items.size();) {
        if (over()) break;
        work_on(items[n], mine);
      }
    };
    std::vector<std::thread> others;
    for (size_t n = 1; n < threads_.size(); ++n) others.emplace_back(work, std::ref(threads_[n]));
    work(threads_[0]);
    for (std::thread& t : others) t.join();
    if (!error_.empty()) throw HarnessError(error_);
  }

  double seconds() const { return options_.seconds_before + since(start_); }
  bool stopped() const { return stop_ || interrupted(); }
  bool interrupted() const { return options_.stop != nullptr && *options_.stop; }

  void collect(std::vector<PropertyReport*>& into, Mix& mix) {
    for (PerThread& t : threads_) {
      add(mix, t.mix);
      for (size_t n = 0; n < into.size(); ++n) add(*into[n], std::move(t.reports[n]));
    }
    for (PropertyReport* r : into) keep_first(*r);
  }

 private:
  struct PerThread {
    std::vector<PropertyReport> reports;
    Mix mix;
    Judge judge;
  };

  // Counts what is finished; the rest.
  std::vector<WorkItem> without_finished(const std::vector<WorkItem>& items) {
    if (finished_.empty()) return items;
    std::vector<WorkItem> rest;
    for (const WorkItem& item : items) {
      const auto found = finished_.find({std::string(properties_[item.property]->name), item.first});
      if (found == finished_.end() || found->second->batch.last != item.last) {
        rest.push_back(item);
        continue;
      }
      const FinishedBatch& f = *found->second;
      add(threads_[0].reports[item.property], PropertyReport(f.report));
      add(threads_[0].mix, f.mix);
      done_ += f.report.cases;
      violations_ += f.report.violations;
      worst_ = std::max(worst_, f.report.worst_ratio);
    }
    return rest;
  }

  // Whether no further batch may begin.
  bool over() const { return interrupted() || (options_.seconds && seconds() >= *options_.seconds); }

  void keep_first(PropertyReport& r) const {
    std::sort(r.lines.begin(), r.lines.end(), [](const FailureLine& a, const FailureLine& b) { return a.index < b.index; });
    if (static_cast<int64_t>(r.lines.size()) > options_.keep_lines) r.lines.resize(static_cast<size_t>(options_.keep_lines));
    std::sort(r.failures.begin(), r.failures.end(), [](const Failure& a, const Failure& b) { return a.index < b.index; });
    if (static_cast<int64_t>(r.failures.size()) > options_.keep_failures) r.failures.resize(static_cast<size_t>(options_.keep_failures));
  }

  void work_on(const WorkItem& item, PerThread& mine) {
    const Property& p = *properties_[item.property];
    const Batch batch{std::string(p.name), item.first, item.last};
    current_property = &p;
    current_index = item.first;
    try {
      if (listener_.begins) {
        const std::lock_guard lock(mutex_);
        listener_.begins(batch);
      }
      const auto begin = Clock::now();
      BatchResult result = run_batch(p, item, kernel_, mine.judge);
      if (result.lost) result = run_one_by_one(p, item, mine.judge, std::move(result));
      result.report.seconds = since(begin);
      if (listener_.ends && !stop_ && !result.cut) {  // (a batch that was cut is run again by who goes on)
        const std::lock_guard lock(mutex_);
        listener_.ends(batch, result.report, result.mix);
      }
      tell(result);
      PropertyReport& report = mine.reports[item.property];
      add(report, std::move(result.report));
      keep_first(report);
      add(mine.mix, result.mix);
    } catch (const std::exception& e) {
      stop_with(where() + e.what());
    } catch (...) {
      stop_with(where() + "unknown exception");
    }
  }

  // The cases of a batch, up to the first that loses its worker.
  BatchResult run_batch(const Property& p, const WorkItem& item, const Kernel& kernel, Judge& judge) {
    BatchResult batch;
    batch.report.name = p.name;
    const PropertyContext context{kernel, judge, options_.contract, options_.exact};
    for (uint64_t index = item.first; index < item.last && !stop_; ++index) {
      if (static_cast<int64_t>(index % static_cast<uint64_t>(options_.shards)) != options_.shard) continue;
      batch.cut = interrupted();
      if (batch.cut) break;
      current_property = &p;
      current_index = index;
      const int64_t losses = losses_of_this_thread().count;
      std::optional<CaseResult> result = one_case(p, index, context, batch.report);
      batch.ratios.push_back(result ? result->verdict.worst_ratio : 0);
      if (losses_of_this_thread().count > losses) {
        batch.lost = true;
        batch.lost_at = index;
        batch.lost_result = std::move(result);
        return batch;
      }
      if (!result) continue;
      compare(*result, judge, batch.report);
      excuse(options_.known, *result, batch.report);
      const bool failed = !result->verdict.ok();
      count_case(batch.report, batch.mix, index, std::move(*result), options_.keep_failures, options_.keep_lines);
      if (failed && options_.until_violation) stop_ = true;
    }
    return batch;
  }

  // The same cases, each in a worker that has run nothing else.
  BatchResult run_one_by_one(const Property& p, const WorkItem& item, Judge& judge, BatchResult&& lost) {
    BatchResult all;
    all.report.name = p.name;
    bool found = false;
    struct Alone {
      uint64_t index;
      std::optional<CaseResult> result;
      std::string end;  // what was wrong with the end of its worker
    };
    std::vector<Alone> cases;
    const Losses first_loss = losses_of_this_thread();
    for (uint64_t index = item.first; index < item.last; ++index) {
      if (static_cast<int64_t>(index % static_cast<uint64_t>(options_.shards)) != options_.shard) continue;
      all.cut = interrupted();
      if (all.cut) break;
      current_property = &p;
      current_index = index;
      const Kernel kernel = kernel_.alone();
      listen(kernel);
      const PropertyContext context{kernel, judge, options_.contract, options_.exact};
      const int64_t losses = losses_of_this_thread().count;
      Alone& one = cases.emplace_back(Alone{index, one_case(p, index, context, all.report), ""});
      const bool dead = losses_of_this_thread().count > losses;
      all.ratios.push_back(one.result ? one.result->verdict.worst_ratio : 0);
      found = found || dead;
      if (!dead) one.end = kernel.end_workers();
      else if (!one.result || one.result->verdict.ok()) blame(one.result, losses_of_this_thread(), "");
    }
    if (all.cut && !found) {  // the case at which the worker was lost may not have had its turn
      std::erase_if(cases, [&](const Alone& one) { return one.index >= lost.lost_at; });
      Alone& culprit = cases.emplace_back(Alone{lost.lost_at, std::move(lost.lost_result), ""});
      blame(culprit.result, first_loss, "; the run was stopped before the case ran alone");
      all.ratios.push_back(0);
      found = true;
    }
    if (!found) {
      // Nobody dies in his own call. What a case broke may show when its worker ends, unless that happens to every worker.
      const bool telling = std::any_of(cases.begin(), cases.end(), [](const Alone& one) { return one.end.empty(); });
      for (Alone& one : cases) {
        if (one.end.empty() || !telling) continue;
        found = true;
        blame(one.result, {0, RunStatus::crashed, one.end}, ", when its worker ended");
      }
    }
    for (Alone& one : cases) {
      if (found || one.index != lost.lost_at) continue;
      if (!one.result) one.result = std::move(lost.lost_result);
      blame(one.result, losses_of_this_thread(), "; not so when the case ran alone, an earlier case of its worker may have done it");
    }
    for (Alone& one : cases) {
      if (!one.result) continue;
      compare(*one.result, judge, all.report);
      excuse(options_.known, *one.result, all.report);
      const bool failed = !one.result->verdict.ok();
      count_case(all.report, all.mix, one.index, std::move(*one.result), options_.keep_failures, options_.keep_lines);
      if (failed && options_.until_violation) stop_ = true;
    }
    return all;
  }

  // Runs the case once more and on the baseline. What is lost here is no finding: the property had its runs.
  void compare(const CaseResult& result, Judge& judge, PropertyReport& report) const {
    const Disposition d = result.verdict.disposition;
    if (options_.baseline == nullptr || d == Disposition::crashed || d == Disposition::timed_out) return;
    const Problem& problem = result.problem;
    const Observation seen = kernel_.run(problem, kPlainRun);
    if (seen.status != RunStatus::ok) return;
    Details details;
    JudgeOptions how{.numerics = kernel_.numerics(problem, options_.contract), .conventions = kernel_.conventions(), .exact = options_.exact, .details = &details};
    how.noise_budget = false;
    judge(problem, seen, how);
    report.differences[std::string(name_of(problem.type))].add(difference(problem, seen, options_.baseline->run(problem, kPlainRun), details));
  }

  // Makes a case that lost its worker a violation, whatever its runs gave.
  static void blame(std::optional<CaseResult>& result, const Losses& loss, const std::string& more) {
    if (!result) {
      result.emplace();
      result->problem = Problem::make({}, DType::f32);
    }
    const bool hung = loss.status == RunStatus::timed_out;
    result->verdict.disposition = hung ? Disposition::timed_out : Disposition::crashed;
    result->verdict.check = Check::status;
    result->verdict.worst.clear();
    result->verdict.detail = std::string(hung ? "the kernel did not end: " : "the kernel crashed: ") + loss.what + more;
  }

  // nullopt: every draw was refused.
  std::optional<CaseResult> one_case(const Property& p, uint64_t index, const PropertyContext& context, PropertyReport& report) {
    for (uint64_t attempt = 0; attempt < kAttempts; ++attempt) {
      Choices choices = case_choices(options_.seed, p.name, index, attempt);
      CaseResult result = p.run(choices, index, context);
      if (result.verdict.disposition != Disposition::not_supported) return result;
      ++report.refused;
    }
    return std::nullopt;
  }

  void listen(const Kernel& kernel) {
    if (!kernel.isolated() || !listener_.lost) return;
    kernel.when_lost([this](const Problem& problem, const Observation& seen) {
      const std::lock_guard lock(mutex_);
      listener_.lost({options_.seed, std::string(current_property->name), current_index, problem, seen});
    });
  }

  std::string where() const {
    return std::string(current_property->name) + ", case " + std::to_string(current_index) + " of seed " + std::to_string(options_.seed) + ": ";
  }

  void stop_with(const std::string& what) {
    const std::lock_guard lock(mutex_);
    if (error_.empty()) error_ = what;
    stop_ = true;
  }

  void tell(const BatchResult& batch) {
    const std::lock_guard lock(mutex_);
    done_ += static_cast<int64_t>(batch.ratios.size());
    violations_ += batch.report.violations;
    for (const auto& [name, n] : batch.report.signatures) signatures_.insert(name);
    for (double ratio : batch.ratios) worst_ = std::max(worst_, ratio);
    if (!listener_.progress) return;
    const double now = seconds();
    if (now < next_progress_ && done_ != total) return;
    next_progress_ = now + 0.1;
    listener_.progress({done_, total, violations_, static_cast<int64_t>(signatures_.size()), now, worst_, options_.seconds.value_or(0), batch.report.name});
  }

  const Kernel& kernel_;
  const std::vector<const Property*>& properties_;
  const VerifyOptions& options_;
  const VerifyListener& listener_;
  std::vector<PerThread> threads_;
  std::map<std::pair<std::string, uint64_t>, const FinishedBatch*> finished_;  // by property and first case; trusted
  const Clock::time_point start_ = Clock::now();
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  int64_t done_ = 0, violations_ = 0;
  std::set<std::string> signatures_;
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

std::vector<std::pair<const Property*, int64_t>> planned_cases(const Kernel& kernel, const VerifyOptions& options) {
  std::vector<const Property*> covered;
  const std::regex wanted(options.properties, std::regex::ECMAScript);
  for (const Property& p : all_properties())
    if ((options.properties.empty() || std::regex_search(p.name.begin(), p.name.end(), wanted)) && p.not_covered(kernel).empty()) covered.push_back(&p);
  const std::vector<int64_t> share = options.seconds || covered.empty() ? std::vector<int64_t>(covered.size()) : share_out(covered, Target::from_table(kernel.table()), options.cases);
  std::vector<std::pair<const Property*, int64_t>> plan;
  for (size_t n = 0; n < covered.size(); ++n) {
    const int64_t part = (share[n] + options.shards - 1 - options.shard) / options.shards;
    plan.emplace_back(covered[n], options.seconds ? round_of(*covered[n]) : part);
  }
  return plan;
}

void excuse(const std::vector<KnownFailure>& known, CaseResult& result, PropertyReport& r) {
  if (known.empty() || result.verdict.ok()) return;
  const std::string name = signature(r.name, result);
  if (std::none_of(known.begin(), known.end(), [&](const KnownFailure& k) { return k.property == r.name && k.signature == name; })) return;
  result.verdict.disposition = Disposition::known_failure;
  ++r.known[name];
}

void count_case(PropertyReport& r, Mix& mix, uint64_t index, CaseResult&& result, int64_t keep, int64_t keep_lines) {
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
  ++r.dispositions[static_cast<size_t>(v.disposition)];
  r.errors.add(v, result.problem.type, index);
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
  ++r.checks[static_cast<size_t>(v.check)];
  const std::string name = signature(r.name, result);
  ++r.signatures[name];
  if (static_cast<int64_t>(r.lines.size()) < keep_lines) r.lines.push_back({index, v.disposition, v.check, std::max(v.worst_ratio, v.worst_lse_ratio), v.worst_budget_share, name});
  if (static_cast<int64_t>(r.failures.size()) < keep) r.failures.push_back({r.name, index, std::move(result)});
}

Choices case_choices(uint64_t seed, std::string_view property, uint64_t index, uint64_t attempt) {
  return Choices::seeded(Choices::mix(Choices::mix(Choices::mix(seed, hash_of(property)), index), attempt));
}

VerifyReport verify(const Kernel& kernel, std::span<const Property> properties, const VerifyOptions& options, const VerifyListener& listener) {
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

  Loop loop(kernel, covered, options, listener);
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
    do {
      std::vector<int64_t> until = made;
      for (size_t n = 0; n < covered.size(); ++n) until[n] += round_of(*covered[n]) * options.shards;
      loop.run(items_of(made, until));
      made = until;
    } while (loop.seconds() < *options.seconds && !loop.stopped());
  }

  std::vector<PropertyReport*> into;
  for (size_t at : place) into.push_back(&report.properties[at]);
  loop.collect(into, report.mix);
  for (size_t n = 0; n < covered.size(); ++n) into[n]->inconclusive = too_few(*into[n], *covered[n], target, options);
  report.seconds = loop.seconds();
  report.stopped = loop.interrupted();
  return report;
}

VerifyReport verify(const Kernel& kernel, const VerifyOptions& options, const VerifyListener& listener) {
  return verify(kernel, all_properties(), options, listener);
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
