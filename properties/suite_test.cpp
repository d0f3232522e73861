// Every property of properties.def as a test: GoogleTest names and counts them, RapidCheck makes the cases and shrinks
// them. One property is --gtest_filter=*/NAME, the kernel is --kernel=host, cuda or a plug-in (or ATTEST_KERNEL).
// Seeded alike every time; RC_PARAMS="seed=..." draws others. Exit code: suite_exit_code.h.
#include <gtest/gtest.h>
#include <rapidcheck.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "properties/generate/rapidcheck.h"
#include "properties/property.h"
#include "properties/signature.h"
#include "properties/suite_exit_code.h"
#if ATTEST_HAVE_CORPUS
#include "corpus/case_file.h"
#endif

namespace attest {

namespace {

const Kernel* kernel_under_test = nullptr;  // set by main() before any test runs

// A case of the property, with the shrink tree of whole cases. Which regime comes is drawn too.
rc::Gen<Problem> case_of(const Property& property) {
  const Target target = Target::from_table(kernel_under_test->table());
  return [&property, target](const rc::Random& random, int) {
    rc::Random bits = random;
    const uint64_t index = bits.next() >> 32;
    Choices choices = Choices::seeded(bits.next());
    return rc::shrinkable::shrinkRecur(property.make(choices, index, target).problem, &shrink_sequence);
  };
}

// The failure that RapidCheck found first, and the smallest case that fails in the same way.
struct Found {
  std::string wanted;  // signature
  Problem problem;
  CaseResult result;
};

void print(const Property& property, const Found& found) {
  std::printf("\n%s: %s\n%s\n", std::string(property.name).c_str(), found.wanted.c_str(), found.result.verdict.detail.c_str());
  if (!found.result.relation.empty()) std::printf("changed between the runs: %s\n", found.result.relation.c_str());
  std::printf("the shrunk case:\n%s\n", in_words(found.problem).c_str());
#if ATTEST_HAVE_CORPUS
  Case c;
  c.problem = found.problem;
  c.name = std::string(property.name);
  c.property = std::string(property.name);
  c.signature = found.wanted;
  std::printf("to replay, save this as case.json and run: attest replay case.json --kernel %s\n%s\n", kernel_under_test->name().c_str(), to_json(c).c_str());
#endif
}

class Properties : public testing::TestWithParam<const Property*> {};

TEST_P(Properties, holds) {
  const Property& property = *GetParam();
  if (const std::string why = property.not_covered(*kernel_under_test); !why.empty()) GTEST_SKIP() << "not covered: " << why;

  // About a second on one core; a failure may take a few more to shrink.
  constexpr int kCases = 80;
  constexpr std::chrono::seconds kShrinking{5};
  rc::detail::TestParams params = rc::detail::configuration().testParams;
  params.maxSuccess = kCases;

  Judge judge;
  const PropertyContext context{*kernel_under_test, judge};
  const rc::Gen<Problem> cases = case_of(property);
  std::optional<Found> found;
  std::chrono::steady_clock::time_point deadline;
  const auto holds = [&] {
    const Problem problem = *cases;
    // RapidCheck would shrink toward any failure, and for as long as it takes.
    if (found && std::chrono::steady_clock::now() > deadline) return;
    CaseResult result = property.check(problem, context);
    if (!found) RC_PRE(result.verdict.disposition != Disposition::not_supported);
    if (result.verdict.ok()) return;
    std::string here = signature(property.name, result);
    if (found && found->wanted != here) return;
    if (!found) deadline = std::chrono::steady_clock::now() + kShrinking;
    found = Found{std::move(here), problem, std::move(result)};
    RC_FAIL(found->wanted);
  };
  const rc::detail::TestResult outcome = rc::detail::checkTestable(holds, rc::detail::TestMetadata{"", std::string(property.name)}, params);
  if (found) print(property, *found);
  rc::detail::FailureResult failure;
  rc::detail::GaveUpResult gave_up;
  if (outcome.match(failure)) FAIL() << property.statement << ": does not hold. " << failure.description << "\n" << failure.reproduce;
  if (outcome.match(gave_up)) FAIL() << "RapidCheck gave up after " << gave_up.numSuccess << " cases: " << gave_up.description;
}

INSTANTIATE_TEST_SUITE_P(Every, Properties, testing::ValuesIn([] {
                           std::vector<const Property*> list;
                           for (const Property& p : all_properties()) list.push_back(&p);
                           return list;
                         }()),
                         [](const auto& info) { return std::string(info.param->name); });

}  // namespace

}  // namespace attest

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  setenv("RC_PARAMS", "seed=1", 0);  // RapidCheck would draw a seed of its own
  const char* from_environment = std::getenv("ATTEST_KERNEL");
  std::string name = from_environment != nullptr ? from_environment : "host";
  for (int n = 1; n < argc; ++n) {
    const std::string_view argument = argv[n];
    constexpr std::string_view kOption = "--kernel=";
    if (!argument.starts_with(kOption)) {
      std::fprintf(stderr, "unknown argument '%s'; usage: property_suite [--kernel=host|cuda|PLUGIN] [GoogleTest options]\n", argv[n]);
      return 2;
    }
    name = argument.substr(kOption.size());
  }
  auto loaded = attest::Kernel::load(name);
  if (const auto* error = std::get_if<attest::LoadError>(&loaded)) {
    std::fprintf(stderr, "%s\n", error->message.c_str());
    return error->kind == attest::LoadError::Kind::no_device ? 4 : 2;
  }
  attest::kernel_under_test = &std::get<attest::Kernel>(loaded);
  const int failed = RUN_ALL_TESTS();
  return failed != 0 ? 1 : attest::suite_exit_code(*testing::UnitTest::GetInstance());
}
