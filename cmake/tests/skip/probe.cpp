// Three tests whose outcome is known, for run.cmake.
#include <gtest/gtest.h>

TEST(Probe, Passes) {}
TEST(Probe, Skips) { GTEST_SKIP() << "on purpose"; }
TEST(Probe, Fails) { FAIL() << "on purpose"; }
