// A program with one skipped and one failing test, and one with a skip alone; CTest entries made of it prove that a
// skip never hides a failure.
#include "properties/suite_exit_code.h"

TEST(SkipRules, skipped) { GTEST_SKIP() << "on purpose"; }
TEST(SkipRules, failing) { FAIL() << "on purpose"; }

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int failed = RUN_ALL_TESTS();
  return failed != 0 ? 1 : attest::suite_exit_code(*testing::UnitTest::GetInstance());
}
