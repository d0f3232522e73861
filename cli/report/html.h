// html.h: text as HTML, and the frame of a page.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace attest::cli {

// Safe between tags and in quoted attributes; control characters become U+FFFD.
std::string html(const std::string& text);
// `text` with every @NAME@ of `values` replaced, once, and nothing replaced inside what was put in.
std::string filled(std::string_view text, const std::map<std::string, std::string>& values);

}  // namespace attest::cli
