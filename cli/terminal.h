// terminal.h: what is safe and fitting to print where.
//
// Colour is for terminals alone, and not where NO_COLOR is set to anything (no-color.org) or TERM is dumb.
// Example: fmt::print("{}\n", painted("violation", Colour::red, colours(stdout)));
#pragma once

#include <cstdio>
#include <string>

namespace attest::cli {

enum class Colour { red, yellow, green };

bool colours(std::FILE* file);
std::string painted(const std::string& text, Colour colour, bool on);

// Text of others (a kernel's message, a name in a file) as one line without control characters: those, and bytes that are no
// UTF-8, become \n, \t or \xNN.
std::string printable(const std::string& text);

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
