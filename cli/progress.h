// progress.h: how far a long run is, on stderr: one line that is rewritten on a terminal, a plain line every ten
// seconds elsewhere.
#pragma once

#include <string>

#include "properties/verify.h"

namespace attest::cli {

// "120 of 10000 cases, 240/s, 3 violations of 2 signatures, worst err/bound 7.1, 41 s left, tile_size"
std::string progress_text(const Progress& progress);

class ProgressLine {
 public:
  ProgressLine();
  ~ProgressLine() { clear(); }
  void operator()(const Progress& progress);
  void clear();  // takes the line off the terminal

 private:
  bool terminal_;
  double next_plain_ = 10;  // seconds
  bool shown_ = false;
};

}  // namespace attest::cli
