#include "properties/transform.h"

#include <gtest/gtest.h>

#include <cmath>

#include "properties/contents.h"
#include "properties/generate/generate.h"
#include "properties/property.h"
#include "reference/visible.h"

namespace attest {

namespace {

Problem some_problem(uint64_t seed) {
  Choices choices = Choices::seeded(seed);
  Recipe recipe;
  recipe.max_keys = 40;
  recipe.max_width = 12;
  recipe.work = 1e5;
  return generate(choices, Target::everything(), recipe).problem;
}

bool same_contents(const Tensor& a, const Tensor& b) {
  if (a.type != b.type || a.layout.extent != b.layout.extent) return false;
  const auto& e = a.layout.extent;
  for (int64_t i = 0; i < e[0]; ++i)
    for (int64_t j = 0; j < e[1]; ++j)
      for (int64_t k = 0; k < e[2]; ++k)
        for (int64_t l = 0; l < e[3]; ++l)
          if (a.bits(a.layout.at(i, j, k, l)) != b.bits(b.layout.at(i, j, k, l))) return false;
  return true;
}

constexpr uint64_t kSeeds = 150;

}  // namespace

TEST(Transform, other_layouts_keep_contents_validity_and_alignment) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Problem p = some_problem(seed), flat = packed(p);
    ASSERT_EQ(validate(flat), std::nullopt) << seed;
    const Problem other = relaid(flat, seed, 0x5A), odd = misaligned(flat);
    for (const Problem* q : {&flat, &other, &odd}) {
      ASSERT_EQ(validate(*q), std::nullopt) << seed;
      EXPECT_TRUE(same_contents(p.q, q->q) && same_contents(p.k, q->k) && same_contents(p.v, q->v)) << seed;
      EXPECT_EQ(p.bias.has_value(), q->bias.has_value());
      if (p.bias) {
        EXPECT_TRUE(same_contents(*p.bias, *q->bias)) << seed;
      }
    }
    if (p.shape.rows() > 0 && p.shape.nk > 0) {
      EXPECT_EQ(alignment_class(flat), alignment_class(other)) << seed;
    }
    for (const Alignment& a : alignment_class(odd)) EXPECT_LT(a.all, 16) << seed;
  }
}

TEST(Transform, keys_move_with_their_mask_and_bias) {
  int64_t masked = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    Problem p = some_problem(seed);
    p.causal = false;
    p.window = {};
    p.key_lengths.reset();
    if (p.shape.rows() == 0 || p.shape.nk == 0) continue;
    std::vector<int64_t> reversed;
    for (int64_t j = p.shape.nk; j-- > 0;) reversed.push_back(j);
    const Problem r = take_keys(p, reversed);
    ASSERT_EQ(validate(r), std::nullopt) << seed;
    const BoolMask before = visible_mask(p, {}), after = visible_mask(r, {});
    for (int64_t i = 0; i < p.shape.nq; ++i)
      for (int64_t j = 0; j < p.shape.nk; ++j) {
        const int64_t to = p.shape.nk - 1 - j;
        EXPECT_EQ(before.storage[static_cast<size_t>(before.layout.at(0, 0, i, j))], after.storage[static_cast<size_t>(after.layout.at(0, 0, i, to))]);
        masked += before.storage[static_cast<size_t>(before.layout.at(0, 0, i, j))] == 0;
        if (p.bias) {
          EXPECT_EQ(p.bias->bits(broadcast_at(p.bias->layout, 0, 0, i, j)), r.bias->bits(broadcast_at(r.bias->layout, 0, 0, i, to)));
        }
      }
    EXPECT_TRUE(same(packed(p), take_keys(r, reversed))) << seed;
  }
  EXPECT_GT(masked, 0);
}

TEST(Transform, batches_and_heads_keep_what_their_rows_see) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Problem p = some_problem(seed);
    if (p.shape.rows() == 0 || p.shape.nk == 0) continue;
    const int64_t b = p.shape.b - 1, g = p.shape.hk - 1, group = p.shape.hq / p.shape.hk;
    const Problem batch = take_batches(p, std::vector<int64_t>{b}), heads = take_key_heads(p, std::vector<int64_t>{g}), all = repeat_key_heads(p);
    for (const Problem* q : {&batch, &heads, &all}) ASSERT_EQ(validate(*q), std::nullopt) << seed;
    std::vector<int64_t> whole, part;
    for (int64_t i = 0; i < p.shape.nq; ++i) {
      visible_keys(p, {}, b, 0, i, whole);
      visible_keys(batch, {}, 0, 0, i, part);
      EXPECT_EQ(whole, part) << seed;
      visible_keys(p, {}, 0, g * group, i, whole);
      visible_keys(heads, {}, 0, 0, i, part);
      EXPECT_EQ(whole, part) << seed;
    }
    EXPECT_EQ(all.shape.hk, p.shape.hq);
    EXPECT_EQ(all.v.get(b, p.shape.hq - 1, 0, 0) == p.v.get(b, g, 0, 0) || std::isnan(p.v.get(b, g, 0, 0)), true);
  }
}

