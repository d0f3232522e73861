#include "properties/generate/rapidcheck.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>

namespace attest {
namespace {

TEST(RapidCheck, MakesValidProblems) {
  const Target target = Target::everything();
  const bool held = rc::check("valid", [&] {
    const Problem p = *arbitrary_problem(target, {.max_keys = 200, .work = 1e5});
    RC_ASSERT(!validate(p));
  });
  EXPECT_TRUE(held);
}

// A false property shrinks to the smallest counterexample and prints it in words.
TEST(RapidCheck, ShrinksToASmallCounterexample) {
  const auto gen = arbitrary_problem(Target::everything(),
                                     {.pins = {Regime::any_shape}, .min_keys = 40, .max_keys = 60, .work = 2e4});
  auto shrinkable = gen(rc::Random(7), 100);
  const auto fails = [](const Problem& p) { return p.shape.nk >= 3; };
  ASSERT_TRUE(fails(shrinkable.value()));
  for (bool smaller = true; smaller;) {
    smaller = false;
    auto candidates = shrinkable.shrinks();
    while (auto next = candidates.next())
      if (fails(next->value())) {
        shrinkable = *next;
        smaller = true;
        break;
      }
  }
  const Problem smallest = shrinkable.value();
  EXPECT_EQ(smallest.shape, (Shape{.b = 1, .hq = 1, .hk = 1, .nq = 1, .nk = 3, .d = 1, .dv = 1}));
  std::ostringstream text;
  rc::show(smallest, text);
  EXPECT_NE(text.str().find("3 keys"), std::string::npos) << text.str();
}

}  // namespace
}  // namespace attest
