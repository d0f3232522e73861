// files.h: writing a report's files.
#pragma once

#include <string>

namespace attest::cli {

// Writes `text` to `path`, folders made where missing. Throws Stop (exit 2) with a line that names the path.
void write_file(const std::string& path, const std::string& text);
// Makes the folder of a report where it is missing. Throws Stop (exit 2), naming the option, where no file can be written there.
void probe_folder(const std::string& option, const std::string& folder);

}  // namespace attest::cli
