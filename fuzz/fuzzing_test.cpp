// Inputs, mutators, feedback and findings, as the fuzz targets use them.
#include <gtest/gtest.h>
#include <stdlib.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "corpus/case_file.h"
#include "fuzz/feedback.h"
#include "fuzz/finding.h"
#include "fuzz/input.h"
#include "fuzz/mutate.h"
#include "properties/generate/generate.h"
#include "properties/shrink.h"
#include "properties/signature.h"

namespace attest::fuzz {
namespace {

namespace fs = std::filesystem;

void expect_sound(const Problem& p, const std::string& where) {
  const auto fault = validate(p);
  EXPECT_FALSE(fault) << where << ": " << fault.value_or("");
  EXPECT_TRUE(within_limits(p.shape)) << where;
}

Problem made(uint64_t seed, const Target& target) {
  Choices c = Choices::seeded(seed);
  for (;;) {
    Problem p = generate(c, target, {.min_keys = 0, .max_keys = 200, .max_width = 64, .work = 2e4}).problem;
    if (within_limits(p.shape)) return p;
  }
}

TEST(Input, a_problem_survives_its_image_bit_for_bit) {
  ProblemReader reader(Target::everything());
  std::vector<uint8_t> image;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    const Problem p = made(seed, reader.target());
    write_image(p, image);
    EXPECT_TRUE(same(reader.read(image), p)) << "seed " << seed << "\n" << in_words(p);
  }
}

TEST(Input, every_string_decodes_to_a_valid_problem) {
  ProblemReader reader(Target::everything());
  Choices c = Choices::seeded(1);
  std::vector<uint8_t> bytes;
  for (int n = 0; n < 600; ++n) {
    if (n % 3 == 0) {  // no image
      bytes.resize(c.below(200));
      for (uint8_t& b : bytes) b = static_cast<uint8_t>(c.bits(8));
    } else {  // an image, damaged and cut
      write_image(made(static_cast<uint64_t>(n), reader.target()), bytes);
      for (uint64_t damage = c.below(20); damage > 0; --damage) bytes[4 + c.below(std::min<uint64_t>(bytes.size(), 200) - 4)] = static_cast<uint8_t>(c.bits(8));
      if (c.below(3) == 0) bytes.resize(4 + c.below(bytes.size() - 4));
    }
    expect_sound(reader.read(bytes), "string " + std::to_string(n));
  }
}

// Every committed input of the targets on problems becomes a case file and comes back.
TEST(Corpus, every_input_is_a_case_and_all_stay_under_two_mebibytes) {
  ProblemReader reader(Target::everything()), again(Target::everything());
  uintmax_t bytes = 0;
  int inputs = 0;
  std::vector<uint8_t> image;
  for (const auto& entry : fs::recursive_directory_iterator(fs::path(ATTEST_SOURCE_DIR) / "fuzz/corpus")) {
    if (!entry.is_regular_file()) continue;
    bytes += entry.file_size();
    if (entry.path().parent_path().filename().string().ends_with("_reader")) continue;
    ++inputs;
    std::ifstream file(entry.path(), std::ios::binary);
    const std::vector<uint8_t> input{std::istreambuf_iterator<char>(file), {}};
    Case c;
    c.problem = reader.read(input);
    expect_sound(c.problem, entry.path());
    const Case back = parse_safetensors_case(to_safetensors(c), "back.safetensors");
    EXPECT_TRUE(same(back.problem, c.problem)) << entry.path();
    write_image(back.problem, image);
    EXPECT_TRUE(same(again.read(image), c.problem)) << entry.path();
  }
  EXPECT_GT(inputs, 100);
  EXPECT_LT(bytes, uintmax_t{2} << 20);
}

TEST(Mutate, every_step_applies_and_keeps_the_problem_valid) {
  const Target target = Target::everything();
  for (int step = 0; step < step_count(); ++step) {
    int applied = 0, changed = 0;
    for (uint64_t seed = 0; seed < 60; ++seed) {
      Problem p = made(seed, target);
      const Problem before = p;
      Choices c = Choices::seeded(seed + 1000);  // not those that made the problem
      if (!apply_step(step, p, c, target)) {
        EXPECT_TRUE(same(before, p)) << step_name(step);
        continue;
      }
      ++applied;
      changed += same(before, p) ? 0 : 1;
      expect_sound(p, std::string(step_name(step)) + ", seed " + std::to_string(seed));
    }
    EXPECT_GT(applied, 10) << step_name(step);
    EXPECT_GT(changed, 5) << step_name(step);
  }
}

TEST(Mutate, chains_of_steps_and_crossovers_stay_valid) {
  const Target target = Target::everything();
  Problem p = made(1, target);
  for (uint64_t n = 0; n < 1500; ++n) {
    Choices c = Choices::seeded(n);
    mutate(p, c, target);
    expect_sound(p, "mutation " + std::to_string(n));
    if (n % 10 == 0) {
      cross(p, made(n, target), c);
      expect_sound(p, "crossover " + std::to_string(n));
    }
  }
}

int step_named(std::string_view name) {
  for (int step = 0; step < step_count(); ++step)
    if (step_name(step) == name) return step;
  ADD_FAILURE() << name;
  return 0;
}

// One row whose key `highest` stands out.
Problem one_row(int64_t keys, int64_t highest) {
  Problem p = Problem::make({.nk = keys, .d = 2, .dv = 2}, DType::f32);
  p.scale = 1;
  p.choice.tile_keys = 16;
  p.q.set(0, 0, 0, 0, 1);
  for (int64_t j = 0; j < keys; ++j) p.k.set(0, 0, j, 0, j == highest ? 5 : 0.5);
  return p;
}

TEST(Mutate, the_maximum_moves_to_another_tile) {
  const int step = step_named("move_maximum");
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Problem p = one_row(50, 20);
    Choices c = Choices::seeded(seed);
    ASSERT_TRUE(apply_step(step, p, c, Target::everything()));
    int64_t highest = 0;
    for (int64_t j = 0; j < 50; ++j)
      if (p.k.get(0, 0, j, 0) == 5) highest = j;
    EXPECT_NE(highest / 16, 20 / 16) << "seed " << seed;
  }
}

