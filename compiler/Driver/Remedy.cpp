#include "compiler/Driver/Remedy.h"

#include <algorithm>
#include <fmt/format.h>

using moert::StatusCode;

namespace moec {

namespace {
/// Contexts and steps below these help nobody.
constexpr int64_t kLeastContext = 256, kUsualUbatch = 512;

using Compiles = std::function<bool(const CompileRequest &)>;

/// The largest context that fits, to a sixteenth, in five to some fifteen
/// compilations.
std::optional<Remedy> smallerContext(CompileRequest request, int64_t context,
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
  return Remedy{fmt::format("it fits with a context of {} tokens", good),
                request};
}

std::optional<Remedy> lessMemory(const CompileRequest &request, int64_t context,
                                 const Compiles &compiles) {
  // Weights alone may be too much: then nothing below helps.
  CompileRequest least = request;
  least.mla = "auto";
  least.kvType = "q8_0";
  least.ubatch = std::min(request.ubatch, kUsualUbatch);
  least.context = std::min(context, kLeastContext);
  if (!compiles(least))
    return std::nullopt;

  auto with = [&](std::string change, auto edit) -> std::optional<Remedy> {
    Remedy remedy{std::move(change), request};
    edit(remedy.request);
    return compiles(remedy.request) ? std::optional(remedy) : std::nullopt;
  };
  std::optional<Remedy> found;
  if (request.kvType != "q8_0")
    found = with("it fits with a cache of 8 bits",
                 [](CompileRequest &r) { r.kvType = "q8_0"; });
  if (!found && request.mla != "auto")
    found = with("it fits with another form of attention",
                 [](CompileRequest &r) { r.mla = "auto"; });
  if (!found && request.ubatch > kUsualUbatch)
    found = with("it fits with fewer tokens in a step",
                 [](CompileRequest &r) { r.ubatch = kUsualUbatch; });
  if (!found)
    found = smallerContext(request, context, compiles);
  if (!found) {
    least.context = context;
    found = smallerContext(least, context, compiles);
  }
  return found;
}
} // namespace

std::optional<Remedy> findRemedy(const CompileRequest &request, StatusCode code,
                                 int64_t context, const Compiles &compiles) {
  if (code == StatusCode::DoesNotFit)
    return lessMemory(request, context, compiles);
  if (code == StatusCode::Usage && request.mla == "folded") {
    Remedy remedy{"use the factored form", request};
    remedy.request.mla = "factored";
    if (compiles(remedy.request))
      return remedy;
  }
  return std::nullopt;
}

} // namespace moec
