// progress.h: how far a long run is, on stderr: one line that is rewritten on a terminal, a plain line every ten
// seconds elsewhere.
#pragma once

#include "properties/verify.h"

namespace attest::cli {

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
