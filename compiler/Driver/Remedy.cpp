#include "compiler/Driver/Remedy.h"

#include "compiler/Driver/CommandLine.h"
#include "compiler/Machine/CostModel/TypicalStep.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>

using moert::Status;
using moert::StatusCode;

namespace moec {

namespace {
/// Smaller contexts and steps would not be useful.
constexpr int64_t kLeastContext = 256, kLeastUbatch = 64;

constexpr int64_t kMiB = int64_t(1) << 20;

using moert::Suggestion;
using Compiles = std::function<bool(const CompileRequest &)>;

/// The largest context that fits, to a sixteenth, in five to some fifteen
/// compilations.
std::optional<NearRequest> smallerContext(CompileRequest request,
                                          int64_t context,
                                          const Compiles &compiles) {
  auto fits = [&](int64_t tokens) {
    request.context = tokens;
    return compiles(request);
  };
  int64_t good = context / 2;
  while (good >= kLeastContext && !fits(good))
    good /= 2;
  if (good < kLeastContext)
    return std::nullopt;
  // `good` fits and twice as much does not.
  for (int64_t step = good / 2; step >= std::max<int64_t>(good / 16, 1);
       step /= 2)
    if (fits(good + step))
      good += step;
  request.context = good;
  return NearRequest{Suggestion::FitsContext, request,
                     moert::counted(uint64_t(good), "token")};
}

/// The largest budget for the cache that fits, at least a context's, to a
/// sixteenth.
std::optional<NearRequest> smallerCache(CompileRequest request,
                                        AskedContext context,
                                        const Compiles &compiles) {
  auto fits = [&](int64_t bytes) {
    request.kvBudget = bytes;
    return compiles(request);
  };
  int64_t good = context.cacheBytes, bad = request.kvBudget;
  if (!fits(good))
    return std::nullopt;
  for (int64_t step = (bad - good) / 16; bad - good > std::max(step, kMiB);) {
    int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  good = std::max(good / kMiB * kMiB, context.cacheBytes);
  request.kvBudget = good;
  return NearRequest{Suggestion::FitsCache, request,
                     moert::humanBytes(double(good))};
}

/// Halves --ubatch until the request compiles. Results do not change.
std::optional<NearRequest> shorterSteps(CompileRequest request,
                                        AskedContext context,
                                        const Compiles &compiles,
                                        Suggestion suggestion) {
  int64_t tokens =
      std::min(request.ubatch ? request.ubatch : kUbatch, context.tokens);
  while (tokens > kLeastUbatch) {
    tokens = std::max(tokens / 2, kLeastUbatch);
    request.ubatch = tokens;
    if (compiles(request))
      return NearRequest{suggestion, request,
                         moert::counted(uint64_t(tokens), "token")};
  }
  return std::nullopt;
}

/// Finds the most sequences of this context that fit.
std::optional<NearRequest> fewerSequences(CompileRequest request,
                                          const Compiles &compiles) {
  auto fits = [&](int64_t sequences) {
    request.sequences = sequences;
    return compiles(request);
  };
  int64_t good = 0, bad = request.sequences;
  while (bad - good > 1) {
    int64_t middle = good + (bad - good) / 2;
    (fits(middle) ? good : bad) = middle;
  }
  if (good == 0)
    return std::nullopt;
  request.sequences = good;
  return NearRequest{Suggestion::FitsSequences, request,
                     moert::counted(uint64_t(good), "sequence")};
}

/// Returns whether the elements of the cache are at most 16 bits wide, as the
/// default is.
bool isDefaultOrLess(const std::string &kvType) {
  return kvType == "auto" || kvType == "f16" || kvType == "bf16" ||
         kvType == "q8_0";
}

std::optional<NearRequest> lessMemory(const CompileRequest &request,
                                      AskedContext context,
                                      const Compiles &compiles) {
  // The weights alone may take too much memory: then nothing below helps.
  CompileRequest least = request;
  least.mla = "auto";
  least.kvType = "q8_0";
  least.ubatch =
      request.ubatch ? std::min(request.ubatch, kLeastUbatch) : kLeastUbatch;
  least.context = std::min(context.tokens, kLeastContext);
  least.sequences = 1;
  least.kvBudget = 0;
  if (!compiles(least))
    return std::nullopt;

  auto with = [&](Suggestion suggestion,
                  auto edit) -> std::optional<NearRequest> {
    NearRequest remedy{suggestion, request, ""};
    edit(remedy.request);
    return compiles(remedy.request) ? std::optional(remedy) : std::nullopt;
  };
  std::optional<NearRequest> found;
  bool hasBudget = request.kvBudget > 0;
  if (hasBudget && request.kvBudget < context.cacheBytes)
    found = with(Suggestion::RoomForOne,
                 [&](CompileRequest &r) { r.kvBudget = context.cacheBytes; });
  // Try changes in the order of their cost: another form of MLA costs nothing;
  // then come fewer bits in an unusually wide cache, slower prompts, and lower
  // precision. Last come fewer sequences or a shorter context.
  if (!found && request.mla != "auto")
    found = with(Suggestion::FitsOtherForm,
                 [](CompileRequest &r) { r.mla = "auto"; });
  if (!found && !isDefaultOrLess(request.kvType))
    found = with(Suggestion::Fits16Bits,
                 [](CompileRequest &r) { r.kvType = "auto"; });
  if (!found)
    found = shorterSteps(request, context, compiles, Suggestion::FitsSteps);
  CompileRequest small = request;
  small.kvType = "q8_0";
  if (!found && request.kvType != "q8_0") {
    found = with(Suggestion::Fits8Bits,
                 [](CompileRequest &r) { r.kvType = "q8_0"; });
    if (!found)
      found =
          shorterSteps(small, context, compiles, Suggestion::Fits8BitsAndSteps);
  }
  if (!found && hasBudget && request.kvBudget > context.cacheBytes)
    found = smallerCache(request, context, compiles);
  if (!found && !hasBudget && request.sequences > 1)
    found = fewerSequences(request, compiles);
  if (!found) {
    // The shorter context fits without a budget, so none is requested.
    CompileRequest shorter = request;
    shorter.kvBudget = 0;
    found = smallerContext(shorter, context.tokens, compiles);
  }
  if (!found) {
    least.context = context.tokens;
    found = smallerContext(least, context.tokens, compiles);
  }
  return found;
}
} // namespace

Status withRequest(Status failure, const NearRequest &near) {
  if (!canRunAgain(near.request))
    return failure;
  return std::move(failure).with(
      {near.suggestion, compileCommand(near.request), near.detail});
}

Status suggestRequest(Status failure, const NearRequest &near,
                      std::string_view joint) {
  failure = std::move(failure).append(std::string(joint) + near.change());
  return withRequest(std::move(failure), near);
}

std::optional<NearRequest> findRemedy(const CompileRequest &request,
                                      StatusCode code, AskedContext context,
                                      const Compiles &compiles) {
  if (code == StatusCode::DoesNotFit)
    return lessMemory(request, context, compiles);
  if (code == StatusCode::Usage && request.mla == "folded") {
    NearRequest remedy{Suggestion::FactoredForm, request, ""};
    remedy.request.mla = "factored";
    if (compiles(remedy.request))
      return remedy;
  }
  return std::nullopt;
}

} // namespace moec
