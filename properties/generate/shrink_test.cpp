#include "properties/shrink.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/generate/generate.h"
#include "reference/visible.h"

namespace attest {
namespace {

Problem large(Regime pin, uint64_t seed, DType type = DType::f32) {
  Choices c = Choices::seeded(seed);
  return generate(c, Target::everything(),
                  {.pins = {pin}, .type = type, .min_tiles = 2, .choose_tile = true, .max_keys = 600, .work = 3e5})
      .problem;
}

TEST(Shrink, EverySimplificationIsValidAndChangesSomething) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Choices c = Choices::seeded(seed);
    const Problem p = generate(c, Target::everything(), {.max_keys = 60, .work = 3000}).problem;
    const auto steps = simplifications(p);
    ASSERT_TRUE(std::is_sorted(steps.begin(), steps.end()));
    for (const Simplification& step : steps) {
      const auto simpler = apply(p, step);
      if (!simpler) continue;
      ASSERT_EQ(validate(*simpler), std::nullopt) << "seed " << seed << ", step " << static_cast<int>(step.step);
      ASSERT_FALSE(same(*simpler, p)) << "seed " << seed << ", step " << static_cast<int>(step.step);
    }
  }
}

// What always fails shrinks to one row of nothing.
TEST(Shrink, AlwaysFailingEndsAtNothing) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    const Shrunk s = shrink(large(Regime::combined_masks, seed), [](const Problem&) { return true; });
    ASSERT_TRUE(s.finished);
    const Problem& p = s.problem;
    EXPECT_EQ(p.shape, (Shape{.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 0, .d = 1, .dv = 1}));
    EXPECT_FALSE(p.causal || p.mask || p.bias || p.key_lengths || p.sink || p.window.left || p.window.right ||
                 p.softcap != 0);
    EXPECT_EQ(p.q.get(0, 0, 0, 0), 0);
    EXPECT_EQ(p.choice, (Choice{.tile_keys = 1})) << "a tile that is said, the smallest";
  }
}

TEST(Shrink, TwoKeysAreFoundAmongHundreds) {
  Problem p = large(Regime::dense_normal, 3);
  ASSERT_GT(p.shape.nk, 4);
  p.mask.reset(), p.bias.reset();
  const int64_t a = p.shape.nk / 3, b = p.shape.nk - 2;
  p.v.set(0, 0, a, 0, 1234.5);
  p.v.set(0, 0, b, 0, -777.25);
  const Shrunk s = shrink(p, [](const Problem& q) {
    int64_t first = -1, second = -1;
    for (int64_t j = 0; j < q.shape.nk; ++j) {
      if (q.v.get(0, 0, j, 0) > 1000) first = j;
      if (q.v.get(0, 0, j, 0) < -500) second = j;
    }
    return first >= 0 && second > first;
  });
  ASSERT_TRUE(s.finished);
  EXPECT_EQ(s.problem.shape.nk, 2);
  EXPECT_EQ(s.problem.shape.dv, 1);
  EXPECT_EQ(s.problem.v.get(0, 0, 0, 0), 1024);  // the nearest power of two still fails
  EXPECT_EQ(s.problem.v.get(0, 0, 1, 0), -1024);
}

// A failure that needs one key past a whole tile keeps that relation in the smallest tile.
TEST(Shrink, TileAndKeysShrinkTogether) {
  Problem p = Problem::make({.b = 2, .hq = 2, .hk = 1, .nq = 3, .nk = 131, .d = 5, .dv = 7}, DType::f16);
  p.choice.tile_keys = 64;
  p.causal = true;
  const Shrunk s = shrink(p, [](const Problem& q) {
    return q.choice.tile_keys > 1 && q.shape.nk > q.choice.tile_keys && q.shape.nk % q.choice.tile_keys != 0;
  });
  ASSERT_TRUE(s.finished);
  EXPECT_EQ(s.problem.choice.tile_keys, 2);
  EXPECT_EQ(s.problem.shape.nk, 3);
  EXPECT_FALSE(s.problem.causal);
}

// A hidden key is kept hidden while the keys around it go, although causal geometry would move.
TEST(Shrink, KeepsVisiblePairsByWritingTheMask) {
  Problem p = Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 8, .nk = 40, .d = 1, .dv = 1}, DType::f32);
  p.causal = true;
  p.v.set(0, 0, 36, 0, 99);  // seen by rows 4 to 7
  const auto row_and_hidden_value = [](const Problem& q) {
    std::vector<int64_t> keys;
    bool hidden = false, visible = false;
    for (int64_t i = 0; i < q.shape.nq; ++i) {
      visible_keys(q, {}, 0, 0, i, keys);
      for (int64_t j = 0; j < q.shape.nk; ++j)
        if (q.v.get(0, 0, j, 0) == 99) (std::count(keys.begin(), keys.end(), j) ? visible : hidden) = true;
    }
    return hidden && visible;
  };
  ASSERT_TRUE(row_and_hidden_value(p));
  const Shrunk s = shrink(p, row_and_hidden_value);
  ASSERT_TRUE(s.finished);
  EXPECT_EQ(s.problem.shape.nq, 2);
  EXPECT_LE(s.problem.shape.nk, 2);
}

TEST(Shrink, SpecialValuesStayWhereTheFailureNeedsThem) {
  Problem p = large(Regime::dense_normal, 5, DType::bf16);
  const auto has_nan = [](const Problem& q) {
    for (int64_t j = 0; j < q.shape.nk; ++j)
      for (int64_t d = 0; d < q.shape.d; ++d)
        if (std::isnan(q.k.get(0, 0, j, d))) return true;
    return false;
  };
  p.k.set(0, 0, p.shape.nk - 1, p.shape.d - 1, NAN);
  const Shrunk s = shrink(p, has_nan);
  ASSERT_TRUE(s.finished);
  EXPECT_EQ(s.problem.shape.nk, 1);
  EXPECT_EQ(s.problem.shape.d, 1);
  EXPECT_TRUE(std::isnan(s.problem.k.get(0, 0, 0, 0)));
}

TEST(Shrink, StopsAtItsBudgetAndIsDeterministic) {
  const Problem p = large(Regime::combined_masks, 2);
  const auto predicate = [](const Problem& q) { return q.shape.nk >= 5; };
  const Shrunk few = shrink(p, predicate, {.seconds = 60, .attempts = 7});
  EXPECT_EQ(few.attempts, 7);
  EXPECT_FALSE(few.finished);
  EXPECT_TRUE(same(shrink(p, predicate).problem, shrink(p, predicate).problem));
  EXPECT_EQ(shrink(p, predicate).problem.shape.nk, 5);
}

TEST(Shrink, SaysTheCaseInWords) {
  Problem p = Problem::make({.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 2, .d = 1, .dv = 2}, DType::f16);
  p.q.set(0, 0, 0, 0, 1);
  p.k.set(0, 0, 1, 0, 0.5);
  p.v.set(0, 0, 0, 1, INFINITY);
  p.causal = true;
  p.choice.tile_keys = 1;
  p.sink = std::vector<float>{-2.5f};
  EXPECT_EQ(in_words(p),
            "f16: 1 batch, 1 query head on 1 key head, 1 row, 2 keys, D = 1, Dv = 2, scale 1\n"
            "causal, sink -2.5, tiles of 1 key\n"
            "q = [1]\n"
            "k = [0], [0.5]\n"
            "v = [0, inf], [0, 0]\n");
}

}  // namespace
}  // namespace attest