TEST(Mutate, a_step_of_one_ulp_is_one) {
  const int step = step_named("step_ulp");
  Problem p = one_row(8, 3);
  const Problem before = p;
  Choices c = Choices::seeded(5);
  ASSERT_TRUE(apply_step(step, p, c, Target::everything()));
  int64_t changed = 0;
  for (const auto& [a, b] : {std::pair{&before.q, &p.q}, std::pair{&before.k, &p.k}, std::pair{&before.v, &p.v}})
    for (int64_t n = 0; n < static_cast<int64_t>(a->storage.size()) / 4; ++n)
      if (a->bits(n) != b->bits(n)) {
        ++changed;
        EXPECT_TRUE(step_bits(DType::f32, a->bits(n), 1) == b->bits(n) || step_bits(DType::f32, a->bits(n), -1) == b->bits(n));
      }
  EXPECT_EQ(changed, 1);
}

TEST(Feedback, larger_error_is_another_counter) {
  EXPECT_EQ(ratio_bucket(0), 0);
  EXPECT_EQ(ratio_bucket(1), 20);
  EXPECT_EQ(ratio_bucket(NAN), kRatioBuckets - 1);
  EXPECT_EQ(ratio_bucket(INFINITY), kRatioBuckets - 1);
  int last = 0;
  for (double ratio = 1e-6; ratio < 1e3; ratio *= 1.1) {
    EXPECT_GE(ratio_bucket(ratio), last);
    EXPECT_LT(ratio_bucket(ratio), kRatioBuckets);
    last = ratio_bucket(ratio);
  }
  EXPECT_EQ(last, kRatioBuckets - 1);

  const Problem p = one_row(50, 20);
  Observation seen;
  Verdict v;
  const auto set_by = [&](double ratio) {
    std::fill(counters().begin(), counters().end(), 0);
    v.worst_ratio = ratio;
    record(p, seen, v);
    return std::vector<uint8_t>(counters().begin(), counters().end());
  };
  EXPECT_EQ(set_by(0.01), set_by(0.0101));
  EXPECT_NE(set_by(0.01), set_by(0.02));
}