TEST(Transform, exact_changes_are_exact_or_refused) {
  int64_t shifted = 0, refused = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Problem p = some_problem(seed);
    if (const auto moved = shift_scores(p, 64)) {
      ++shifted;
      if (!p.bias) {
        EXPECT_EQ(moved->bias->get(0, 0, 0, 0), 64);
      }
      for (int64_t at = 0; p.bias && at < p.bias->layout.span(); ++at) {
        const double x = to_double(p.bias->type, p.bias->bits(at)), y = to_double(moved->bias->type, moved->bias->bits(at));
        if (std::isfinite(x)) {
          EXPECT_EQ(y - 64, x) << seed;
        }
      }
    } else {
      ++refused;
    }
    if (p.shape.nk > 0 && p.shape.b > 0 && p.shape.hk > 0) {
      const Problem negated = negate_values(p);
      const double v = p.v.get(0, 0, 0, 0);
      if (!std::isnan(v)) {
        EXPECT_EQ(negated.v.get(0, 0, 0, 0), -v);
      }
      Problem moderate = p;
      Choices choices = Choices::seeded(seed);
      moderate_values(moderate, choices);
      const auto scaled = scale_values(moderate, -4);
      ASSERT_TRUE(scaled) << seed;
      EXPECT_EQ(scaled->v.get(0, 0, 0, 0), moderate.v.get(0, 0, 0, 0) / 16);
      moderate.v.set(0, 0, 0, 0, largest_finite(p.type));
      EXPECT_FALSE(scale_values(moderate, 1));
    }
  }
  EXPECT_GT(shifted, 0);
  EXPECT_GT(refused, 0);
}

TEST(Contents, masked_contents_change_nothing_that_is_read) {
  int64_t changed = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Problem p = packed(some_problem(seed));
    Problem q = p;
    Choices choices = Choices::seeded(seed);
    changed += replace_masked(q, {}, choices, Payload::any, Payload::any);
    std::vector<int64_t> keys;
    for (int64_t h = 0; h < p.shape.hq && p.shape.b > 0; ++h)
      for (int64_t i = 0; i < p.shape.nq; ++i) {
        visible_keys(p, {}, 0, h, i, keys);
        for (int64_t j : keys) {
          const int64_t g = p.shape.key_head(h);
          EXPECT_EQ(p.k.bits(p.k.layout.at(0, g, j, 0)), q.k.bits(q.k.layout.at(0, g, j, 0)));
          EXPECT_EQ(p.v.bits(p.v.layout.at(0, g, j, p.shape.dv - 1)), q.v.bits(q.v.layout.at(0, g, j, p.shape.dv - 1)));
          if (p.bias) {
            EXPECT_EQ(p.bias->bits(broadcast_at(p.bias->layout, 0, h, i, j)), q.bias->bits(broadcast_at(q.bias->layout, 0, h, i, j)));
          }
        }
      }
  }
  EXPECT_GT(changed, 0);
}

TEST(Contents, all_but_one_row_changes_and_that_row_reads_the_same) {
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    const Problem p = packed(some_problem(seed));
    if (p.shape.rows() < 2 || p.shape.nk == 0) continue;
    Problem q = p;
    Choices choices = Choices::seeded(seed);
    const KeptRow kept{p.shape.b - 1, p.shape.hq - 1, 0};
    replace_all_but(q, kept, choices);
    ASSERT_EQ(validate(q), std::nullopt);
    EXPECT_FALSE(same(p, q)) << seed;
    std::vector<int64_t> before, after;
    visible_keys(p, {}, kept.b, kept.h, kept.i, before);
    visible_keys(q, {}, kept.b, kept.h, kept.i, after);
    EXPECT_EQ(before, after) << seed;
    const int64_t g = p.shape.key_head(kept.h);
    for (int64_t d = 0; d < p.shape.d; ++d) EXPECT_EQ(p.q.bits(p.q.layout.at(kept.b, kept.h, kept.i, d)), q.q.bits(q.q.layout.at(kept.b, kept.h, kept.i, d)));
    for (int64_t j : before) {
      EXPECT_EQ(p.k.bits(p.k.layout.at(kept.b, g, j, 0)), q.k.bits(q.k.layout.at(kept.b, g, j, 0)));
      if (p.bias) {
        EXPECT_EQ(p.bias->bits(broadcast_at(p.bias->layout, kept.b, kept.h, kept.i, j)), q.bias->bits(broadcast_at(q.bias->layout, kept.b, kept.h, kept.i, j)));
      }
    }
  }
}

TEST(ContentSeed, tells_problems_apart_and_nothing_else) {
  for (uint64_t seed = 0; seed < 40; ++seed) {
    const Problem p = some_problem(seed);
    Problem q = p;
    q.origin.note = "elsewhere";
    EXPECT_EQ(content_seed(p), content_seed(q));
    q.scale = -q.scale - 1;
    EXPECT_NE(content_seed(p), content_seed(q));
    if (p.v.storage.empty()) continue;
    q = p;
    q.v.storage.back() ^= 1;
    EXPECT_NE(content_seed(p), content_seed(q));
  }
}

}  // namespace attest
