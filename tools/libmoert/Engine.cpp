// Functions of engines, and of the plan that an engine has open.
#include "runtime/device/cuda/CudaNeed.h"
#include "runtime/plan/PlanAccess.h"
#include "runtime/plan/PlanTokenizer.h"
#include "runtime/plan/PlanWeights.h"
#include "tools/common/Remedies.h"
#include "tools/libmoert/Handles.h"

using namespace moert;
using namespace moert::capi;

void moert::capi::remember(Failure &last, const Status &failure) {
  last.error = failure.message();
  if (failure.remedy())
    last.remedy = moetool::commandText(*failure.remedy()).line;
}

namespace {
const char *stringOf(const flatbuffers::String *text) {
  return text ? text->c_str() : "";
}

moert_model_info infoOf(const moert_engine &handle) {
  const Engine &engine = *handle.engine;
  const Plan &plan = engine.plan();
  const fb::Plan &table = plan.table();
  const Tokenizer *tokenizer = handle.tokenizer ? &*handle.tokenizer : nullptr;
  moert_model_info info = {};
  info.name = stringOf(table.model_name());
  info.architecture = stringOf(table.architecture());
  info.target = stringOf(table.target());
  info.compiler = stringOf(table.compiler());
  info.parameters = table.parameters();
  info.weight_bytes = weightBytes(plan);
  info.layers = table.layers();
  info.hidden = static_cast<int32_t>(table.hidden());
  info.experts = table.experts();
  info.experts_used = table.experts_used();
  info.trained_context = table.trained_context();
  info.sequences = table.sequences();
  info.rung = static_cast<int32_t>(plan.chosen());
  info.rungs = static_cast<int32_t>(plan.rungs());
  info.threads = engine.threads();
  info.has_tokenizer = tokenizer != nullptr;
  info.has_chat_template = !planChatTemplateSource(plan).empty();
  info.tokens = tokenizer ? tokenizer->vocabularySize() : 0;
  info.bos = tokenizer ? tokenizer->bos().value_or(-1) : -1;
  info.eos = tokenizer ? tokenizer->eos().value_or(-1) : -1;
  return info;
}

moert_device_memory memoryOf(const Engine &engine, uint32_t number) {
  const fb::Plan &table = engine.plan().table();
  const fb::Device &device = *table.devices()->Get(number);
  moert_device_memory memory = {};
  memory.name = stringOf(device.name());
  if (device.kind() == fb::DeviceKind::Cuda) {
    CudaNeed need = cudaNeed(table, number);
    memory.kind = MOERT_CUDA;
    memory.weights = need.weights;
    memory.kv = need.kv;
    memory.activations = need.activations;
    memory.workspace = need.workspace + need.constants + need.steps;
    memory.pinned = need.pinned();
    return memory;
  }
  memory.kind = MOERT_CPU;
  memory.weights = device.weight_bytes();
  memory.kv = device.kv_bytes();
  memory.activations = device.arena_bytes();
  auto threads = uint64_t(engine.threadsOf(number));
  memory.workspace = bytesPerWorker(device) * threads;
  return memory;
}
} // namespace

int32_t moert_abi_version(void) { return MOERT_ABI_VERSION; }
const char *moert_version(void) { return MOE_VERSION; }

moert_engine *moert_create(void) { return new (std::nothrow) moert_engine; }

void moert_destroy(moert_engine *engine) { delete engine; }

const char *moert_last_error(const moert_engine *engine) {
  return engine ? engine->last.error.c_str() : "";
}

const char *moert_last_remedy(const moert_engine *engine) {
  return engine ? engine->last.remedy.c_str() : "";
}

moert_status moert_open(moert_engine *handle, const char *planPath,
                        const moert_open_options *given) {
  return guarded(handle, [&]() -> Status {
    if (handle->sequences > 0 || handle->replies > 0 || handle->scheduler)
      return Status(StatusCode::Usage,
                    "sequences, replies, constrained samplers or a scheduler "
                    "of the plan before are left: destroy them first");
    handle->vocabulary.reset();
    handle->tokenizer.reset();
    handle->engine.reset();
    if (!planPath)
      return Status(StatusCode::Usage, "the plan's path is null");
    MOE_ASSIGN_OR_RETURN(moert_open_options options,
                         optionsFrom<moert_open_options>(given));
    if (options.rung < 0 || options.context < 0)
      return Status(StatusCode::Usage,
                    "rung and context are numbers from 0 (any)");
    EngineOptions engineOptions;
    engineOptions.threads = options.threads;
    engineOptions.allowPaging = options.allow_paging != 0;
    engineOptions.rung = {uint32_t(options.rung), options.context};
    if (options.model_path)
      engineOptions.files.models.emplace_back(options.model_path);
    if (options.weights_path)
      engineOptions.files.packed = options.weights_path;
    MOE_ASSIGN_OR_RETURN(handle->engine, Engine::open(planPath, engineOptions));
    StatusOr<Tokenizer> tokenizer = planTokenizer(handle->engine->plan());
    handle->noTokenizer = tokenizer.status();
    if (tokenizer)
      handle->tokenizer = *std::move(tokenizer);
    return Status::ok();
  });
}

int32_t moert_vocab(const moert_engine *handle) {
  return handle && handle->engine ? handle->engine->vocab() : 0;
}
int32_t moert_context(const moert_engine *handle) {
  return handle && handle->engine ? handle->engine->context() : 0;
}
int32_t moert_batch(const moert_engine *handle) {
  return handle && handle->engine ? handle->engine->batch() : 0;
}
int32_t moert_ubatch(const moert_engine *handle) {
  return handle && handle->engine ? handle->engine->ubatch() : 0;
}

int32_t moert_hidden(const moert_engine *handle) {
  return handle && handle->engine ? handle->engine->hidden() : 0;
}

moert_status moert_get_model_info(moert_engine *handle,
                                  moert_model_info *info) {
  return withPlan(handle,
                  [&](Engine &) { return fill(info, infoOf(*handle)); });
}

int32_t moert_is_end(const moert_engine *handle, int32_t token) {
  return handle && handle->tokenizer &&
         handle->tokenizer->isEndOfGeneration(token);
}

int32_t moert_devices(const moert_engine *handle) {
  return handle && handle->engine
             ? int32_t(count(handle->engine->plan().table().devices()))
             : 0;
}

moert_status moert_get_device_memory(moert_engine *handle, int32_t device,
                                     moert_device_memory *memory) {
  return withPlan(handle, [&](Engine &engine) -> Status {
    int32_t devices = moert_devices(handle);
    if (device < 0 || device >= devices)
      return Status(StatusCode::Usage, "there is no device number " +
                                           std::to_string(device) + " of " +
                                           std::to_string(devices));
    return fill(memory, memoryOf(engine, uint32_t(device)));
  });
}

moert_status moert_get_cache_info(moert_engine *handle,
                                  moert_cache_info *info) {
  return withPlan(handle, [&](Engine &engine) {
    return between(*handle, 0, 0, [&] {
      moert_cache_info values = {};
      values.page_tokens = int32_t(moek::kKvPage);
      values.pages = engine.pages();
      values.free_pages = engine.freePages();
      values.sequences = int32_t(handle->sequences);
      return fill(info, values);
    });
  });
}
