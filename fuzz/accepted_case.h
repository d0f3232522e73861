// accepted_case.h: what must hold of a case that a reader accepted: it is valid, and both writers keep it bit for bit.
#pragma once

#include "corpus/case_file.h"

namespace attest::fuzz {

// Aborts with a line on stderr where something does not hold.
void check_accepted(const Case& c);
// Likewise for the one line with which a reader refuses.
void check_refusal(const CaseError& e);

}  // namespace attest::fuzz
