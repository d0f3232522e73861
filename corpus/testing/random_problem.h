// random_problem.h: well-formed problems with arbitrary bits everywhere, for tests of the file formats.
//
// Not for checking kernels: no score regime is aimed at. A seed gives the same problem on every compiler.
#pragma once

#include <cstdint>

#include "corpus/case_file.h"

namespace attest {

// Sizes from 0 to 4, all types, packed and strided and broadcast operands with padding, every mask, NaN payloads,
// infinities, subnormals and zeros of both signs, embedded scores, choices, output layouts.
Case random_case(uint64_t seed);

}  // namespace attest
