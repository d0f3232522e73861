// schema.h: whether a text is a report, by report.schema.json.
#pragma once

#include <string>

namespace attest::cli {

// "" if it is; otherwise why not, in one line that names the field.
std::string not_a_report(const std::string& text);

}  // namespace attest::cli
