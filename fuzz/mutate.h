// mutate.h: mutators and crossover that act on problems, not on bytes.
//
// Each step does to a problem what breaks online-softmax kernels: moves a maximum to another tile, reverses the keys,
// masks a tile, makes ties, steps a score by one unit in the last place, resizes around a tile's edge. Guarantees: a
// valid problem within kLimits stays one; the same choices make the same step on every platform.
// Example: mutate(problem, choices, target);
#pragma once

#include <string_view>

#include "fuzz/input.h"
#include "properties/generate/choices.h"

namespace attest::fuzz {

// One to three steps.
void mutate(Problem& problem, Choices& choices, const Target& target);

// Gives `problem` runs of keys, query rows, masks or settings of `other`, converted to its types and sizes.
void cross(Problem& problem, const Problem& other, Choices& choices);

// For tests: the number of steps, their names, and one of them by number; false where it does not apply.
int step_count();
std::string_view step_name(int step);
bool apply_step(int step, Problem& problem, Choices& choices, const Target& target);

}  // namespace attest::fuzz
