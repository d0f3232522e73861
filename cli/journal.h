// journal.h: what a run of verify writes down while it goes on, so that a run that is killed can be told of and continued.
//
// One JSON object a line, each written at once: `run` (what is run, and the command that repeats it), `begins` (a batch:
// property, first, last) before the batch's first call, `ends` with all figures that the batch gave, `lost` where a worker
// was lost (seed, property, index, how, and the file that holds what it ran).
// A last line that was cut short counts for nothing. Example:
//     const JournalRead before = read_journal("report/journal.jsonl");
//     Journal journal("report/journal.jsonl", before.run, before.bytes);
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "properties/verify.h"

namespace attest::cli {

// What is run, as names and texts: "seed", "cases", "kernel", ... and "command".
using RunRecord = std::map<std::string, std::string>;

struct JournalRead {
  RunRecord run;
  std::vector<FinishedBatch> finished;
  double seconds = 0;   // that the run had taken when its last batch ended
  uint64_t bytes = 0;   // of the lines that are whole
};

// Throws Stop (exit 2) where there is none, or where a line is none of a journal.
JournalRead read_journal(const std::string& path);

class Journal {
 public:
  // Starts a journal, or with `continued` goes on after that many bytes of one. Throws Stop (exit 2) where the file
  // cannot be written. With path "" nothing is written.
  Journal(const std::string& path, const RunRecord& run, uint64_t continued = 0);
  ~Journal();
  Journal(const Journal&) = delete;
  Journal& operator=(const Journal&) = delete;

  void begins(const Batch& batch);
  // `seconds`: since the run began.
  void ends(const Batch& batch, const PropertyReport& report, const Mix& mix, double seconds);
  void lost(const LostCall& call, const std::string& file);

 private:
  void write(const std::string& line);
  std::string path_;
  int file_ = -1;
};

}  // namespace attest::cli
