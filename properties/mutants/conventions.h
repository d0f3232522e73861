// conventions.h: correct kernels, one for each convention and figure that a kernel may declare, to see that nothing of
// what is allowed is taken for a fault.
#pragma once

#include <vector>

#include "kernel/abi/attest_kernel.h"

namespace attest::mutants {

std::vector<const attest_kernel*> correct_kernels();
// Kernels that follow and declare every subset of the conventions; conventions_5 the first and the third of
// attest_conventions.
std::vector<const attest_kernel*> every_combination_of_conventions();

}  // namespace attest::mutants
