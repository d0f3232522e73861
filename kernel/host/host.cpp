#include "kernel/host/host.h"

#include "kernel/host/host_kernel.h"

namespace attest {

const attest_kernel* host_kernel() { return host::host_kernel_table<Recurrence>("host"); }

}  // namespace attest
