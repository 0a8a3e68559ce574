#include "compiler/Driver/LadderCompilation.h"

#include "compiler/Driver/CommandLine.h"
#include "compiler/Driver/Compilation.h"
#include "compiler/Serialize/TokenizerOp.h"
#include "runtime/base/ParseSize.h"
#include "runtime/base/ShellCommand.h"
#include "runtime/base/Text.h"
#include "runtime/plan/Verify.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <iterator>
#include <limits>
#include <optional>
#include <utility>

using moert::Status;
using moert::StatusCode;
using moert::StatusOr;

namespace moec {

namespace {
constexpr int64_t kMostTokens = int64_t(1) << 24;

bool isBefore(const LadderRung &a, const LadderRung &b) {
  // A rung without a limit counts as one with the most memory.
  auto key = [](const LadderRung &rung) {
    return std::pair(rung.context, rung.vramLimit
                                       ? rung.vramLimit
                                       : std::numeric_limits<int64_t>::max());
  };
  return key(a) < key(b);
}

StatusOr<LadderRung> parseRung(std::string_view text) {
  size_t at = std::min(text.find('@'), text.size());
  LadderRung rung;
  auto [end, error] =
      std::from_chars(text.data(), text.data() + at, rung.context);
  if (error != std::errc() || end != text.data() + at || rung.context < 1 ||
      rung.context > kMostTokens)
    return Status(
        StatusCode::Usage,
        fmt::format("{} is not a context of 1 to {} tokens; write "
                    "contexts with commas between, each with or without a "
                    "limit of GPUs' memory, as in 4096,32768@16GiB",
                    moert::quoted(text.substr(0, at)), kMostTokens));
  if (at == text.size())
    return rung;
  auto size = moert::parseSize(text.substr(at + 1));
  if (!size)
    return Status(StatusCode::Usage, size.status().message());
  rung.vramLimit = *size;
  return rung;
}

std::string wordOf(const LadderRung &rung) {
  std::string word = std::to_string(rung.context);
  return rung.vramLimit ? word + "@" + moert::sizeWord(uint64_t(rung.vramLimit))
                        : word;
}
} // namespace

StatusOr<std::vector<LadderRung>> parseLadder(std::string_view text) {
  std::vector<LadderRung> ladder;
  if (text == "auto")
    return std::vector<LadderRung>{{.isAuto = true}};
  for (;;) {
    size_t comma = text.find(',');
    MOE_ASSIGN_OR_RETURN(LadderRung rung, parseRung(text.substr(0, comma)));
    if (std::ranges::find(ladder, rung) != ladder.end())
      return Status(StatusCode::Usage,
                    fmt::format("{} is there twice", wordOf(rung)));
    ladder.push_back(rung);
    if (comma == text.npos)
      break;
    text.remove_prefix(comma + 1);
  }
  if (ladder.size() == 1)
    return Status(StatusCode::Usage,
                  fmt::format("{} is one rung, which is what --ctx "
                              "is for; give two or more",
                              wordOf(ladder.front())));
  if (ladder.size() > moert::kMaxRungs)
    return Status(StatusCode::Usage,
                  fmt::format("has {} rungs, at most {} are allowed",
                              ladder.size(), moert::kMaxRungs));
  std::ranges::sort(ladder, isBefore);
  return ladder;
}

std::string ladderWord(const std::vector<LadderRung> &ladder) {
  std::string text;
  if (!ladder.empty() && ladder.front().isAuto)
    return "auto";
  for (const LadderRung &rung : ladder)
    text += (text.empty() ? "" : ",") + wordOf(rung);
  return text;
}

std::string rungName(const std::vector<LadderRung> &ladder, size_t index) {
  const LadderRung &rung = ladder[index];
  std::string name = fmt::format("rung {} of {}, {}", index + 1, ladder.size(),
                                 moert::counted(rung.context, "token"));
  return rung.vramLimit
             ? name + " with " + moert::sizeWord(uint64_t(rung.vramLimit)) +
                   " of each GPU"
             : name;
}

std::vector<LadderRung> withoutRungsFrom(std::vector<LadderRung> ladder,
                                         size_t index) {
  LadderRung from = ladder[index];
  std::erase_if(ladder, [&](const LadderRung &rung) {
    return rung.vramLimit == from.vramLimit && rung.context >= from.context;
  });
  return ladder;
}

std::vector<LadderRung> shortened(std::vector<LadderRung> ladder, size_t index,
                                  int64_t context) {
  LadderRung rung{context, ladder[index].vramLimit};
  if (context < ladder[index].context)
    ladder = withoutRungsFrom(std::move(ladder), index);
  ladder.push_back(rung);
  std::ranges::sort(ladder, isBefore);
  ladder.erase(std::unique(ladder.begin(), ladder.end()), ladder.end());
  return ladder;
}

StatusOr<CompileInputs> inputsOfRung(const LadderRung &rung,
                                     const CompileInputs &given) {
  CompileInputs own = given;
  if (rung.vramLimit)
    MOE_RETURN_IF_ERROR(
        limitMemory(own.target, DeviceKind::Cuda, uint64_t(rung.vramLimit)));
  return own;
}

namespace {
/// Returns a ladder close to the requested one: the same remedies as for a
/// single plan, or the ladder without the failing rungs. None if nothing helps.
std::optional<NearRequest> remedyForRung(const CompileRequest &request,
                                         size_t index,
                                         const CompileInputs &ofRung,
                                         const PassFailure &failed) {
  CompileRequest alone = request;
  alone.ladder.clear();
  alone.context = request.ladder[index].context;
  auto remedy = findRemedy(
      alone, failed.failure.code, failed.context,
      [&](const CompileRequest &near) { return compiles(near, ofRung); });
  if (remedy) {
    remedy->request.ladder =
        shortened(request.ladder, index, remedy->request.context);
    return remedy;
  }
  if (index == 0 || failed.failure.code != StatusCode::DoesNotFit)
    return std::nullopt;
  NearRequest without{moert::Suggestion::FitsWithoutRung, request, ""};
  without.request.ladder = withoutRungsFrom(request.ladder, index);
  return without;
}

/// Explains why a rung cannot be compiled, and suggests the closest ladder that
/// can.
Status rungFailure(const CompileRequest &request, size_t index,
                   const CompileInputs &given, const CompileInputs &ofRung,
                   std::optional<PassFailure> failed, const Status &status) {
  std::string place = rungName(request.ladder, index);
  auto remedy = failed ? remedyForRung(request, index, ofRung, *failed)
                       : std::optional<NearRequest>();
  if (!remedy)
    return Status(status).at(place);
  CompileRequest &fixed = remedy->request;
  fixed.context = 0;
  std::optional<CompileInputs> where(given);
  if (fixed.ladder.size() == 1) {
    LadderRung one = fixed.ladder.front();
    where.reset();
    if (auto own = inputsOfRung(one, given))
      where.emplace(*own);
    fixed.context = one.context;
    fixed.vramLimit = one.vramLimit ? one.vramLimit : fixed.vramLimit;
    fixed.ladder.clear();
  }
  if (!where || !compiles(fixed, *where))
    return Status(status).at(place);
  failed->failure.fix = remedy->change();
  return withRequest(failed->failure.status(), *remedy).at(place);
}

/// Returns texts that all rungs share once, and the others with their rung's
/// number.
std::vector<std::string>
textsOf(const std::vector<std::vector<std::string>> &ofRungs) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < ofRungs.size(); ++i)
    for (const std::string &text : ofRungs[i]) {
      bool isCommon = std::ranges::all_of(ofRungs, [&](const auto &other) {
        return std::ranges::find(other, text) != other.end();
      });
      if (!isCommon)
        texts.push_back(fmt::format("rung {}: {}", i + 1, text));
      else if (i == 0)
        texts.push_back(text);
    }
  return texts;
}

