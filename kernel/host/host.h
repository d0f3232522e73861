// host.h: the table of attest's CPU kernel.
#pragma once

#include "kernel/abi/attest_kernel.h"

namespace attest {

const attest_kernel* host_kernel();

}  // namespace attest
