#include "properties/verify.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "properties/regime_sets.h"
#include "properties/signature.h"
#include "properties/trial.h"

namespace attest {

namespace {

Kernel host() { return std::get<Kernel>(Kernel::load("host")); }

Recipe tiny() {
  Recipe r;
  r.max_keys = 20;
  r.max_width = 4;
  r.work = 2000;
  return r;
}

std::string covered(const Kernel&) { return ""; }

// Fails for about one case in eight, and says something about every case.
CaseResult sometimes_fails(const Problem& p, Choices& choices, const PropertyContext&) {
  CaseResult r;
  r.problem = p;
  r.verdict.rows = p.shape.rows();
  r.verdict.worst_ratio = choices.unit();
  if (choices.below(8) == 0) fail(r.verdict, Check::relation, Disposition::incorrect, "on purpose", {});
  return r;
}

CaseResult always_passes(const Problem& p, Choices&, const PropertyContext&) {
  CaseResult r;
  r.problem = p;
  return r;
}

// Says nothing about two cases in three.
CaseResult mostly_says_nothing(const Problem& p, Choices& choices, const PropertyContext&) {
  CaseResult r;
  r.problem = p;
  if (choices.below(3) != 0) r.verdict = not_applicable("on purpose");
  return r;
}

CaseResult throws(const Problem&, Choices&, const PropertyContext&) { throw std::runtime_error("the harness is broken"); }

constexpr std::string_view kTwoScores[] = {"random_scores", "flat"};

Property property(std::string_view name, decltype(Property::judge) judge, std::span<const std::string_view> regimes = {}) {
  Property p;
  p.name = name;
  p.statement = "made for a test";
  p.regimes = regimes;
  p.enough = 20;
  p.not_covered = covered;
  p.recipe = tiny;
  p.judge = judge;
  return p;
}

// Everything that must not depend on threads or shards.
std::string text_of(const VerifyReport& report) {
  std::string text;
  for (const PropertyReport& p : report.properties) {
    text += p.name + " " + std::to_string(p.cases) + " " + std::to_string(p.rows) + " " + std::to_string(p.violations) + " " + std::to_string(p.refused) + " " +
            std::to_string(p.worst_ratio) + " " + std::to_string(p.worst_lse_ratio) + " " + std::to_string(p.elements) + "\n";
    for (const auto& [name, n] : p.regimes) text += "  " + name + " " + std::to_string(n) + "\n";
    for (const Failure& f : p.failures) text += "  failure " + std::to_string(f.index) + " " + std::to_string(content_seed(f.result.problem)) + "\n";
  }
  return text;
}

}  // namespace

TEST(Verify, does_not_depend_on_the_number_of_threads) {
  const Property list[] = {property("a", sometimes_fails, kTwoScores), property("b", mostly_says_nothing)};
  const Kernel kernel = host();
  const std::string one = text_of(verify(kernel, list, {.seed = 5, .cases = 300, .threads = 1}));
  EXPECT_EQ(one, text_of(verify(kernel, list, {.seed = 5, .cases = 300, .threads = 2})));
  EXPECT_EQ(one, text_of(verify(kernel, list, {.seed = 5, .cases = 300, .threads = 5})));
  EXPECT_NE(one, text_of(verify(kernel, list, {.seed = 6, .cases = 300, .threads = 1})));
}

TEST(Verify, real_properties_do_not_depend_on_the_number_of_threads) {
  const Kernel kernel = host();
  VerifyOptions options{.seed = 3, .cases = 60, .properties = "^(v_negated|keys_permuted|scale_within_unit)$", .threads = 1};
  const std::string one = text_of(verify(kernel, options));
  options.threads = 3;
  EXPECT_EQ(one, text_of(verify(kernel, options)));
}

TEST(Verify, shards_together_make_the_cases_of_the_whole_run) {
  const Property list[] = {property("a", sometimes_fails, kTwoScores)};
  const Kernel kernel = host();
  const VerifyReport whole = verify(kernel, list, {.cases = 101, .keep_failures = 1000});
  std::set<uint64_t> failures, of_shards;
  for (const Failure& f : whole.properties[0].failures) failures.insert(f.index);
  ASSERT_GT(failures.size(), 3u);
  int64_t cases = 0, flat = 0;
  for (int64_t shard = 0; shard < 3; ++shard) {
    const VerifyReport part = verify(kernel, list, {.cases = 101, .shard = shard, .shards = 3, .keep_failures = 1000});
    cases += part.cases();
    flat += part.regimes().at("flat");
    for (const Failure& f : part.properties[0].failures) {
      EXPECT_EQ(static_cast<int64_t>(f.index % 3), shard);
      of_shards.insert(f.index);
    }
  }
  EXPECT_EQ(cases, 101);
  EXPECT_EQ(flat, whole.regimes().at("flat"));
  EXPECT_EQ(of_shards, failures);
}

TEST(Verify, too_few_cases_of_a_needed_regime_are_inconclusive) {
  const Property list[] = {property("a", always_passes, kTwoScores)};
  const Kernel kernel = host();
  EXPECT_TRUE(verify(kernel, list, {.cases = 38}).inconclusive());
  const VerifyReport enough = verify(kernel, list, {.cases = 40});
  EXPECT_FALSE(enough.inconclusive());
  EXPECT_EQ(enough.regimes().at("random_scores"), 20);
  EXPECT_EQ(enough.regimes().at("flat"), 20);
}

TEST(Verify, what_is_not_covered_is_neither_run_nor_inconclusive) {
  Property list[] = {property("a", throws), property("b", always_passes)};
  list[0].not_covered = [](const Kernel&) { return std::string("no reason"); };
  const VerifyReport report = verify(host(), list, {.cases = 30});
  EXPECT_EQ(report.properties[0].not_covered, "no reason");
  EXPECT_EQ(report.properties[0].cases, 0);
  EXPECT_EQ(report.properties[1].cases, 30);
  EXPECT_FALSE(report.inconclusive());
}

TEST(Verify, a_regime_that_the_kernel_cannot_be_given_is_not_asked_for) {
  constexpr std::string_view kSink[] = {"sink_moderate"};
  Property p = property("a", always_passes, kSink);
  p.recipe = [] {
    Recipe r = tiny();
    r.never_features = ATTEST_SINK;
    return r;
  };
  EXPECT_FALSE(verify(host(), std::span(&p, 1), {.cases = 20}).inconclusive());
}

TEST(Verify, refused_cases_are_drawn_again_and_counted) {
  const Property list[] = {property("a", mostly_says_nothing)};
  const VerifyReport report = verify(host(), list, {.cases = 60});
  EXPECT_EQ(report.properties[0].cases, 60);
  EXPECT_GT(report.properties[0].refused, 60);
  EXPECT_EQ(report.mix.cases, 60);
}

TEST(Verify, an_exception_in_a_property_is_a_fault_of_the_harness) {
  const Property list[] = {property("fine", always_passes), property("broken", throws)};
  for (int threads : {1, 3}) {
    try {
      verify(host(), list, {.seed = 9, .cases = 100, .threads = threads});
      FAIL() << "no exception";
    } catch (const HarnessError& e) {
      const std::string text = e.what();
      EXPECT_NE(text.find("broken, case "), std::string::npos) << text;
      EXPECT_NE(text.find("the harness is broken"), std::string::npos) << text;
      EXPECT_NE(text.find("seed 9"), std::string::npos) << text;
    }
  }
}

TEST(Verify, time_ends_a_run_between_two_batches) {
  const Property list[] = {property("a", always_passes, kTwoScores), property("b", always_passes)};
  const VerifyReport report = verify(host(), list, {.seconds = 0.02, .threads = 1});
  // A round is two cases of a, then one of b.
  EXPECT_GE(report.properties[0].cases, 2);
  EXPECT_GE(report.properties[0].cases, 2 * report.properties[1].cases);
  EXPECT_LE(report.properties[0].cases, 2 * report.properties[1].cases + 2);
}

TEST(Verify, keeps_the_first_failures_with_their_problems) {
  const Property list[] = {property("a", sometimes_fails)};
  const Kernel kernel = host();
  const VerifyReport all = verify(kernel, list, {.cases = 200, .threads = 3, .keep_failures = 1000});
  const VerifyReport some = verify(kernel, list, {.cases = 200, .threads = 3, .keep_failures = 4});
  EXPECT_EQ(all.properties[0].violations, static_cast<int64_t>(all.properties[0].failures.size()));
  EXPECT_EQ(some.properties[0].violations, all.properties[0].violations);
  ASSERT_EQ(some.properties[0].failures.size(), 4u);
  Judge judge;
  const PropertyContext context{kernel, judge};
  for (size_t n = 0; n < 4; ++n) {
    const Failure& f = some.properties[0].failures[n];
    EXPECT_EQ(f.index, all.properties[0].failures[n].index);
    // The problem alone repeats the failure, and so do seed, property and index.
    EXPECT_FALSE(list[0].check(f.result.problem, context).verdict.ok());
    EXPECT_TRUE(signature("a", f.result).starts_with("a/relation/O of ")) << signature("a", f.result);
  }
}

TEST(Verify, stops_after_the_first_violation_where_that_is_asked_for) {
  const Property list[] = {property("a", sometimes_fails), property("b", always_passes)};
  const Kernel kernel = host();
  const VerifyReport all = verify(kernel, list, {.cases = 200, .threads = 1});
  const VerifyReport first = verify(kernel, list, {.cases = 200, .threads = 1, .until_violation = true});
  EXPECT_EQ(first.violations(), 1);
  EXPECT_LT(first.cases(), 200);
  ASSERT_EQ(first.properties[0].failures.size(), 1u);
  EXPECT_EQ(first.properties[0].failures[0].index, all.properties[0].failures[0].index);
  EXPECT_EQ(verify(kernel, std::span(&list[1], 1), {.cases = 50, .until_violation = true}).cases(), 50);
}

TEST(Verify, progress_ends_with_the_last_case) {
  const Property list[] = {property("a", sometimes_fails)};
  Progress last;
  const VerifyReport report = verify(host(), list, {.cases = 50, .threads = 2}, {.progress = [&](const Progress& p) { last = p; }});
  EXPECT_EQ(last.cases, 50);
  EXPECT_EQ(last.total, 50);
  EXPECT_EQ(last.violations, report.violations());
  EXPECT_EQ(last.property, "a");
}

TEST(PropertyList, has_every_name_once_and_knows_its_regimes) {
  std::set<std::string_view> names;
  for (const Property& p : all_properties()) {
    EXPECT_TRUE(names.insert(p.name).second) << p.name;
    EXPECT_EQ(find_property(p.name), &p);
    EXPECT_FALSE(p.statement.empty()) << p.name;
    EXPECT_FALSE(p.regimes.empty()) << p.name;
    for (std::string_view regime : p.regimes) EXPECT_TRUE(regime_from_name(regime)) << p.name << " needs " << regime;
    EXPECT_EQ(p.needed(Target::everything()).size(), p.regimes.size()) << p.name << " needs a regime that its recipe rules out";
  }
  EXPECT_EQ(find_property("no_such_property"), nullptr);
}

// The first cases of every property hold enough of each needed regime, so that a run of ten thousand is conclusive.
TEST(PropertyList, the_first_cases_reach_every_needed_regime) {
  const Target target = Target::from_table(host().table());
  int64_t all = 0;
  for (const Property& p : all_properties()) {
    const int64_t cases = p.first_cases(target);
    all += cases;
    if (p.regimes.size() > 8) continue;  // the long list is counted in whole runs
    std::map<Regime, int64_t> met;
    constexpr int64_t kPart = 25;
    const int64_t counted = cases / kPart;
    for (int64_t n = 0; n < counted; ++n) {
      Choices choices = case_choices(1, p.name, static_cast<uint64_t>(n));
      for (Regime r : p.make(choices, static_cast<uint64_t>(n), target).regimes) ++met[r];
    }
    for (Regime r : p.needed(target)) EXPECT_GE(met[r], p.enough / kPart) << p.name << ": " << name_of(r);
  }
  EXPECT_LE(all, 10000);
}

// A kernel that fails in every second call: what it gave in the others is held to nothing.
TEST(PropertyList, a_kernel_that_fails_in_one_of_several_runs_is_told_by_every_property) {
  static int calls = 0;
  static attest_kernel table = host().table();
  table.reentrant = 0;
  table.forward = [](const attest_args* a, void* stream, char* message, size_t size) {
    static const Kernel right = host();
    if (++calls % 2 == 0) return std::snprintf(message, size, "every second call"), ATTEST_FAILED;
    return right.table().forward(a, stream, message, size);
  };
  for (const int odd : {0, 1}) {
    calls = odd;
    const VerifyReport report = verify(Kernel::from_table(&table), {.cases = 500, .threads = 1});
    for (const PropertyReport& p : report.properties) EXPECT_TRUE(!p.not_covered.empty() || p.violations > 0) << p.name;
  }
}

}  // namespace attest
