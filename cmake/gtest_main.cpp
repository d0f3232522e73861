// The main of every unit test: properties/suite_exit_code.h says what its exit codes mean.
#include "properties/suite_exit_code.h"

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS() != 0 ? 1 : attest::suite_exit_code(*testing::UnitTest::GetInstance());
}
