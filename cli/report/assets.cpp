// CMake names the files; a change of one of them compiles this again.
#include "cli/report/assets.h"

#define ATTEST_EMBED(name, path)                     \
  asm(".pushsection .rodata\n"                       \
      "attest_" #name "_begin: .incbin \"" path "\"\n" \
      "attest_" #name "_end: .byte 0\n"              \
      ".popsection\n");                              \
  extern "C" const char attest_##name##_begin[], attest_##name##_end[]

ATTEST_EMBED(page_html, ATTEST_PAGE_FOLDER "/page.html");
ATTEST_EMBED(page_css, ATTEST_PAGE_FOLDER "/page.css");
ATTEST_EMBED(page_js, ATTEST_PAGE_FOLDER "/page.js");
ATTEST_EMBED(schema, ATTEST_PAGE_FOLDER "/report.schema.json");
ATTEST_EMBED(d3_js, ATTEST_D3);

namespace attest::cli {

std::string_view page_template() { return {attest_page_html_begin, attest_page_html_end}; }
std::string_view page_style() { return {attest_page_css_begin, attest_page_css_end}; }
std::string_view page_script() { return {attest_page_js_begin, attest_page_js_end}; }
std::string_view report_schema() { return {attest_schema_begin, attest_schema_end}; }
std::string_view d3_script() { return {attest_d3_js_begin, attest_d3_js_end}; }

}  // namespace attest::cli