TEST(Feedback, a_rescale_and_the_place_of_the_maximum_are_counted) {
  const Problem p = one_row(48, 20);
  Verdict v;
  v.worst.push_back({});
  const auto set_by = [&](std::initializer_list<float> maxima) {
    Observation seen;
    seen.traced = true;
    float m = -INFINITY;
    for (float next : maxima) {
      const auto n = static_cast<int64_t>(seen.trace.size());
      const float now = std::max(m, next);
      seen.trace.push_back({.sequence = n, .key_begin = 16 * n, .key_end = 16 * n + 16, .m = now, .l = 1, .scale = std::exp(m - now)});
      m = now;
    }
    std::fill(counters().begin(), counters().end(), 0);
    record(p, seen, v);
    return std::vector<uint8_t>(counters().begin(), counters().end());
  };
  EXPECT_NE(set_by({1, 0, 0}), set_by({0, 1, 0}));
  EXPECT_NE(set_by({0, 1, 0}), set_by({0, 0, 1}));
  EXPECT_NE(set_by({0, 0, 1}), set_by({0, 0.5, 1}));
}

// A folder of its own, named by ATTEST_FINDINGS.
class Finding : public testing::Test {
 protected:
  void SetUp() override {
    std::string path = (fs::temp_directory_path() / "attest-fuzz-XXXXXX").string();
    ASSERT_NE(mkdtemp(path.data()), nullptr);
    folder_ = path;
    setenv("ATTEST_FINDINGS", path.c_str(), 1);
  }
  void TearDown() override {
    unsetenv("ATTEST_FINDINGS");
    fs::remove_all(folder_);
  }
  fs::path folder_;
};

// Wrong where some value of V is above 6.
Judged dislikes_large_values(const Problem& p) {
  Verdict v;
  for (int64_t j = 0; j < p.shape.nk; ++j)
    for (int64_t col = 0; col < p.shape.dv; ++col)
      if (p.shape.rows() > 0 && p.v.get(0, 0, j, col) > 6) {
        v.check = Check::bound;
        v.disposition = Disposition::incorrect;
        v.detail = "a large value";
        v.worst = {{.got = 1, .exact = 2}};
      }
  return {v, "matches_reference"};
}

TEST_F(Finding, is_shrunk_saved_and_known_the_second_time) {
  Problem p = one_row(50, 20);
  p.v.set(0, 0, 33, 1, 7);
  const Judging judging{"host", dislikes_large_values};
  const Judged judged = judging.judge(p);
  EXPECT_DEATH(found(p, judged, judging), "replay: attest replay .*json --kernel host");
  const std::vector<std::string> files = find_cases({folder_.string()});
  ASSERT_EQ(files.size(), 1u);
  const Case kept = read_case(files.front());
  EXPECT_LT(kept.problem.shape.nk, 3);
  EXPECT_EQ(kept.property, "matches_reference");
  EXPECT_EQ(kept.signature, signature("matches_reference", kept.problem, judging.judge(kept.problem).verdict));
  found(p, judged, judging);  // returns
  EXPECT_EQ(find_cases({folder_.string()}).size(), 1u);
}

TEST_F(Finding, a_crash_is_shrunk_in_child_processes_and_kept_once) {
  Problem p = one_row(20, 3);
  p.v.set(0, 0, 13, 1, 7);
  const Judging judging{"host", [](const Problem& q) {
                          if (!dislikes_large_values(q).verdict.ok()) std::abort();
                          return Judged{};
                        }};
  EXPECT_EQ(keep_crash(one_row(20, 3), judging, folder_.string()), 1) << "it does not crash";
  EXPECT_EQ(keep_crash(p, judging, folder_.string()), 0);
  const std::vector<std::string> files = find_cases({folder_.string()});
  ASSERT_EQ(files.size(), 1u);
  EXPECT_LT(read_case(files.front()).problem.shape.nk, 3);
  EXPECT_EQ(keep_crash(p, judging, folder_.string()), 0);
  EXPECT_EQ(find_cases({folder_.string()}).size(), 1u);
}

}  // namespace
}  // namespace attest::fuzz
