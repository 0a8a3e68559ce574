#include "compiler/Machine/Targets/TargetAttr.h"

#include "dialects/moe/Moe.h"

#include <algorithm>
#include <functional>

using namespace mlir;

namespace moec {

namespace {
/// A field of a device with its setter and getter.
struct IntField {
  StringRef key;
  void (*set)(DeviceDesc &, int64_t);
  int64_t (*get)(const DeviceDesc &);
};
struct PeakField {
  StringRef key;
  Peak DeviceDesc::*member;
  double assumed; ///< Efficiency that is assumed if none is stated.
};
struct SecondsField {
  StringRef key;
  void (*set)(DeviceDesc &, double);
  double (*get)(const DeviceDesc &);
};

const IntField intFields[] = {
    {"arch", [](DeviceDesc &d, int64_t v) { d.arch = int(v); },
     [](const DeviceDesc &d) -> int64_t { return d.arch; }},
    {"cores", [](DeviceDesc &d, int64_t v) { d.cores = int(v); },
     [](const DeviceDesc &d) -> int64_t { return d.cores; }},
    {"numa_nodes", [](DeviceDesc &d, int64_t v) { d.numaNodes = int(v); },
     [](const DeviceDesc &d) -> int64_t { return d.numaNodes; }},
    {"node_use", [](DeviceDesc &d, int64_t v) { d.nodeUse = NodeUse(v & 3); },
     [](const DeviceDesc &d) { return int64_t(d.nodeUse); }},
    {"memory_bytes",
     [](DeviceDesc &d, int64_t v) { d.memoryBytes = uint64_t(v); },
     [](const DeviceDesc &d) { return int64_t(d.memoryBytes); }},
    {"reserved_bytes",
     [](DeviceDesc &d, int64_t v) { d.reservedBytes = uint64_t(v); },
     [](const DeviceDesc &d) { return int64_t(d.reservedBytes); }},
    {"shares_memory", [](DeviceDesc &d, int64_t v) { d.sharesMemory = v != 0; },
     [](const DeviceDesc &d) { return int64_t(d.sharesMemory); }},
    {"l2_bytes", [](DeviceDesc &d, int64_t v) { d.l2Bytes = uint64_t(v); },
     [](const DeviceDesc &d) { return int64_t(d.l2Bytes); }},
    {"l3_bytes", [](DeviceDesc &d, int64_t v) { d.l3Bytes = uint64_t(v); },
     [](const DeviceDesc &d) { return int64_t(d.l3Bytes); }},
};
const PeakField peakFields[] = {
    {"read_bps", &DeviceDesc::read, Peak::kAssumedRead},
    {"int8_ops", &DeviceDesc::int8, Peak::kAssumed},
    {"float_ops", &DeviceDesc::float32, Peak::kAssumed},
    {"bf16_ops", &DeviceDesc::bf16, Peak::kAssumed},
    {"unpack_wps", &DeviceDesc::unpack, Peak::kAssumed},
    {"node_read_bps", &DeviceDesc::nodeRead, Peak::kAssumedRead},
    {"node_link_bps", &DeviceDesc::nodeLink, Peak::kAssumedRead},
    {"link_bps", &DeviceDesc::link, Peak::kAssumedRead},
};
const SecondsField secondsFields[] = {
    {"link_latency", [](DeviceDesc &d, double v) { d.linkLatencySeconds = v; },
     [](const DeviceDesc &d) { return d.linkLatencySeconds; }},
    {"storage_bps",
     [](DeviceDesc &d, double v) { d.storage.bytesPerSecond = v; },
     [](const DeviceDesc &d) { return d.storage.bytesPerSecond; }},
    {"storage_rps",
     [](DeviceDesc &d, double v) { d.storage.readsPerSecond = v; },
     [](const DeviceDesc &d) { return d.storage.readsPerSecond; }},
    {"step_seconds", [](DeviceDesc &d, double v) { d.overheads.step = v; },
     [](const DeviceDesc &d) { return d.overheads.step; }},
    {"instruction_seconds",
     [](DeviceDesc &d, double v) { d.overheads.instruction = v; },
     [](const DeviceDesc &d) { return d.overheads.instruction; }},
    {"barrier_seconds",
     [](DeviceDesc &d, double v) { d.overheads.barrier = v; },
     [](const DeviceDesc &d) { return d.overheads.barrier; }},
};

std::string basisKey(const PeakField &field) {
  return (field.key + "_basis").str();
}

FailureOr<std::string> stringOf(ModuleOp module, DictionaryAttr dict,
                                StringRef key) {
  if (auto text = dict.getAs<StringAttr>(key))
    return text.str();
  return module.emitError(moe::kTargetAttr)
         << ": expected a string \"" << key << "\"";
}

/// Converts a kernel's rates to an attribute; kernelOf() converts them back.
DictionaryAttr kernelAttr(Builder &b, const moert::KernelRate &rate) {
  NamedAttrList list;
  list.set("kernel", b.getStringAttr(rate.kernel));
  if (!rate.variant.empty())
    list.set("variant", b.getStringAttr(rate.variant));
  list.set("at", b.getDenseF64ArrayAttr(rate.at));
  list.set("memory", b.getDenseF64ArrayAttr(rate.memory));
  if (!rate.cache.empty())
    list.set("cache", b.getDenseF64ArrayAttr(rate.cache));
  return list.getDictionary(b.getContext());
}

FailureOr<moert::KernelRate> kernelOf(ModuleOp module, Attribute entry) {
  auto dict = dyn_cast<DictionaryAttr>(entry);
  auto name = dict ? dict.getAs<StringAttr>("kernel") : StringAttr();
  auto numbers = [&](StringRef key) -> std::vector<double> {
    auto list = dict ? dict.getAs<DenseF64ArrayAttr>(key) : DenseF64ArrayAttr();
    return list ? std::vector<double>(list.asArrayRef().begin(),
                                      list.asArrayRef().end())
                : std::vector<double>();
  };
  moert::KernelRate rate;
  rate.at = numbers("at");
  rate.memory = numbers("memory");
  rate.cache = numbers("cache");
  bool positive =
      llvm::all_of(llvm::concat<double>(rate.at, rate.memory, rate.cache),
                   [](double value) { return value > 0; });
  bool rises = std::ranges::adjacent_find(rate.at, std::greater_equal<>{}) ==
               rate.at.end();
  if (!name || rate.at.empty() || rate.memory.size() != rate.at.size() ||
      (!rate.cache.empty() && rate.cache.size() != rate.at.size()) ||
      !positive || !rises)
    return module.emitError(moe::kTargetAttr)
           << ": a kernel needs its name and as many rates in \"memory\" as "
              "rising sizes in \"at\", all above 0";
  rate.kernel = name.str();
  if (auto variant = dict.getAs<StringAttr>("variant"))
    rate.variant = variant.str();
  return rate;
}

FailureOr<DeviceDesc> deviceOf(ModuleOp module, DictionaryAttr dict) {
  DeviceDesc device;
  auto name = stringOf(module, dict, "name");
  auto kind = stringOf(module, dict, "kind");
  auto isa = stringOf(module, dict, "isa");
  if (failed(name) || failed(kind) || failed(isa))
    return failure();
  device.name = *name;
  device.kind = *kind == "cuda" ? DeviceKind::Cuda : DeviceKind::Cpu;
  if (auto model = dict.getAs<StringAttr>("model"))
    device.model = model.str();
  if (auto title = dict.getAs<StringAttr>("title"))
    device.title = title.str();
  auto parsed = moek::isaFromName(*isa);
  if (!parsed)
    return module.emitError(moe::kTargetAttr)
           << ": unknown isa \"" << *isa << "\" of " << device.name;
  device.isa = *parsed;
  for (const IntField &field : intFields)
    if (auto value = dict.getAs<IntegerAttr>(field.key))
      field.set(device, value.getInt());
  for (const PeakField &field : peakFields)
    if (auto value = dict.getAs<FloatAttr>(field.key)) {
      Peak &peak = device.*field.member;
      peak = {value.getValueAsDouble(), 1, {}};
      if (auto basis = dict.getAs<StringAttr>(basisKey(field)))
        peak.basis = basisFromName(std::string_view(basis.getValue()))
                         .value_or(Basis::Unstated);
    }
  for (const SecondsField &field : secondsFields)
    if (auto value = dict.getAs<FloatAttr>(field.key))
      field.set(device, value.getValueAsDouble());
  if (auto kernels = dict.getAs<ArrayAttr>("kernels"))
    for (Attribute entry : kernels) {
      auto rate = kernelOf(module, entry);
      if (failed(rate))
        return failure();
      device.kernels.push_back(std::move(*rate));
    }
  if (auto basis = dict.getAs<StringAttr>("kernels_basis"))
    device.kernelBasis = basisFromName(std::string_view(basis.getValue()))
                             .value_or(Basis::Measured);
  if (device.memoryBytes == 0 || device.read.perSecond <= 0)
    return module.emitError(moe::kTargetAttr)
           << ": " << device.name << " needs memory_bytes and read_bps above 0";
  return device;
}
} // namespace

DictionaryAttr toAttr(MLIRContext *context, const TargetDesc &target) {
  Builder b(context);
  SmallVector<Attribute> devices;
  for (const DeviceDesc &device : target.devices) {
    NamedAttrList list;
    list.set("name", b.getStringAttr(device.name));
    list.set("model", b.getStringAttr(device.model));
    list.set("title", b.getStringAttr(device.title));
    list.set("kind",
             b.getStringAttr(device.kind == DeviceKind::Cuda ? "cuda" : "cpu"));
    std::string_view isa = moek::isaName(device.isa);
    list.set("isa", b.getStringAttr(StringRef(isa.data(), isa.size())));
    for (const IntField &field : intFields)
      list.set(field.key, b.getI64IntegerAttr(field.get(device)));
    for (const PeakField &field : peakFields) {
      const Peak &peak = device.*field.member;
      list.set(field.key, b.getF64FloatAttr(peak.planned(field.assumed)));
      if (std::string_view basis = basisName(peak.basis); !basis.empty())
        list.set(basisKey(field),
                 b.getStringAttr(StringRef(basis.data(), basis.size())));
    }
    for (const SecondsField &field : secondsFields)
      list.set(field.key, b.getF64FloatAttr(field.get(device)));
    SmallVector<Attribute> kernels;
    for (const moert::KernelRate &rate : device.kernels)
      kernels.push_back(kernelAttr(b, rate));
    if (!kernels.empty())
      list.set("kernels", b.getArrayAttr(kernels));
    if (device.kernelBasis == Basis::Simulated) {
      std::string_view basis = basisName(device.kernelBasis);
      list.set("kernels_basis",
               b.getStringAttr(StringRef(basis.data(), basis.size())));
    }
    devices.push_back(list.getDictionary(context));
  }
  NamedAttrList root;
  root.set("name", b.getStringAttr(target.name));
  root.set("devices", b.getArrayAttr(devices));
  return root.getDictionary(context);
}

FailureOr<TargetDesc> targetOf(ModuleOp module) {
  auto root = module->getAttrOfType<DictionaryAttr>(moe::kTargetAttr);
  if (!root)
    return module.emitError("expected the attribute ") << moe::kTargetAttr;
  TargetDesc target;
  auto name = stringOf(module, root, "name");
  if (failed(name))
    return failure();
  target.name = *name;
  auto devices = root.getAs<ArrayAttr>("devices");
  if (!devices)
    return module.emitError(moe::kTargetAttr) << ": expected \"devices\"";
  for (Attribute entry : devices) {
    auto dict = dyn_cast<DictionaryAttr>(entry);
    if (!dict)
      return module.emitError(moe::kTargetAttr)
             << ": a device must be a dictionary";
    auto device = deviceOf(module, dict);
    if (failed(device))
      return failure();
    target.devices.push_back(std::move(*device));
  }
  // Passes rely on the last device being the host.
  if (target.devices.empty() || target.devices.back().kind != DeviceKind::Cpu)
    return module.emitError(moe::kTargetAttr)
           << ": the last device must be the CPU";
  return target;
}

} // namespace moec
