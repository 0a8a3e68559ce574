#include "compiler/Driver/Diagnostics.h"

#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Operation.h"
#include "mlir/Pass/Pass.h"
#include "runtime/base/OutputFile.h"

#include <algorithm>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <utility>

using moert::Status;
using moert::StatusCode;

namespace moec {

DiagnosticLog::DiagnosticLog(mlir::MLIRContext *context)
    : handler_(context, [this](mlir::Diagnostic &diagnostic) {
        std::string text = diagnostic.str();
        for (const mlir::Diagnostic &note : diagnostic.getNotes())
          text += "; " + note.str();
        auto &list = diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error
                         ? errors_
                         : remarks_;
        if (std::ranges::find(list, text) == list.end())
          list.push_back(std::move(text));
      }) {}

Status DiagnosticLog::failure(StatusCode code) const {
  // One cause can fail in every layer; the first few tell it.
  constexpr size_t shown = 5;
  if (errors_.empty())
    return Status(StatusCode::Internal, "compilation failed without an error");
  std::string text = fmt::format(
      "{}", fmt::join(errors_.begin(),
                      errors_.begin() + std::min(shown, errors_.size()),
                      "\n       "));
  if (errors_.size() > shown)
    text += fmt::format("\n       and {} more errors", errors_.size() - shown);
  return Status(code, std::move(text));
}

void PassLog::runAfterPass(mlir::Pass *pass, mlir::Operation *op) {
  ++state_.passes;
  if (state_.dumpFolder.empty() || !state_.dumpStatus.isOk())
    return;
  std::string path =
      fmt::format("{}/{:02}-{}.mlir", state_.dumpFolder, state_.passes,
                  std::string_view(pass->getArgument()));
  std::string text;
  llvm::raw_string_ostream stream(text);
  op->print(stream);
  state_.dumpStatus = state_.inputs.refuse(path);
  if (state_.dumpStatus.isOk())
    state_.dumpStatus = moert::writeOutput(path, text);
}

void PassLog::runAfterPassFailed(mlir::Pass *pass, mlir::Operation *) {
  // Passes nest: the innermost failure comes first and names the cause.
  if (state_.failedPass.empty())
    state_.failedPass = pass->getArgument().str();
}

StatusCode failureOfPass(const std::string &pass) {
  static constexpr std::pair<std::string_view, StatusCode> meanings[] = {
      {"moe-absorb-mla", StatusCode::Usage},
      {"moe-reduce-experts", StatusCode::Usage},
      {"moe-place-devices", StatusCode::DoesNotFit},
      {"moe-select-kernels", StatusCode::Unsupported},
  };
  for (const auto &[name, code] : meanings)
    if (name == pass)
      return code;
  return StatusCode::Internal;
}

} // namespace moec
