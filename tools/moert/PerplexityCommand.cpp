// moert perplexity: measures how well the model predicts a text.
//
// The text's tokens are cut into windows of N. The first token of each window
// is replaced by BOS if the model has one, and the cache starts empty. The
// tokens of the second half are scored, so each has at least N/2 tokens of
// context. A rest shorter than a window is not used. With --step, each token
// goes through the decode phase, which may compute something else than prefill
// (moec compile --defer-experts). Perplexity is exp(m), where m is the mean of
// -ln p(token), and its error is exp(m) times the standard error of m.
#include "runtime/base/ReadInput.h"
#include "runtime/base/Text.h"
#include "runtime/plan/PlanTokenizer.h"
#include "tools/common/Interrupt.h"
#include "tools/common/Json.h"
#include "tools/moert/Commands.h"
#include "tools/moert/Shared.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <memory>

namespace moert {

namespace {
constexpr int32_t kLeastWindow = 4;

struct PerplexityFlags {
  EngineFlags engine;
  std::string file;
  int32_t window = 0;
  bool step = false, json = false;
};

/// -ln softmax(logits)[token].
double negativeLogLikelihood(std::span<const float> logits, int32_t token) {
  double top = *std::max_element(logits.begin(), logits.end());
  double sum = 0;
  for (float logit : logits)
    sum += std::exp(double(logit) - top);
  return std::log(sum) + top - double(logits[size_t(token)]);
}

struct Score {
  double sum = 0, squares = 0;
  size_t count = 0;

  void add(double value) {
    sum += value;
    squares += value * value;
    ++count;
  }
  double mean() const { return sum / double(count); }
  double perplexity() const { return std::exp(mean()); }
  double perplexityError() const {
    if (count < 2)
      return 0;
    double variance = std::max(0.0, squares / double(count) - mean() * mean());
    return perplexity() * std::sqrt(variance / double(count - 1));
  }
};

Status scoreWindow(Engine &engine, Sequence &sequence,
                   std::span<const int32_t> tokens, bool step, Score &score) {
  MOE_RETURN_IF_ERROR(sequence.rewind(0));
  auto add = [&](size_t, int32_t position, std::span<const float> logits) {
    size_t next = size_t(position) + 1;
    if (next > tokens.size() / 2 && next < tokens.size())
      score.add(negativeLogLikelihood(logits, tokens[next]));
    return Status::ok();
  };
  if (!step)
    return engine.appendAll(sequence, tokens, add);
  for (size_t i = 0; i < tokens.size(); ++i)
    MOE_RETURN_IF_ERROR(engine.appendAll(sequence, tokens.subspan(i, 1), add));
  return Status::ok();
}

Status perplexity(PerplexityFlags &flags) {
  if (flags.window != 0 && flags.window < kLeastWindow)
    return Status(StatusCode::Usage,
                  fmt::format("--ctx must be at least {}", kLeastWindow));
  MOE_ASSIGN_OR_RETURN(std::string text, readInput(flags.file, kMostTextBytes));
  EngineOptions options = flags.engine.options;
  options.rung.context = flags.window;
  MOE_ASSIGN_OR_RETURN(std::unique_ptr<Engine> engine,
                       flags.engine.open(options));
  MOE_RETURN_IF_ERROR(engine->mayGenerate());
  Sequence sequence = engine->sequence();
  sequence.setCancel(moetool::catchInterrupt());
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(engine->plan()));
  MOE_ASSIGN_OR_RETURN(std::vector<int32_t> tokens, tokenizer.encode(text));
  int32_t window = flags.window == 0
                       ? std::clamp(engine->context(), kLeastWindow, 512)
                       : flags.window;
  size_t windows = tokens.size() / size_t(window);
  if (windows == 0)
    return Status(
        StatusCode::Usage,
        fmt::format("{}: holds {}, less than one window of {}; give a "
                    "longer text or a smaller --ctx",
                    flags.file, counted(tokens.size(), "token"), window));
  Score score;
  ProgressLine progress;
  for (size_t i = 0; i < windows; ++i) {
    std::span<int32_t> piece(tokens.data() + i * size_t(window),
                             size_t(window));
    if (tokenizer.bos() && tokens.front() == *tokenizer.bos())
      piece.front() = *tokenizer.bos();
    MOE_RETURN_IF_ERROR(
        scoreWindow(*engine, sequence, piece, flags.step, score));
    progress.show(fmt::format("window {}/{}: perplexity {:.4f}", i + 1, windows,
                              score.perplexity()));
  }
  progress.clear();
  if (flags.json)
    moetool::printDocument({{"perplexity", score.perplexity()},
                            {"standard_error", score.perplexityError()},
                            {"mean_nll", score.mean()},
                            {"tokens_scored", score.count},
                            {"windows", windows},
                            {"ctx", window}});
  else
    moetool::print(
        "perplexity {:.4f} +/- {:.4f} ({} tokens scored in {} windows "
        "of {})\n",
        score.perplexity(), score.perplexityError(), score.count, windows,
        window);
  return Status::ok();
}
} // namespace

void addPerplexityCommand(moetool::Tool &tool) {
  auto flags = std::make_shared<PerplexityFlags>();
  CLI::App *command = addEngineCommand(
      tool, "perplexity", "Measure how well the model predicts a text", flags,
      perplexity);
  moetool::addFooter(
      *command, "The text is cut into windows, each starting with BOS and an "
                "empty cache. The tokens\nof a window's second half are "
                "scored; a rest shorter than a window is not used.");
  flags->engine.addModelOrPlan(*command);
  moetool::addOption(*command, rows::requiredTextFile, flags->file);
  moetool::addOption(*command, rows::scoreWindow, flags->window);
  moetool::addOption(*command, rows::step, flags->step);
  moetool::addOption(*command, rows::json, flags->json);
  flags->engine.addThreads(*command);
  flags->engine.addRung(*command, /*withContext=*/false);
  flags->engine.addWeights(*command);
  flags->engine.addCompile(*command);
}

} // namespace moert
