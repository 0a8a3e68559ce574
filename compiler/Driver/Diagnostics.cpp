#include "compiler/Driver/Diagnostics.h"

#include "compiler/Explain/Collapse.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Operation.h"
#include "mlir/Pass/Pass.h"
#include "runtime/base/OutputFile.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <map>
#include <optional>
#include <utility>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {
/// Passes that can fail because of the user's request, with the resulting
/// status code.
std::optional<StatusCode> userFailureOf(std::string_view pass) {
  static constexpr std::pair<std::string_view, StatusCode> meanings[] = {
      {"moe-choose-kv-types", StatusCode::Usage},
      {"moe-size-caches", StatusCode::DoesNotFit},
      {"moe-use-nodes", StatusCode::Usage},
      {"moe-absorb-mla", StatusCode::Usage},
      {"moe-reduce-experts", StatusCode::Usage},
      {"moe-defer-experts", StatusCode::Usage},
      {"moe-apply-rules", StatusCode::Usage},
      {"moe-place-devices", StatusCode::DoesNotFit},
      {"moe-stream-experts", StatusCode::Usage},
      {"moe-select-kernels", StatusCode::Unsupported},
      {"plan-check-memory", StatusCode::DoesNotFit},
  };
  for (const auto &[name, code] : meanings)
    if (name == pass)
      return code;
  return std::nullopt;
}

/// Returns "file:3:14: ", or "" without a file location.
std::string placeOf(mlir::Location location) {
  auto place = llvm::dyn_cast<mlir::FileLineColLoc>(location);
  if (!place)
    return "";
  return fmt::format("{}:{}:{}: ", place.getFilename().str(), place.getLine(),
                     place.getColumn());
}

/// Returns the first line, shortened if it is long.
std::string brief(const std::string &text) {
  constexpr size_t longest = 200;
  std::string line = text.substr(0, text.find('\n'));
  return line.size() <= longest ? line
                                : fmt::format("{}...", line.substr(0, longest));
}

/// Splits off the layer with which remarks and errors of passes begin, as in
/// "blk.3.ffn: ...".
OpNames namesOf(std::string_view text) {
  constexpr std::string_view prefix = "blk.";
  int layer = -1;
  if (!text.starts_with(prefix))
    return {text, layer};
  const char *begin = text.data() + prefix.size();
  const char *end = text.data() + text.size();
  auto [dot, error] = std::from_chars(begin, end, layer);
  // Only accepts the spelling that layerText() produces.
  bool canonical = error == std::errc() && layer >= 0 &&
                   std::to_string(layer) == std::string_view(begin, dot);
  if (!canonical || dot == end || *dot != '.')
    return {text, -1};
  return {{dot + 1, end}, layer};
}

/// Combines texts that are equal except for the layer that they begin with, in
/// the order of the first of each.
std::vector<OpNames> distinctTexts(const std::vector<std::string> &texts) {
  std::vector<OpNames> distinct;
  std::map<std::pair<bool, std::string_view>, size_t> places;
  for (const std::string &text : texts) {
    OpNames names = namesOf(text);
    auto [place, isNew] =
        places.try_emplace({names.layers.empty(), names.part}, distinct.size());
    if (isNew)
      distinct.push_back(std::move(names));
    else
      distinct[place->second].add(names);
  }
  return distinct;
}
} // namespace

Status Failure::status() const {
  size_t end = std::min(cause.find('\n'), cause.size());
  return Status(code, cause.substr(0, end) + (fix.empty() ? "" : "; " + fix) +
                          cause.substr(end));
}

std::vector<std::string> collapseLayers(const std::vector<std::string> &texts) {
  std::vector<std::string> result;
  for (const OpNames &names : distinctTexts(texts))
    result.push_back(names.layerText(/*brief=*/true) + std::string(names.part));
  return result;
}

DiagnosticLog::DiagnosticLog(mlir::MLIRContext *context)
    : handler_(context, [this](mlir::Diagnostic &diagnostic) {
        std::string notes;
        for (const mlir::Diagnostic &note : diagnostic.getNotes())
          notes += (notes.empty() ? "" : "; ") + note.str();
        if (diagnostic.getSeverity() == mlir::DiagnosticSeverity::Error)
          errors_.push_back({diagnostic.str(), std::move(notes),
                             placeOf(diagnostic.getLocation())});
        else
          remarks_.push_back(diagnostic.str());
      }) {}

Failure DiagnosticLog::failureOf(const std::string &pass) const {
  std::optional<StatusCode> code = userFailureOf(pass);
  if (!code || errors_.empty() || errors_.front().fix.empty()) {
    std::string why = errors_.empty() ? "" : ": " + brief(errors_.front().text);
    return {StatusCode::Internal,
            fmt::format("this is a bug of moec: {} failed{}", pass, why),
            "--dump-phases DIR writes the module after each pass"};
  }
  // A cause that affects every layer is reported once.
  std::vector<std::string> texts;
  for (const Error &error : errors_)
    texts.push_back(error.text);
  OpNames first = distinctTexts(texts).front();
  std::string cause = first.layerText(/*brief=*/true) + std::string(first.part);
  if (first.layers.size() > 1)
    cause += fmt::format(" (in {} layers)", first.layers.size());
  return {*code, std::move(cause), errors_.front().fix};
}

Status DiagnosticLog::parseFailure(const std::string &path) const {
  if (errors_.empty())
    return Status(StatusCode::InvalidFile,
                  path + ": is not the text of a plan");
  const Error &error = errors_.front();
  return Status(StatusCode::InvalidFile,
                (error.place.empty() ? path + ": " : error.place) +
                    brief(error.text));
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
  auto target = state_.rule.target(path, moert::OutputKind::IrText);
  state_.dumpStatus = target.isOk()
                          ? moert::writeOutput(*std::move(target), text)
                          : target.status();
}

void PassLog::runAfterPassFailed(mlir::Pass *pass, mlir::Operation *) {
  // Passes nest. The innermost failure is reported first and names the cause.
  if (state_.failedPass.empty())
    state_.failedPass = pass->getArgument().str();
}

} // namespace moec
