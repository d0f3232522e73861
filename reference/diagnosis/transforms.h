// transforms.h: the problem that a kernel with certain faults solves in place of the one given.
//
// A kernel that reads K by V's strides or rounds its bias is right about another problem. nullopt where the two are the
// same, or where the fault cannot arise.
#pragma once

#include <optional>

#include "reference/diagnosis/fault.h"

namespace attest {

std::optional<Problem> transformed(const Problem& problem, Transform transform);

}  // namespace attest
