// one_line.h: a text of a stranger (a kernel, a plug-in, a case file) as one line that can be printed and stand in JSON.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace attest {

// Control characters become blanks, bytes that are no UTF-8 become '?', and what is longer than `most` bytes is cut at a
// character and ends in "...".
std::string one_line(std::string_view text, size_t most = 1000);

}  // namespace attest
