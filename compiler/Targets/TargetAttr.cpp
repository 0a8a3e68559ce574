#include "compiler/Targets/TargetAttr.h"

#include "dialects/moe/Moe.h"

using namespace mlir;

namespace moec {

namespace {
/// One field of a device in both directions.
struct IntField {
  StringRef key;
  void (*set)(DeviceDesc &, int64_t);
  int64_t (*get)(const DeviceDesc &);
};
struct FloatField {
  StringRef key;
  double DeviceDesc::*member;
};

const IntField intFields[] = {
    {"arch", [](DeviceDesc &d, int64_t v) { d.arch = int(v); },
     [](const DeviceDesc &d) -> int64_t { return d.arch; }},
    {"cores", [](DeviceDesc &d, int64_t v) { d.cores = int(v); },
     [](const DeviceDesc &d) -> int64_t { return d.cores; }},
    {"numa_nodes", [](DeviceDesc &d, int64_t v) { d.numaNodes = int(v); },
     [](const DeviceDesc &d) -> int64_t { return d.numaNodes; }},
    {"memory_bytes",
     [](DeviceDesc &d, int64_t v) { d.memoryBytes = uint64_t(v); },
     [](const DeviceDesc &d) { return int64_t(d.memoryBytes); }},
    {"reserved_bytes",
     [](DeviceDesc &d, int64_t v) { d.reservedBytes = uint64_t(v); },
     [](const DeviceDesc &d) { return int64_t(d.reservedBytes); }},
};
const FloatField floatFields[] = {
    {"read_bps", &DeviceDesc::readBytesPerSecond},
    {"int8_ops", &DeviceDesc::int8OpsPerSecond},
    {"float_ops", &DeviceDesc::floatOpsPerSecond},
    {"link_bps", &DeviceDesc::linkBytesPerSecond},
    {"link_latency", &DeviceDesc::linkLatencySeconds},
};

FailureOr<std::string> stringOf(ModuleOp module, DictionaryAttr dict,
                                StringRef key) {
  if (auto text = dict.getAs<StringAttr>(key))
    return text.str();
  return module.emitError(moe::kTargetAttr)
         << ": expected a string \"" << key << "\"";
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
  for (const FloatField &field : floatFields)
    if (auto value = dict.getAs<FloatAttr>(field.key))
      device.*field.member = value.getValueAsDouble();
  if (device.memoryBytes == 0 || device.readBytesPerSecond <= 0)
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
    for (const FloatField &field : floatFields)
      list.set(field.key, b.getF64FloatAttr(device.*field.member));
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
  // Passes take the last device for the host.
  if (target.devices.empty() || target.devices.back().kind != DeviceKind::Cpu)
    return module.emitError(moe::kTargetAttr)
           << ": the last device must be the CPU";
  return target;
}

} // namespace moec
