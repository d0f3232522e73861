// suite_exit_code.h: what a test program tells CTest.
//
// 0 something ran and nothing failed, 1 something failed, 4 everything that ran was skipped (SKIP_RETURN_CODE),
// 2 nothing ran at all. A skip never hides a failure.
#pragma once

#include <gtest/gtest.h>

namespace attest {

inline int suite_exit_code(const testing::UnitTest& unit_test) {
  if (!unit_test.Passed()) return 1;
  if (unit_test.test_to_run_count() == 0) return 2;
  return unit_test.skipped_test_count() == unit_test.test_to_run_count() ? 4 : 0;
}

}  // namespace attest
