#include "kernel/host/host.h"

#include "kernel/host/host_kernel.h"

namespace attest {

const attest_kernel* host_kernel() { return host::host_kernel_table<host::HostSteps>("host"); }

}  // namespace attest
