#include "runtime/serve/host/ServedModel.h"

#include "runtime/cache/KvPool.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanTokenizer.h"
#include "runtime/plan/PlanWeights.h"

#include <algorithm>
#include <sys/stat.h>

namespace moert {

namespace {
std::string textOf(const flatbuffers::String *text) {
  return text ? text->str() : std::string();
}

std::string_view stateName(GenerationRow::State state) {
  switch (state) {
  case GenerationRow::State::Waiting:
    return "queued";
  case GenerationRow::State::Prompt:
    return "prompt";
  case GenerationRow::State::Decoding:
    return "decode";
  }
  return "queued";
}
} // namespace

/// The format of most bytes of the weights: "Q4_K".
static std::string mainFormat(const Plan &plan) {
  const auto formats = bytesByFormat(plan);
  const auto most = std::ranges::max_element(
      formats, {}, [](const auto &entry) { return entry.second; });
  return most == formats.end() ? "" : most->first;
}

ModelFacts factsOf(const Plan &plan, const std::string &path, std::string id) {
  const fb::Plan &table = plan.table();
  ModelFacts facts;
  facts.id = std::move(id);
  facts.architecture = textOf(table.architecture());
  facts.quantization = mainFormat(plan);
  facts.digest = textOf(table.model_hash());
  facts.chatTemplate = planChatTemplateSource(plan);
  facts.rankTemplate = planRankTemplate(plan);
  facts.labels = labelsOf(table);
  struct stat file = {};
  if (::stat(path.c_str(), &file) == 0)
    facts.created = file.st_mtime;
  facts.bytes = weightBytes(plan);
  facts.parameters = uint64_t(std::max<int64_t>(0, table.parameters()));
  facts.contextTokens = int32_t(table.context());
  facts.sequences = std::max(1, int32_t(table.sequences()));
  facts.isLoaded = false;
  return facts;
}

StatusOr<std::unique_ptr<ServedModel>> ServedModel::open(
    const std::string &path, std::string id, const EngineOptions &engine,
    const SchedulerOptions &scheduler, std::optional<Pooling> pooling,
    const TemplateSettings &settings) {
  std::unique_ptr<ServedModel> model(new ServedModel);
  MOE_ASSIGN_OR_RETURN(model->engine_, Engine::open(path, engine));
  const Plan &plan = model->engine_->plan();
  MOE_ASSIGN_OR_RETURN(Tokenizer tokenizer, planTokenizer(plan));
  model->tokenizer_.emplace(std::move(tokenizer));
  const std::string source = settings.source.empty()
                                 ? std::string(planChatTemplateSource(plan))
                                 : settings.source;
  if (!source.empty()) {
    MOE_ASSIGN_OR_RETURN(ChatFormat chat,
                         ChatFormat::fromTemplate(source, *model->tokenizer_));
    chat.setDefaults(settings);
    model->chat_.emplace(std::move(chat));
  }
  model->pooling_ = pooling ? StatusOr<Pooling>(*pooling)
                            : trainedPooling(textOf(plan.table().pooling()));
  model->facts_ = factsOf(plan, path, std::move(id));
  model->facts_.contextTokens = model->engine_->context();
  model->facts_.sequences = model->engine_->batch();
  model->facts_.chatTemplate = source;
  model->facts_.isLoaded = true;
  MOE_ASSIGN_OR_RETURN(
      model->scheduler_,
      Scheduler::create(*model->engine_, *model->tokenizer_, scheduler));
  return model;
}

StatusOr<uint64_t> ServedModel::submit(GenerationRequest request,
                                       GenerationSink sink) {
  return scheduler_->submit(std::move(request), std::move(sink));
}

uint64_t ServedModel::submitFor(GenerationRequest request,
                                std::vector<float> GenerationEvent::*vector,
                                VectorThen then) {
  auto id = scheduler_->submit(
      std::move(request), [then, vector](GenerationEvent event) {
        if (!event.isEnd)
          return;
        if (!event.status.isOk())
          then(std::move(event.status));
        else if ((event.*vector).empty())
          then(Status(StatusCode::Cancelled, "the server stops"));
        else
          then(std::move(event.*vector));
      });
  if (id)
    return *id;
  then(id.status());
  return 0;
}

uint64_t ServedModel::embed(std::vector<int32_t> tokens, std::string client,
                            VectorThen then) {
  if (!pooling_) {
    then(pooling_.status());
    return 0;
  }
  GenerationRequest request;
  request.prompt = std::move(tokens);
  request.client = std::move(client);
  request.embed = *pooling_;
  return submitFor(std::move(request), &GenerationEvent::embedding,
                   std::move(then));
}

uint64_t ServedModel::classify(std::vector<int32_t> tokens, std::string client,
                               VectorThen then) {
  GenerationRequest request;
  request.prompt = std::move(tokens);
  request.client = std::move(client);
  request.classifies = true;
  return submitFor(std::move(request), &GenerationEvent::outputs,
                   std::move(then));
}

BackendStats ServedModel::stats() const {
  SchedulerStats from = scheduler_->stats();
  BackendStats to;
  to.queued = uint64_t(from.waiting);
  to.running = uint64_t(from.running);
  to.pagesTotal = uint64_t(from.pages);
  to.pagesFree = uint64_t(from.freePages);
  to.pageTokens = moek::kKvPage;
  to.pagesEmpty = uint64_t(from.emptyPages);
  to.pagesKept = uint64_t(from.keptPages);
  to.promptTokens = from.promptTokens;
  to.cachedTokens = from.cachedTokens;
  to.evaluatedTokens = from.evaluatedTokens;
  to.generatedTokens = from.generatedTokens;
  to.draftedTokens = from.draftedTokens;
  to.acceptedTokens = from.acceptedTokens;
  to.finished = from.finished;
  to.failed = from.failed;
  to.cancelled = from.cancelled;
  to.refused = from.refused;
  const auto &counts = from.stepSeconds.counts();
  for (size_t i = 0; i < SecondsHistogram::kEnds.size(); ++i)
    to.steps.emplace_back(SecondsHistogram::kEnds[i], counts[i]);
  to.slowerSteps = counts.back();
  to.stepSeconds = from.stepSeconds.sum();
  to.measuredSeconds = from.measuredSeconds;
  for (const DeviceSeconds &device : from.devices)
    to.devices.push_back({device.name, device.run, device.wait});
  return to;
}

std::vector<BackendSlot> ServedModel::slots() const {
  std::vector<BackendSlot> slots;
  for (const GenerationRow &row : scheduler_->stats().rows)
    slots.push_back({.id = row.id,
                     .client = row.client,
                     .state = std::string(stateName(row.state)),
                     .promptTokens = row.promptTokens,
                     .position = row.position,
                     .generatedTokens = row.generatedTokens});
  return slots;
}

} // namespace moert
