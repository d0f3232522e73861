// The main of every GoogleTest program here. Exit code 1 where something failed, 4 where everything that ran was
// skipped, else 0: a program that skips one thing and fails another is red, whatever it prints.
#include <gtest/gtest.h>

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  if (RUN_ALL_TESTS() != 0) return 1;
  const testing::UnitTest& all = *testing::UnitTest::GetInstance();
  return all.skipped_test_count() > 0 && all.successful_test_count() == 0 ? 4 : 0;
}
