//===- LlvmFailure.h - Reports LLVM's fatal errors --------------*- C++ -*-===//

#ifndef MOE_TOOLS_COMMON_LLVMFAILURE_H
#define MOE_TOOLS_COMMON_LLVMFAILURE_H

#include "llvm/Support/ErrorHandling.h"
#include "runtime/base/Temporaries.h"
#include "tools/common/Output.h"

#include <string>
#include <string_view>
#include <unistd.h>

namespace moetool {

/// From now on, where LLVM would abort with "LLVM ERROR", the process prints
/// one line and ends with one of our exit codes: Io if a stream of LLVM cannot
/// be written, DoesNotFit for lack of memory, otherwise Internal.
inline void catchLlvmFailures() {
  using moert::Status;
  using moert::StatusCode;
  llvm::install_fatal_error_handler([](void *, const char *reason, bool) {
    moert::removeTemporaries();
    bool io = std::string_view(reason).starts_with("IO failure");
    ::_exit(finish(Status(io ? StatusCode::Io : StatusCode::Internal,
                          (io ? "" : "LLVM gave up: ") + std::string(reason))));
  });
  llvm::install_bad_alloc_error_handler([](void *, const char *, bool) {
    moert::removeTemporaries();
    ::_exit(finish(Status(StatusCode::DoesNotFit, "out of memory")));
  });
}

} // namespace moetool

#endif // MOE_TOOLS_COMMON_LLVMFAILURE_H
