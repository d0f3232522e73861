// case_error.h: the one line that a reader or writer of case files fails with.
//
// Guarantee: whatever a file holds, the message is one line of printable UTF-8: control characters, line breaks and
// bytes that are no UTF-8 are escaped, and quotations from the file are cut short.
// Example: fail("a.json", "k[0][2]", "\"in\" is neither a number nor inf, -inf, nan");
//          throws CaseError "a.json: k[0][2]: \"in\" is neither ..."
#pragma once

#include <string>
#include <string_view>

#include "corpus/case_file.h"

namespace attest {

// `text` with control characters and malformed UTF-8 written as \n, \t or \xNN.
std::string printable(std::string_view text);

// `text` in double quotes, printable, cut after about 60 characters.
std::string in_quotes(std::string_view text);

// Throws CaseError "file: field: what"; an empty part is left out.
[[noreturn]] void fail(std::string_view file, std::string_view field, std::string_view what);

}  // namespace attest