/// Returns the GPU memory by which a plan's rungs are ordered.
uint64_t gpuBudget(mlir::plan::ProgramOp program) {
  uint64_t bytes = 0;
  for (auto device : program.getBody().getOps<mlir::plan::DeviceOp>())
    if (device.getKind() == mlir::plan::DeviceKind::Cuda)
      bytes += device.getMemoryBytes();
  return bytes;
}

} // namespace

StatusOr<CompileReport> compileLadder(const CompileRequest &request,
                                      const CompileInputs &given,
                                      bool isTrial) {
  mlir::MLIRContext context;
  loadDialects(context);
  std::vector<Lowered> rungs;
  for (size_t i = 0; i < request.ladder.size(); ++i) {
    CompileRequest own = isTrial ? asTrial(request) : request;
    own.context = request.ladder[i].context;
    if (request.ladder[i].kvBudget > 0)
      own.kvBudget = request.ladder[i].kvBudget;
    if (!own.dumpFolder.empty()) {
      own.dumpFolder = fmt::format("{}/rung-{}", request.dumpFolder, i + 1);
      MOE_RETURN_IF_ERROR(makeFolder(own.dumpFolder));
    }
    auto ofRung = inputsOfRung(request.ladder[i], given);
    if (!ofRung)
      return Status(ofRung.status()).at(rungName(request.ladder, i));
    std::optional<PassFailure> failed;
    auto lowered = lower(context, own, *ofRung, failed);
    if (!lowered)
      return rungFailure(request, i, given, *ofRung, std::move(failed),
                         lowered.status());
    rungs.push_back(*std::move(lowered));
  }
  if (isTrial)
    return CompileReport();
  // A rung that uses no GPU needs none, whatever its limit.
  std::ranges::stable_sort(rungs, {}, [](const Lowered &rung) {
    mlir::plan::ProgramOp program = rung.program;
    return std::pair(program.getContext(), gpuBudget(program));
  });
  // Rungs have their weights in one file.
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&context));
  for (Lowered &rung : rungs)
    rung.program->moveBefore(module->getBody(), module->getBody()->end());
  MOE_ASSIGN_OR_RETURN(std::string note, packWeights(*module, request, given));
  std::vector<std::vector<std::string>> notes, remarks;
  for (Lowered &rung : rungs) {
    // This adds the notes about the vocabulary; the file stores it only once.
    MOE_RETURN_IF_ERROR(addTokenizer(rung.program, given.model,
                                     !request.noTokenizer, request.pre));
    MOE_RETURN_IF_ERROR(compileKernels(rung.program, request));
    std::ranges::move(notesOf(rung.program),
                      std::back_inserter(rung.report.notes));
    notes.push_back(std::move(rung.report.notes));
    remarks.push_back(std::move(rung.report.remarks));
  }
  CompileReport report;
  report.output = outputOf(request);
  report.notes = textsOf(notes);
  if (!note.empty())
    report.notes.push_back(std::move(note));
  report.remarks = textsOf(remarks);
  MOE_RETURN_IF_ERROR(writePair(*module, request, given, report));
  return report;
}

} // namespace moec
