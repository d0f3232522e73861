// journal.h: what a run of verify writes down while it goes on, so that a run that is killed leaves where it was.
//
// One JSON object a line, each written at once: `run` (the command that repeats it), `begins` (a batch: property, first,
// last) before the batch's first call, `ends` with what the batch gave, `lost` where a worker was lost (seed, property,
// index, how, and the file that holds what it ran).
#pragma once

#include <string>

#include "properties/verify.h"

namespace attest::cli {

class Journal {
 public:
  // Throws Stop (exit 2) where the file cannot be written. With path "" nothing is written.
  Journal(const std::string& path, const std::string& command);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void begins(const Batch& batch);
  void ends(const Batch& batch, const PropertyReport& report, const Mix& mix);
  void lost(const LostCall& call, const std::string& file);

 private:
  void write(const std::string& line);
  std::string path_;
  int file_ = -1;
};

}  // namespace attest::cli
