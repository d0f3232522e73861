// A run on a kernel that takes its worker with it now and then: the case that did it is named, every other case gives what
// it gives on a kernel without the fault.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "properties/trial.h"
#include "properties/verify.h"

namespace attest {
namespace {

struct Given {
  Disposition disposition;
  double worst_ratio;
  int64_t elements;
  bool operator==(const Given&) const = default;
};
std::mutex mutex;
std::map<uint64_t, Given> given;  // by the problem's seed: the last verdict of each case

int64_t keys_of(const CaseResult& r) { return r.problem.shape.nk; }

CaseResult judged(const Problem& p, Choices&, const PropertyContext& context) {
  CaseResult r;
  r.problem = p;
  r.verdict = run_and_judge(p, context).verdict;
  const std::lock_guard lock(mutex);
  given[content_seed(p)] = {r.verdict.disposition, r.verdict.worst_ratio, r.verdict.elements};
  return r;
}

Recipe tiny() {
  Recipe r;
  r.max_keys = 20;
  r.max_width = 4;
  r.work = 2000;
  return r;
}

const Property kJudged{.name = "judged", .statement = "", .regimes = {}, .enough = 1, .weight = 1,
                       .not_covered = [](const Kernel&) -> std::string { return ""; }, .recipe = tiny, .values = nullptr, .judge = judged};

struct Ran {
  VerifyReport report;
  std::map<uint64_t, Given> cases;
  std::vector<uint64_t> lost;  // indexes, as told
};

Ran run(const std::string& fault, int threads) {
  const Kernel kernel = std::get<Kernel>(Kernel::load(ATTEST_MISBEHAVING_DIR "/misbehaving_" + fault + ".so", Isolation{.seconds = 20}));
  Ran r;
  given.clear();
  VerifyListener listener;
  listener.lost = [&](const LostCall& call) { r.lost.push_back(call.index); };
  r.report = verify(kernel, std::span(&kJudged, 1), {.cases = 60, .threads = threads, .keep_failures = 60}, listener);
  r.cases = given;
  return r;
}

TEST(Isolation, TheCaseThatKilledTheWorkerIsNamedAndAllOthersAreAsWithoutTheFault) {
  const Ran right = run("none", 2);
  ASSERT_EQ(right.report.violations(), 0);
  ASSERT_EQ(right.report.cases(), 60);
  for (const char* fault : {"segfault", "exits", "corrupts_heap", "stops"}) {
    for (int threads : {1, 2}) {
      const Ran faulty = run(fault, threads);
      EXPECT_EQ(faulty.report.cases(), 60) << fault;
      const PropertyReport& p = faulty.report.properties.front();
      std::set<uint64_t> dead;
      for (const Failure& f : p.failures) {
        EXPECT_TRUE(f.result.verdict.disposition == Disposition::crashed || f.result.verdict.disposition == Disposition::timed_out) << fault;
        EXPECT_EQ(keys_of(f.result) % 2, 1) << fault << ", case " << f.index << ": " << f.result.verdict.detail;
        dead.insert(content_seed(f.result.problem));
        EXPECT_NE(std::find(faulty.lost.begin(), faulty.lost.end(), f.index), faulty.lost.end()) << fault << ": case " << f.index << " was lost and not told";
      }
      EXPECT_GT(dead.size(), 5u) << fault;
      EXPECT_LT(dead.size(), 60u) << fault;
      EXPECT_EQ(static_cast<int64_t>(p.failures.size()), p.violations);
      int64_t compared = 0;
      for (const auto& [seed, result] : right.cases) {
        const auto found = faulty.cases.find(seed);
        ASSERT_NE(found, faulty.cases.end()) << fault;
        if (dead.count(seed) != 0) continue;
        ++compared;
        EXPECT_EQ(found->second, result) << fault;
      }
      EXPECT_EQ(compared + static_cast<int64_t>(dead.size()), static_cast<int64_t>(right.cases.size())) << fault;
    }
  }
}

TEST(Isolation, ARunThatIsStoppedAtALostWorkerTellsOfIt) {
  const Kernel kernel = std::get<Kernel>(Kernel::load(ATTEST_MISBEHAVING_DIR "/misbehaving_segfault.so", Isolation{.seconds = 20}));
  given.clear();
  std::atomic<bool> stop{false};
  VerifyListener listener;
  listener.lost = [&](const LostCall&) { stop = true; };
  const VerifyReport report = verify(kernel, std::span(&kJudged, 1), {.cases = 60, .threads = 1, .keep_failures = 60, .stop = &stop}, listener);
  EXPECT_TRUE(report.stopped);
  ASSERT_EQ(report.violations(), 1);
  EXPECT_EQ(report.cases(), 1);
  const Failure& f = report.properties.front().failures.front();
  EXPECT_EQ(f.result.verdict.disposition, Disposition::crashed);
  EXPECT_NE(f.result.verdict.detail.find("the run was stopped before the case ran alone"), std::string::npos) << f.result.verdict.detail;
}

TEST(Isolation, AWorkerThatAnEarlierCaseSpoiltIsToldAsSuch) {
  const Ran late = run("dies_late", 1);
  EXPECT_GT(late.report.violations(), 0);
  bool said = false;
  for (const Failure& f : late.report.properties.front().failures) {
    EXPECT_EQ(f.result.verdict.disposition, Disposition::crashed);
    said = said || f.result.verdict.detail.find("an earlier case of its worker may have done it") != std::string::npos;
  }
  EXPECT_TRUE(said);
}

TEST(Isolation, WhatShowsWhenAWorkerEndsIsNamed) {
  const Ran run_of_it = run("dies_at_end", 1);
  EXPECT_GT(run_of_it.report.violations(), 0);
  for (const Failure& f : run_of_it.report.properties.front().failures) {
    EXPECT_EQ(keys_of(f.result) % 2, 1) << f.index;
    EXPECT_NE(f.result.verdict.detail.find("when its worker ended"), std::string::npos) << f.result.verdict.detail;
  }
}

}  // namespace
}  // namespace attest
