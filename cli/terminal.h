// terminal.h: what is safe and fitting to print where.
//
// Colour is for terminals alone, and not where NO_COLOR is set to anything (no-color.org) or TERM is dumb.
// Example: fmt::print("{}\n", painted("violation", Colour::red, colours(stdout)));
#pragma once

#include <cstdio>
#include <string>

#include "corpus/case_error.h"  // printable(): text of others as one line without control characters

namespace attest::cli {

enum class Colour { red, yellow, green };

bool colours(std::FILE* file);
std::string painted(const std::string& text, Colour colour, bool on);

// Keeps stdout for one text: from now on, to the end of the process, everything else that is printed to it, by a kernel
// in this process too, goes to stderr. Throws Stop (exit 2) where it cannot be written.
class ReservedStdout {
 public:
  explicit ReservedStdout(bool reserve);
  ~ReservedStdout();
  ReservedStdout(const ReservedStdout&) = delete;
  ReservedStdout& operator=(const ReservedStdout&) = delete;
  void put(const std::string& text);

 private:
  int kept_ = -1;
};

}  // namespace attest::cli
