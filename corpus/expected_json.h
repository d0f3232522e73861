// expected_json.h: the numbers that a text states for a case, as JSON; both file formats use it.
//
// Numbers are strings, because "1.000" claims more than "1". Each must be a decimal or one of inf, -inf, nan.
#pragma once

#include <string>

#include "corpus/case_file.h"
#include "corpus/json_document.h"

namespace attest {

Expected read_expected(const Field& field);

// As JSON text: one line if `indent` is empty, else one line per state and row, the object indented by `indent`.
std::string expected_text(const Expected& expected, const std::string& indent);

}  // namespace attest
