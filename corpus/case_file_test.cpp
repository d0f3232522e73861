// Cases come back from both formats bit for bit; the examples of format.md hold; files are found and replaced whole.
#include "corpus/case_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "corpus/case_fields.h"
#include "corpus/testing/random_problem.h"

using namespace attest;
namespace fs = std::filesystem;

namespace {

bool operator==(const ExpectedState& a, const ExpectedState& b) {
  return a.row == b.row && a.block == b.block && a.m == b.m && a.l == b.l && a.scale == b.scale && a.o == b.o;
}

// Empty where the two cases hold the same, origin and texts included.
std::string difference(const Case& a, const Case& b) {
  const Problem &p = a.problem, &q = b.problem;
  if (!same(p, q)) return "problem";
  if (std::signbit(p.scale) != std::signbit(q.scale)) return "sign of scale";
  if (p.origin.regime != q.origin.regime || p.origin.values != q.origin.values || p.origin.mask != q.origin.mask || p.origin.note != q.origin.note) return "origin";
  if (a.name != b.name || a.property != b.property || a.signature != b.signature) return "names";
  if (a.expected.has_value() != b.expected.has_value()) return "expected";
  if (!a.expected) return "";
  const Expected &x = *a.expected, &y = *b.expected;
  const bool states = std::equal(x.states.begin(), x.states.end(), y.states.begin(), y.states.end(), [](const auto& s, const auto& t) { return s == t; });
  return states && x.o == y.o && x.lse == y.lse && x.p == y.p && x.source == y.source ? "" : "expected";
}

std::string read_text(const fs::path& path) {
  std::ifstream in(path, std::ios::binary);
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

fs::path scratch(const std::string& name) {
  const fs::path folder = fs::path(::testing::TempDir()) / ("attest_" + name + "_" + std::to_string(getpid()));
  fs::remove_all(folder);
  fs::create_directories(folder);
  return folder;
}

TEST(CaseFile, EveryProblemComesBackFromBothFormats) {
  int scores = 0;
  for (uint64_t seed = 0; seed < 3000; ++seed) {
    const Case c = random_case(seed);
    ASSERT_EQ(validate(c.problem), std::nullopt) << "seed " << seed;
    const std::string json = to_json(c);
    scores += json.find("\"scores\"") != std::string::npos;
    ASSERT_EQ(difference(parse_json_case(json, "json"), c), "") << "seed " << seed << "\n" << json;
    const std::vector<uint8_t> bytes = to_safetensors(c);
    ASSERT_EQ(difference(parse_safetensors_case(bytes, "safetensors"), c), "") << "seed " << seed << "\n" << json;
    ASSERT_EQ(to_safetensors(parse_json_case(json, "json")), bytes) << "seed " << seed;
    ASSERT_EQ(to_json(parse_safetensors_case(bytes, "safetensors")), json) << "seed " << seed;
  }
  EXPECT_GT(scores, 100);
}

TEST(CaseFile, RefusesToWriteWhatIsNoProblem) {
  Case c;
  c.problem = Problem::make({}, DType::f32);
  c.problem.scale = std::numeric_limits<float>::infinity();
  EXPECT_THROW(to_json(c), CaseError);
  EXPECT_THROW(to_safetensors(c), CaseError);
}

TEST(CaseFile, JsonIsMadeForReading) {
  Case c;
  c.name = "two rows";
  c.problem = parse_json_case(R"({"attest_case": 1, "type": "bf16", "scale": 1, "scores": [[2, 4, 1], [1, 2, 5]], "values": [[1, 0], [0, 1], [1, 1]],
                                  "mask": ["x..", "..."], "choice": {"tile_keys": 2}})", "test").problem;
  EXPECT_EQ(to_json(c), R"({
  "attest_case": 1,
  "name": "two rows",
  "type": "bf16",
  "shape": {"B": 1, "Hq": 1, "Hk": 1, "Nq": 2, "Nk": 3, "D": 2, "Dv": 2},
  "scale": 1,
  "scores": [
    [2, 4, 1],
    [1, 2, 5]
  ],
  "values": [
    [1, 0],
    [0, 1],
    [1, 1]
  ],
  "mask": [
    "x..",
    "..."
  ],
  "choice": {"tile_keys": 2}
}
)");
}

TEST(CaseFile, ScoresAreTheDotProducts) {
  const Problem p = parse_json_case(R"({"attest_case": 1, "type": "f32", "score_unit": 0.25, "shape": {"Hk": 1, "D": 5},
    "scores": [[[1, 2], [3, 4]], [[5, 6], [7, 8]]], "values": [[1], [1]]})", "test").problem;
  EXPECT_EQ(p.shape, (Shape{1, 2, 1, 2, 2, 5, 1}));
  EXPECT_EQ(p.scale, default_scale(5));
  for (int64_t h = 0; h < 2; ++h)
    for (int64_t i = 0; i < 2; ++i)
      for (int64_t j = 0; j < 2; ++j) {
        double dot = 0;
        for (int64_t d = 0; d < 5; ++d) dot += p.q.get(0, h, i, d) * p.k.get(0, 0, j, d);
        EXPECT_EQ(dot, static_cast<double>(4 * h + 2 * i + j + 1));
      }
}

