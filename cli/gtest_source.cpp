#include "cli/gtest_source.h"

#include <fmt/format.h>

#include <cctype>

namespace attest::cli {

namespace {

constexpr const char* kPattern = R"source(// A failing case of an attention kernel, written by attest shrink.
// Link attest::corpus, attest::properties and GTest::gtest_main.
#include <gtest/gtest.h>

#include <cstdlib>

#include "corpus/case_file.h"
#include "properties/property.h"

namespace {{

constexpr const char* kKernel = R"word({kernel})word";
constexpr const char* kCase = R"json({json})json";

}}  // namespace

// {signature}
TEST(attest, {name}) {{
  const char* other = std::getenv("ATTEST_KERNEL");
  auto loaded = attest::Kernel::load(other != nullptr ? other : kKernel);
  if (const auto* error = std::get_if<attest::LoadError>(&loaded)) FAIL() << error->message;
  const attest::Kernel kernel = std::get<attest::Kernel>(loaded);
  const attest::Problem problem = attest::parse_json_case(kCase, "the case").problem;
  attest::Judge judge;
  const attest::PropertyContext context{{kernel, judge, attest::Contract::{contract}}};
  const attest::Verdict verdict = attest::find_property("{property}")->check(problem, context).verdict;
  EXPECT_EQ(verdict.disposition, attest::Disposition::passed) << verdict.detail;
}}
)source";

std::string identifier(const std::string& text) {
  std::string name;
  for (char c : text) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return name.empty() ? "case" : name;
}

}  // namespace

std::string gtest_source(const Case& c, const std::string& kernel, Contract contract) {
  const std::string property = c.property.empty() ? "matches_reference" : c.property;
  return fmt::format(kPattern, fmt::arg("kernel", kernel), fmt::arg("json", to_json(c)), fmt::arg("signature", c.signature), fmt::arg("name", identifier(property)),
                     fmt::arg("contract", name_of(contract)), fmt::arg("property", property));
}

}  // namespace attest::cli
