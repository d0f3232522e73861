// rapidcheck.h: whole cases for RapidCheck. The only header that includes it.
//
// One generator draws 64 bits of RapidCheck's randomness and makes the Problem from Choices seeded by them, which
// costs no more than generate() does; its shrink tree is that of properties/shrink.h.
// Example:
//     rc::check("finite in, finite out", [&] {
//       const Problem p = *arbitrary_problem(target, {.never_traits = kNonFinite});
//       RC_ASSERT(...);
//     });
#pragma once

#include <rapidcheck.h>

#include <optional>
#include <ostream>
#include <utility>

#include "properties/generate/generate.h"
#include "properties/shrink.h"

namespace attest {

// Found by RapidCheck when it prints a counterexample.
inline void showValue(const Problem& problem, std::ostream& out) { out << in_words(problem); }

// The simpler variants of a problem, made one at a time as RapidCheck asks for them.
inline rc::Seq<Problem> shrink_sequence(const Problem& problem) {
  return rc::seq::mapMaybe(rc::seq::fromContainer(simplifications(problem)),
                           [problem](const Simplification& step) -> rc::Maybe<Problem> {
                             std::optional<Problem> simpler = apply(problem, step);
                             return simpler ? rc::Maybe<Problem>(std::move(*simpler)) : rc::Nothing;
                           });
}

inline rc::Gen<Problem> arbitrary_problem(Target target, Recipe recipe = {}) {
  return [target = std::move(target), recipe = std::move(recipe)](const rc::Random& random, int) {
    rc::Random bits = random;
    Choices choices = Choices::seeded(bits.next());
    return rc::shrinkable::shrinkRecur(generate(choices, target, recipe).problem, &shrink_sequence);
  };
}

}  // namespace attest
