// contents.h: changes to the contents of a Problem that a property makes on purpose.
//
// Guarantee: each function changes what its name says and nothing else, by choices alone; layouts stay unless
// said otherwise. Problems must be packed (transform.h), because contents that are broadcast by stride 0 cannot
// be changed in one place only.
#pragma once

#include <cstdint>
#include <optional>

#include "properties/generate/choices.h"
#include "reference/numerics.h"
#include "reference/problem.h"

namespace attest {

// Kinds of contents that must not matter.
enum class Payload : uint8_t { finite, any };  // any: NaN of both signs, infinities and extremes as well

// Bits of one element: mostly ordinary values, sometimes any bit pattern that `payload` allows.
uint32_t some_bits(DType type, Choices& choices, Payload payload);

// K and V of every key that no row of its key head sees, and bias at every hidden (row, key), get new
// contents; V stays finite if `v` is finite. Returns how many elements were changed.
int64_t replace_masked(Problem& packed_problem, const Conventions& conventions, Choices& choices, Payload payload, Payload v);

// V becomes +-(1 + n/128) * 2^e with |e| <= 3: far from under- and overflow in every type.
void moderate_values(Problem& problem, Choices& choices);
// One row of one query head, and what it reads.
struct KeptRow {
  int64_t b = 0, h = 0, i = 0;
};
// New contents for everything that row does not read: other rows of Q, K and V of other heads and batches,
// other rows of mask and bias, other lengths and sinks.
void replace_all_but(Problem& packed_problem, const KeptRow& kept, Choices& choices);

}  // namespace attest
