// assets.h: the files that a page is made of, as they were when the program was built.
#pragma once

#include <string_view>

namespace attest::cli {

std::string_view page_template();  // page.html, with @NAMES@ to be replaced
std::string_view page_style();     // page.css
std::string_view page_script();    // page.js
std::string_view report_schema();  // report.schema.json
std::string_view d3_script();      // d3.min.js of Debian's node-d3

}  // namespace attest::cli
