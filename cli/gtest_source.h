// gtest_source.h: a failing case as a small GoogleTest source that reproduces it.
//
// The source holds the case itself and needs attest's libraries (find_package(attest)) and GoogleTest; it fails while the
// kernel has the fault. The environment variable ATTEST_KERNEL names another kernel to try.
// Example: write_file("shrunk_test.cpp", gtest_source(shrunk_case, "./my_kernel.so", Contract::strict));
#pragma once

#include <string>

#include "corpus/case_file.h"
#include "reference/numerics.h"

namespace attest::cli {

// `kernel`: as --kernel takes it. The case names its property, or none for plain judging.
std::string gtest_source(const Case& c, const std::string& kernel, Contract contract);

}  // namespace attest::cli