// Blocks that are objects are cases; the others are fields put into the first one.
TEST(CaseFile, EveryPowerOfTwoIsAScoreUnit) {
  for (DType type : kAllDTypes)
    for (int exponent = min_subnormal_exponent(type); std::ldexp(1.0, exponent) <= largest_finite(type); ++exponent) {
      Case c;
      c.problem = Problem::make({.nk = 2}, type);
      c.problem.scale = 1;
      c.problem.q.set(0, 0, 0, 0, std::ldexp(1.0, exponent));
      const std::string text = to_json(c);
      EXPECT_TRUE(same(parse_json_case(text, "unit.json").problem, c.problem)) << text;
    }
}

TEST(FormatDocument, EveryExampleIsACase) {
  const std::string text = read_text(fs::path(ATTEST_SOURCE_DIR) / "corpus/format.md");
  ASSERT_FALSE(text.empty());
  nlohmann::json base;
  int examples = 0;
  const std::string open = "```json\n", close = "\n```";
  for (size_t at = text.find(open); at != std::string::npos; at = text.find(open, at)) {
    at += open.size();
    const std::string block = text.substr(at, text.find(close, at) - at);
    ++examples;
    if (block.starts_with('{')) {
      base = nlohmann::json::parse(block);
      EXPECT_NO_THROW(parse_json_case(block, "format.md"));
      continue;
    }
    nlohmann::json document = base;
    const nlohmann::json fields = nlohmann::json::parse("{" + block + "}");
    if (fields.contains("q")) document.erase("scores");
    document.update(fields);
    try {
      const Case c = parse_json_case(document.dump(), "format.md");
      EXPECT_EQ(difference(parse_json_case(to_json(c), "again"), c), "") << block;
    } catch (const CaseError& e) {
      ADD_FAILURE() << e.what() << "\n" << block;
    }
  }
  EXPECT_GE(examples, 15);
}

TEST(FormatDocument, NamesEveryField) {
  const std::string text = read_text(fs::path(ATTEST_SOURCE_DIR) / "corpus/format.md");
  const auto named = [&](std::string_view name) { return text.find(std::string(1, '`').append(name).append(1, '`')) != std::string::npos; };
  for (std::string_view name : kJsonFields) EXPECT_TRUE(named(name)) << name;
  for (std::string_view name : kTensorNames) EXPECT_TRUE(named(name)) << name;
  for (std::string_view name : kMetadataKeys) EXPECT_TRUE(named(name)) << name;
}

TEST(CaseFile, AFileIsReplacedWhole) {
  const fs::path folder = scratch("write");
  Case c = random_case(5);
  for (const char* name : {"a.json", "a.safetensors"}) {
    const std::string path = folder / name;
    c.name = "first";
    write_case(c, path);
    c.name = "second";
    write_case(c, path);
    EXPECT_EQ(difference(read_case(path), c), "");
  }
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 2) << "a temporary file was left";
  EXPECT_THROW(write_case(c, folder / "a.txt"), CaseError);
  EXPECT_THROW(write_case(c, folder / "missing" / "a.json"), CaseError);
  fs::create_directory(folder / "b.json");
  EXPECT_THROW(write_case(c, folder / "b.json"), CaseError);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder), {}), 3) << "a temporary file was left";
  fs::remove_all(folder);
}

TEST(CaseFile, OnlyRegularFilesAreRead) {
  const fs::path folder = scratch("irregular");
  const std::string pipe = folder / "pipe.json";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(read_case(pipe), CaseError);
  fs::create_directory(folder / "folder.json");
  EXPECT_THROW(read_case(folder / "folder.json"), CaseError);
  EXPECT_THROW(read_case(folder / "missing.json"), CaseError);
  EXPECT_THROW(read_case(folder / "case.txt"), CaseError);
  fs::remove_all(folder);
}

TEST(FindCases, AreSortedOverAllFoldersAndOnce) {
  const fs::path folder = scratch("find");
  fs::create_directories(folder / "b" / "deep");
  for (const char* name : {"z.json", "a.safetensors", "b/deep/m.json", "b/notes.md", "b/k.json.tmp"}) std::ofstream(folder / name) << "{}";
  const auto at = [&](const char* name) { return (folder / name).string(); };
  EXPECT_EQ(find_cases({folder, at("z.json")}), (std::vector<std::string>{at("a.safetensors"), at("b/deep/m.json"), at("z.json")}));
  EXPECT_TRUE(find_cases({}).empty());
  EXPECT_THROW(find_cases({at("missing")}), CaseError);
  EXPECT_THROW(find_cases({at("b/notes.md")}), CaseError);
  fs::remove_all(folder);
}

}  // namespace
