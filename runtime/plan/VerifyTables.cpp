#include "kernels/KvCache.h"
#include "kernels/Registry.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/plan/Verify.h"
#include "runtime/plan/VerifyFields.h"
#include "runtime/schema/OpTable.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

namespace moert {

namespace {

Status checkRange(std::string_view what, int64_t value, int64_t low,
                  int64_t high) {
  if (value < low || value > high)
    return invalidPlan("{} is {}, expected {} to {}", what, value, low, high);
  return Status::ok();
}

/// Returns the number of the last layer that any phase has.
int32_t lastLayer(const fb::Plan &plan) {
  return std::max(0, plan.layers() + plan.mtp_layers() - 1);
}

Status verifyScalars(const fb::Plan &plan) {
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  const struct {
    std::string_view what;
    int64_t value, low, high;
  } ranges[] = {
      {"the hidden size", plan.hidden(), 1, kMaxParameter},
      {"the vocabulary size", plan.vocab(), 1, kMaxParameter},
      {"the count of labels", count(plan.labels()), 0, plan.vocab()},
      {"the layer count", plan.layers(), 0, 1 << 16},
      {"the count of MTP layers", plan.mtp_layers(), 0, 1},
      {"the context", plan.context(), 1, kMost},
      {"the expert count", plan.experts(), 0, kMaxParameter},
      {"the number of experts used", plan.experts_used(), 0, plan.experts()},
      {"the model's context", plan.trained_context(), 0, kMost},
      {"the number of sequences", plan.sequences(), 1, kMaxSequences},
      {"the parameter count", plan.parameters(), 0,
       std::numeric_limits<int64_t>::max()}};
  for (const auto &[what, value, low, high] : ranges)
    MOE_RETURN_IF_ERROR(checkRange(what, value, low, high));
  return Status::ok();
}

Status checkHash(std::string_view what, std::string_view hash, size_t digits) {
  if (hash.size() == digits &&
      hash.find_first_not_of("0123456789abcdef") == hash.npos)
    return Status::ok();
  return invalidPlan("has {} {}, expected {} lower-case hex digits", what,
                     quoted(hash), digits);
}

Status verifyFile(const fb::Plan &, const fb::File &file, uint32_t) {
  if (file.kind() == fb::FileKind::Loaded) {
    if (file.header_bytes() != 0 || !text(file.path()).empty())
      return invalidPlan("has a path or a header, which bytes in memory lack");
    return Status::ok();
  }
  std::string_view path = text(file.path());
  if (path.empty() || path.find('\0') != path.npos)
    return invalidPlan("has an empty path or one with a NUL byte");
  if (file.header_bytes() > file.bytes())
    return invalidPlan("has a header of {} bytes in {} bytes",
                       file.header_bytes(), file.bytes());
  MOE_RETURN_IF_ERROR(checkHash("header hash", text(file.header_hash()), 32));
  if (file.sample_hash())
    return checkHash("sample hash", text(file.sample_hash()), 32);
  return Status::ok();
}

/// Returns the alignment that the format's widest scalar needs, if kernels read
/// it directly. Most quantised blocks contain FP16 scales; blocks with an odd
/// number of bytes do not.
uint64_t alignmentOf(moek::Format format) {
  if (format == moek::Format::F32 || format == moek::Format::I32)
    return 4;
  return moek::formatInfo(format).blockBytes % 2 ? 1 : 2;
}

/// Checks the weights that weight `index` is made of while it loads.
Status verifySources(const fb::Plan &plan, const fb::Weight &w,
                     uint32_t index) {
  const bool isLoaded =
      plan.files()->Get(w.file())->kind() == fb::FileKind::Loaded;
  if (isLoaded != (count(w.sources()) > 0))
    return invalidPlan("has {} sources; weights of loaded files have some, "
                       "others none",
                       count(w.sources()));
  if (!isLoaded)
    return Status::ok();
  if (w.checksum())
    return invalidPlan("has a checksum, but its sources have them");
  const auto rowBytes = int64_t(moek::rowBytes(
      moek::Layout(w.layout()), moek::Format(w.format()), uint64_t(w.cols())));
  const int64_t matrixBytes =
      moek::storedRows(moek::Layout(w.layout()), w.rows()) * rowBytes;
  if (w.row_stride() != rowBytes || w.outer_stride() != matrixBytes)
    return invalidPlan("has gaps between rows or matrices");
  int64_t rows = 0;
  for (uint32_t source : *w.sources()) {
    if (source >= index)
      return invalidPlan("has source {}, which does not precede it", source);
    const fb::Weight &from = *plan.weights()->Get(source);
    if (plan.files()->Get(from.file())->kind() != fb::FileKind::Model ||
        moek::Layout(from.layout()) != moek::Layout::Gguf ||
        from.cols() != w.cols())
      return invalidPlan("has source {}, which is not {} columns of a model "
                         "file",
                         source, w.cols());
    rows += from.outer() * from.rows();
  }
  if (rows != w.outer() * w.rows())
    return invalidPlan("has {} rows, but its sources have {}",
                       w.outer() * w.rows(), rows);
  return Status::ok();
}

/// Checks that weights that are laid out while they load do not overlap, and
/// that their file is the last one.
Status verifyLoaded(const fb::Plan &plan) {
  for (uint32_t i = 0; i + 1 < count(plan.files()); ++i)
    if (plan.files()->Get(i)->kind() == fb::FileKind::Loaded)
      return invalidPlan("has loaded file {} of {}; only the last one may be "
                         "loaded",
                         i, count(plan.files()));
  std::vector<std::pair<uint64_t, uint64_t>> extents;
  for (const fb::Weight *w : *plan.weights())
    if (count(w->sources()) > 0)
      extents.emplace_back(w->offset(),
                           w->offset() + uint64_t(w->outer()) *
                                             uint64_t(w->outer_stride()));
  std::ranges::sort(extents);
  for (size_t i = 1; i < extents.size(); ++i)
    if (extents[i].first < extents[i - 1].second)
      return invalidPlan("has weights that overlap at byte {} of memory",
                         extents[i].first);
  return Status::ok();
}

Status verifyWeight(const fb::Plan &plan, const fb::Weight &w, uint32_t index) {
  std::optional<moek::Format> format = moek::formatFromNumber(w.format());
  if (!format)
    return invalidPlan("has unknown format {}", w.format());
  moek::FormatInfo info = moek::formatInfo(*format);
  bool isTable = *format == moek::Format::I32;
  if (!info.hasKernels && !isTable)
    return invalidPlan("has format {}, for which there are no kernels",
                       info.name);
  std::optional<moek::Layout> layout = moek::layoutFromNumber(w.layout());
  if (!layout)
    return invalidPlan("has unknown layout {}", w.layout());
  MOE_RETURN_IF_ERROR(checkRange("outer", w.outer(), 1, kMaxParameter));
  MOE_RETURN_IF_ERROR(checkRange("rows", w.rows(), 1, kMaxDimension - 1));
  MOE_RETURN_IF_ERROR(checkRange("cols", w.cols(), 1, kMaxDimension - 1));
  if (w.cols() % info.blockElements)
    return invalidPlan("has {} columns, not a multiple of {}'s block of {}",
                       w.cols(), info.name, info.blockElements);

  if (!moek::hasLayout(*layout, *format, w.cols()))
    return invalidPlan("has layout {}, which rows of {} {} elements lack",
                       moek::layoutName(*layout), w.cols(), info.name);

  uint64_t rowBytes = moek::rowBytes(*layout, *format, w.cols());
  if (w.row_stride() < 0 || uint64_t(w.row_stride()) < rowBytes)
    return invalidPlan("has row stride {}, less than a row of {} bytes",
                       w.row_stride(), rowBytes);
  if (*layout != moek::Layout::Gguf && uint64_t(w.row_stride()) != rowBytes)
    return invalidPlan("has row stride {}, but rows of {} bytes in layout {}",
                       w.row_stride(), rowBytes, moek::layoutName(*layout));
  int64_t rows = moek::storedRows(*layout, w.rows());
  Checked matrix =
      Checked(rows - 1) * Checked(w.row_stride()) + Checked(rowBytes);
  if (w.outer_stride() < 0 || !matrix.valid() ||
      (w.outer() > 1 && uint64_t(w.outer_stride()) < matrix.value()))
    return invalidPlan("has outer stride {}, less than {} rows of stride {}",
                       w.outer_stride(), rows, w.row_stride());
  Checked end = Checked(w.offset()) +
                Checked(w.outer() - 1) * Checked(w.outer_stride()) + matrix;
  uint64_t fileBytes = plan.files()->Get(w.file())->bytes();
  if (!end.valid() || end.value() > fileBytes)
    return invalidPlan("at offset {} ends beyond its file of {} bytes",
                       w.offset(), fileBytes);
  uint64_t unit = alignmentOf(*format);
  // In a panel, single rows have no address.
  uint64_t step = uint64_t(w.row_stride()) *
                  (*layout == moek::Layout::Gguf ? 1 : moek::kRows16);
  if (w.offset() % unit || step % unit || w.outer_stride() % unit)
    return invalidPlan("has offset {}, row stride {} and outer stride {}; "
                       "{} needs multiples of {}",
                       w.offset(), w.row_stride(), w.outer_stride(), info.name,
                       unit);
  if (w.checksum())
    MOE_RETURN_IF_ERROR(checkHash("checksum", text(w.checksum()), 16));
  return verifySources(plan, w, index);
}

Status verifyConstant(const fb::Plan &, const fb::Constant &constant,
                      uint32_t) {
  for (uint32_t i = 0; i < count(constant.values()); ++i)
    if (!std::isfinite(constant.values()->Get(i)))
      return invalidPlan("has value {} at index {}", constant.values()->Get(i),
                         i);
  return Status::ok();
}

Status verifyDevice(const fb::Plan &, const fb::Device &device, uint32_t) {
  std::optional<moek::Isa> isa = moek::isaFromName(text(device.isa()));
  bool isGpu = device.kind() == fb::DeviceKind::Cuda;
  if (!isa || (*isa == moek::Isa::Cuda) != isGpu)
    return invalidPlan("has ISA {}, which no {} has",
                       quoted(text(device.isa())), isGpu ? "GPU" : "CPU");
  MOE_RETURN_IF_ERROR(checkRange("multiprocessors", device.multiprocessors(), 0,
                                 isGpu ? kMaxParameter : 0));
  if (device.shares_memory() && !isGpu)
    return invalidPlan("is a CPU and shares the CPU's memory");
  MOE_RETURN_IF_ERROR(
      checkRange("nodes", device.nodes(), 1, isGpu ? 1 : kMaxNodes));
  return checkRange("cores", device.cores(), 1, kMaxParameter);
}

Status verifyQueue(const fb::Plan &plan, const fb::Queue &queue,
                   uint32_t index) {
  if (queue.kind() == fb::QueueKind::Copy &&
      plan.devices()->Get(queue.device())->kind() != fb::DeviceKind::Cuda)
    return invalidPlan("copies on a CPU, which has one queue for all");
  for (uint32_t i = 0; i < index; ++i)
    if (const fb::Queue &other = *plan.queues()->Get(i);
        other.device() == queue.device() && other.kind() == queue.kind())
      return invalidPlan("is the second of its kind on device {}",
                         queue.device());
  return Status::ok();
}

/// The workers of a CPU run a single queue.
Status verifyQueues(const fb::Plan &plan) {
  if (count(plan.queues()) > kMaxQueues)
    return invalidPlan("has {} queues, at most {} are allowed",
                       count(plan.queues()), kMaxQueues);
  return verifyEach(plan, plan.queues(), "queue", verifyQueue);
}

Status verifyImage(const fb::Image &image, int64_t archBefore) {
  MOE_RETURN_IF_ERROR(
      checkRange("arch", image.arch(), archBefore + 1, kMaxParameter));
  if (count(image.cubin()) == 0 || text(image.ptx()).empty())
    return invalidPlan("has no code for sm_{}", image.arch());
  // The driver reads PTX as a C string.
  if (text(image.ptx()).find('\0') != std::string_view::npos)
    return invalidPlan("has PTX with a NUL byte");
  const std::pair<std::string_view, int32_t> numbers[] = {
      {"registers", image.registers()},
      {"spilled bytes", image.spilled_bytes()},
      {"stack bytes", image.stack_bytes()},
      {"shared bytes", image.shared_bytes()}};
  for (auto [what, number] : numbers)
    MOE_RETURN_IF_ERROR(checkRange(what, number, 0, kMaxParameter));
  return Status::ok();
}

/// Images are in order of arch, and the first one runs on every GPU of the
/// plan.
Status verifyModule(const fb::Plan &plan, const fb::Module &module, uint32_t) {
  for (std::string_view name : {text(module.entry()), text(module.file())})
    if (name.empty() || name.find('\0') != name.npos)
      return invalidPlan("has an empty name or one with a NUL byte");
  if (count(module.images()) == 0)
    return invalidPlan("has no code");
  int64_t arch = 0;
  for (const fb::Image *image : *module.images()) {
    MOE_RETURN_IF_ERROR(verifyFields(plan, *image));
    MOE_RETURN_IF_ERROR(verifyImage(*image, arch));
    arch = image->arch();
  }
  int32_t first = module.images()->Get(0)->arch();
  for (uint32_t i = 0; i < count(plan.devices()); ++i) {
    const fb::Device &device = *plan.devices()->Get(i);
    if (device.kind() == fb::DeviceKind::Cuda && device.arch() < first)
      return invalidPlan("has code for sm_{} and later, but {} is sm_{}", first,
                         quoted(text(device.name())), device.arch());
  }
  return Status::ok();
}

/// There is at most one entry per weight and device.
Status verifyResidency(const fb::Plan &plan) {
  uint32_t weights = count(plan.weights()), devices = count(plan.devices());
  if (count(plan.residency()) > uint64_t(weights) * devices)
    return invalidPlan("has {} residency entries, more than {} weights on {} "
                       "devices can have",
                       count(plan.residency()), weights, devices);
  std::vector<std::pair<uint32_t, uint32_t>> seen;
  for (uint32_t i = 0; i < count(plan.residency()); ++i) {
    const fb::Residency &entry = *plan.residency()->Get(i);
    MOE_RETURN_IF_ERROR(
        verifyFields(plan, entry).at(fmt::format("residency {}", i)));
    const fb::Device &device = *plan.devices()->Get(entry.device());
    bool isCpu = device.kind() == fb::DeviceKind::Cpu;
    bool streams = isStreamed(entry.mode());
    if (streams && isCpu)
      return invalidPlan("residency {} streams to a CPU", i);
    if (streams && device.shares_memory())
      return invalidPlan("residency {} streams within one memory", i);
    if (entry.mode() == fb::ResidencyMode::File && !isCpu)
      return invalidPlan("residency {} is rows of a file on a GPU", i);
    seen.emplace_back(entry.weight(), entry.device());
  }
  std::ranges::sort(seen);
  if (auto twice = std::ranges::adjacent_find(seen); twice != seen.end())
    return invalidPlan("weight {} is on device {} twice", twice->first,
                       twice->second);
  return Status::ok();
}

Status verifyKv(const fb::Plan &plan, const fb::Kv &kv, uint32_t) {
  MOE_RETURN_IF_ERROR(checkRange("layer", kv.layer(), 0, lastLayer(plan)));
  if (kv.type() >= moek::kKvTypeCount)
    return invalidPlan("has unknown type {}", kv.type());
  constexpr int64_t kMost = std::numeric_limits<int32_t>::max();
  // A state may be a ring of many rows.
  MOE_RETURN_IF_ERROR(checkRange(
      "width", kv.width(), 1, kv.row_per_sequence() ? kMost : kMaxParameter));
  if (kv.row_per_sequence()) {
    MOE_RETURN_IF_ERROR(checkRange("capacity", kv.capacity(), 1, kMost));
  } else if (kv.capacity() < plan.context() || kv.capacity() > kMost ||
             kv.capacity() % moek::kKvPage) {
    return invalidPlan("has capacity {}, expected a multiple of {} that holds "
                       "the plan's context of {}",
                       kv.capacity(), moek::kKvPage, plan.context());
  }
  // A page number, and a slot number, apply to all layers alike.
  const fb::Kv *first = firstKv(plan, kv.row_per_sequence());
  if (kv.capacity() != first->capacity()) {
    uint32_t index = 0;
    while (plan.kv()->Get(index) != first)
      ++index;
    return invalidPlan("has capacity {}, but cache {} has {}", kv.capacity(),
                       index, first->capacity());
  }
  if (kv.offset() % kRegionAlignment)
    return invalidPlan("has offset {}, not a multiple of {}", kv.offset(),
                       kRegionAlignment);
  return Status::ok();
}

/// Every cache lies inside its device's KV memory and overlaps no other.
Status verifyKvRegions(const fb::Plan &plan) {
  struct Region {
    uint32_t device;
    uint64_t begin, end;
    uint32_t index;
  };
  if (count(plan.kv()) > kMaxCaches)
    return invalidPlan("has {} caches, at most {} are allowed",
                       count(plan.kv()), kMaxCaches);
  std::vector<Region> regions;
  for (uint32_t i = 0; i < count(plan.kv()); ++i) {
    const fb::Kv *kv = plan.kv()->Get(i);
    auto type = moek::KvType(kv->type());
    // The bytes of a row do not overflow, because widths are int32_t.
    int64_t rows = kv->row_per_sequence() ? kv->capacity()
                                          : moek::kvRows(type, kv->capacity());
    Checked end = Checked(kv->offset()) +
                  Checked(rows) * Checked(moek::kvRowBytes(type, kv->width()));
    uint64_t memory = plan.devices()->Get(kv->device())->kv_bytes();
    if (!end.valid() || end.value() > memory)
      return invalidPlan("cache {} at offset {} ends beyond the device's {} "
                         "bytes of KV memory",
                         i, kv->offset(), memory);
    regions.push_back({kv->device(), kv->offset(), end.value(), i});
  }
  std::sort(regions.begin(), regions.end(),
            [](const Region &a, const Region &b) {
              return std::tie(a.device, a.begin) < std::tie(b.device, b.begin);
            });
  for (size_t i = 1; i < regions.size(); ++i)
    if (regions[i].device == regions[i - 1].device &&
        regions[i].begin < regions[i - 1].end)
      return invalidPlan("caches {} and {} overlap", regions[i - 1].index,
                         regions[i].index);
  return Status::ok();
}

Status verifyExplain(const fb::Plan &plan, const fb::Explain &entry, uint32_t) {
  return checkRange("layer", entry.layer(), -1, lastLayer(plan));
}

Status verifyKernelName(std::string_view name) {
  if (moek::findKernel(name) || moek::findGemm(name))
    return Status::ok();
  return Status(StatusCode::WrongMachine,
                fmt::format("kernel {} is unknown to this moert: the plan was "
                            "made by another version; recompile",
                            quoted(name)));
}

} // namespace

Status verifyTokenizer(const fb::Plan &plan, const fb::Tokenizer &tokenizer) {
  MOE_RETURN_IF_ERROR(verifyFields(plan, tokenizer));
  uint32_t tokens = count(tokenizer.tokens());
  if (tokens > plan.vocab())
    return invalidPlan("has {} tokens, but the model's vocabulary has {}",
                       tokens, plan.vocab());
  for (auto [name, entries] :
       {std::pair("token types", count(tokenizer.types())),
        std::pair("scores", count(tokenizer.scores()))})
    if (entries != 0 && entries != tokens)
      return invalidPlan("has {} {} for {} tokens", entries, name, tokens);
  for (auto [name, id] :
       {std::pair("BOS", tokenizer.bos()), std::pair("EOS", tokenizer.eos()),
        std::pair("end-of-turn", tokenizer.eot()),
        std::pair("unknown", tokenizer.unk()),
        std::pair("padding", tokenizer.pad())})
    if (id < -1 || id >= int64_t(tokens))
      return invalidPlan("has {} token {}, expected -1 to {}", name, id,
                         int64_t(tokens) - 1);
  return Status::ok();
}

Status verifyTables(const fb::Plan &plan) {
  MOE_RETURN_IF_ERROR(verifyFields(plan, plan));
  MOE_RETURN_IF_ERROR(verifyScalars(plan));
  MOE_RETURN_IF_ERROR(verifyEach(plan, plan.files(), "file", verifyFile));
  MOE_RETURN_IF_ERROR(verifyEach(plan, plan.weights(), "weight", verifyWeight));
  MOE_RETURN_IF_ERROR(verifyLoaded(plan));
  MOE_RETURN_IF_ERROR(
      verifyEach(plan, plan.constants(), "constant", verifyConstant));
  if (count(plan.devices()) == 0)
    return invalidPlan("has no devices");
  auto isCpu = [](const fb::Device *device) {
    return device->kind() == fb::DeviceKind::Cpu;
  };
  if (std::ranges::any_of(*plan.devices(), &fb::Device::shares_memory) &&
      std::ranges::count_if(*plan.devices(), isCpu) > 1)
    return invalidPlan("has a GPU that shares the CPU's memory, and several "
                       "CPUs");
  MOE_RETURN_IF_ERROR(verifyEach(plan, plan.devices(), "device", verifyDevice));
  MOE_RETURN_IF_ERROR(verifyQueues(plan));
  MOE_RETURN_IF_ERROR(verifyEach(plan, plan.modules(), "module", verifyModule));
  MOE_RETURN_IF_ERROR(verifyResidency(plan));
  MOE_RETURN_IF_ERROR(verifyEach(plan, plan.kv(), "cache", verifyKv));
  MOE_RETURN_IF_ERROR(verifyKvRegions(plan));
  for (uint32_t i = 0; i < count(plan.kernels()); ++i)
    MOE_RETURN_IF_ERROR(verifyKernelName(text(plan.kernels()->Get(i))));
  MOE_RETURN_IF_ERROR(
      verifyEach(plan, plan.explanation(), "explanation", verifyExplain));
  if (plan.tokenizer())
    return verifyTokenizer(plan, *plan.tokenizer()).at("tokenizer");
  return Status::ok();
}

} // namespace moert
