// case_file.h: a case as a file: one Problem, with what is expected of it where that is known.
//
// Two formats hold the same thing. `.json` is for people: small, readable in a diff, scores or q and k as
// nested lists, inf and nan as strings, decimals that round-trip. `.safetensors` is for any size and any
// program: tensors q, k, v, optional bias, mask, key_lengths, sink, the rest in its string metadata.
// corpus/format.md documents every field. Paths inside a file are never followed.
// Errors: reading throws CaseError with one line that names the file and the field; a malformed or hostile
// file never crashes the reader, and sizes are checked before anything is allocated for them.
#pragma once

#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "reference/problem.h"

namespace attest {

struct CaseError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The state after one block, as a text states it; the last digit given is what it claims.
struct ExpectedState {
  int64_t row = 0, block = 0;          // query row; 0-based visit
  std::string m, l, scale;             // decimals as stated, "" where the text says nothing
  std::vector<std::string> o;          // unnormalised O after the block, as stated
};

// Numbers that a text states for a case: decimal strings, held to one unit of their last digit.
struct Expected {
  std::vector<ExpectedState> states;
  std::vector<std::vector<std::string>> o;  // [row][column]
  std::vector<std::string> lse;             // [row]
  std::vector<std::vector<std::string>> p;  // [row][key] softmax probabilities
  std::string source;                       // where the numbers stand
};

struct Case {
  Problem problem;
  std::string name;        // short title
  std::string property;    // the property that it failed, or that it illustrates; "" judges it plainly
  std::string signature;   // of the failure that it was saved for
  std::optional<Expected> expected;
};

Case read_case(const std::string& path);                         // by extension
Case parse_json_case(std::string_view text, const std::string& name);
Case parse_safetensors_case(std::span<const uint8_t> bytes, const std::string& name);
std::string to_json(const Case& c);
std::vector<uint8_t> to_safetensors(const Case& c);
void write_case(const Case& c, const std::string& path);         // by extension, atomically

// Every case file under the paths (files or folders), sorted. Throws CaseError where a path does not exist.
std::vector<std::string> find_cases(const std::vector<std::string>& paths);

}  // namespace attest
