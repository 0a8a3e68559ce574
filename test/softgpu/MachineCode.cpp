#include "test/softgpu/MachineCode.h"

#include <algorithm>
#include <map>

namespace softgpu {

namespace {

/// An opcode's modifiers: "ld.global.nc.v4.u32".
struct Text {
  std::string_view all;
  std::string_view opcode() const { return all.substr(0, all.find('.')); }
  std::string_view type() const {
    size_t at = all.rfind('.');
    return at == std::string_view::npos ? "" : all.substr(at + 1);
  }
  bool has(std::string_view modifier) const {
    for (size_t at = 0; (at = all.find('.', at)) != std::string_view::npos;) {
      ++at;
      if (all.substr(at, all.find('.', at) - at) == modifier)
        return true;
    }
    return false;
  }
  bool is(std::initializer_list<std::string_view> names) const {
    return std::find(names.begin(), names.end(), opcode()) != names.end();
  }
};

bool is64(std::string_view type) { return type.ends_with("64"); }
bool isFloat(std::string_view type) {
  return type.starts_with("f") || type.starts_with("bf");
}

class Translator {
public:
  Translator(const Kernel &kernel, const Regions &regions, const GpuModel &gpu)
      : kernel_(kernel), regions_(regions), gpu_(gpu) {}

  MachineCode run(const Resources &resources);

private:
  MachineOp translate(const Op &op, Text text) const;
  void arithmetic(MachineOp &m, Text text) const;
  void convert(MachineOp &m, Text text) const;
  MachineOp memory(const Op &op, Text text) const;

  void set(MachineOp &m, Pipe pipe, int slots = 1) const {
    m.pipe = pipe;
    m.slots = uint8_t(slots);
    int lanes = pipe == Pipe::Float ? gpu_.floatLanes
                : pipe == Pipe::Integer || pipe == Pipe::Adder
                    ? gpu_.integerLanes
                : pipe == Pipe::Multiply ? 64
                : pipe == Pipe::Special  ? 16
                : pipe == Pipe::Double   ? (gpu_.isShared ? 2 : 64)
                                         : 128;
    m.interval = uint16_t(128 / lanes);
    m.latency = uint16_t(pipe == Pipe::Special  ? gpu_.latency.special
                         : pipe == Pipe::Double ? (gpu_.isShared ? 40 : 8)
                                                : gpu_.latency.arithmetic);
  }
  void fuse(MachineCode &code, const MachineRegion &region,
            const std::vector<uint32_t> &uses) const;
  void narrow(MachineCode &code, std::vector<uint8_t> &widths) const;
  void shareReciprocals(MachineCode &code, const MachineRegion &region) const;
  std::vector<std::vector<bool>> liveOut(const MachineCode &code) const;

  const Kernel &kernel_;
  const Regions &regions_;
  const GpuModel &gpu_;
};

void Translator::convert(MachineOp &m, Text text) const {
  // cvt.(rounding).(modifiers).to.from
  size_t last = text.all.rfind('.');
  std::string_view from = text.all.substr(last + 1);
  std::string_view rest = text.all.substr(0, last);
  std::string_view to = rest.substr(rest.rfind('.') + 1);
  bool toFloat = isFloat(to), fromFloat = isFloat(from);
  if (!toFloat && !fromFloat) {
    // Words of wider or narrower registers; signs and bytes are extracted.
    bool isFree = to == "u64" || from == "u64" || from == "s64" ||
                  from == "b64" || to == "u16" || to == "s16" || to == "b16";
    return isFree ? set(m, Pipe::Free) : set(m, Pipe::Integer);
  }
  if (to == "f64" || from == "f64")
    return set(m, Pipe::Double, 2);
  if (toFloat && fromFloat) {
    bool narrows = from == "f32" && to != "f32";
    if (text.has("rni") || text.has("rzi") || text.has("rmi") ||
        text.has("rpi"))
      return set(m, Pipe::Special);
    set(m, narrows ? Pipe::Multiply : Pipe::Float);
    return;
  }
  // Conversions from an integer have half of the integer rate from sm_86 on.
  // Those to an integer, and before sm_86 all, take the 16 lanes of special
  // functions.
  bool isFast = toFloat && gpu_.arch >= 86;
  set(m, isFast ? Pipe::Integer : Pipe::Special);
  if (isFast)
    m.interval = 2;
}

void Translator::arithmetic(MachineOp &m, Text text) const {
  std::string_view type = text.type();
  bool wide = is64(type), isF = isFloat(type);
  if (text.is({"mov", "cvta", "isspacep", "activemask"}))
    return set(m, Pipe::Free);
  if (type == "f64" && text.is({"selp"}))
    return set(m, Pipe::Integer, 2); // The two halves are selected separately.
  if (type == "f64")
    return set(m, Pipe::Double);
  if (text.is({"cvt"}))
    return convert(m, text);
  if (type == "pred")
    return set(
        m, Pipe::Free); // Instructions on predicates are part of a comparison.
  if (text.is({"rcp", "rsqrt", "ex2", "lg2", "sin", "cos", "tanh", "sqrt"})) {
    set(m, Pipe::Special);
    if (!text.has("approx")) {
      set(m, Pipe::Float, 8); // The exact function is a subroutine.
      m.latency = 60;
    }
    return;
  }
  if (text.is({"div", "rem"})) {
    if (isF) {
      set(m, Pipe::Float, text.has("rn") ? 10 : 4);
      m.latency = uint16_t(text.has("rn") ? 70 : 40);
    } else {
      set(m, Pipe::Integer, wide ? 70 : 18);
      m.latency = uint16_t(wide ? 300 : 90);
    }
    return;
  }
  if (isF) {
    bool isCompare = text.is({"setp", "set", "selp", "slct", "min", "max"});
    if (text.is({"abs", "neg"}))
      return set(m, Pipe::Free); // Signs are modifiers of operands.
    return set(m, isCompare ? Pipe::Integer : Pipe::Float);
  }
  if (text.is({"mul", "mad", "mul24", "mad24", "madc"})) {
    set(m, Pipe::Multiply, wide && !text.has("wide") ? 4 : 1);
    if (text.has("wide") || text.has("hi"))
      m.latency = uint16_t(gpu_.latency.arithmetic + 1);
    return;
  }
  if (text.is({"dp4a", "dp2a"}))
    return set(m, Pipe::Multiply);
  if (text.is({"popc", "clz", "brev", "bfind", "fns"}))
    return set(m, Pipe::Special);
  if (text.is({"bfe", "bfi"}))
    return set(m, Pipe::Integer, 2);
  bool isAdder = text.is({"add", "sub", "shl"});
  set(m, isAdder ? Pipe::Adder : Pipe::Integer, wide ? 2 : 1);
}

MachineOp Translator::memory(const Op &op, Text text) const {
  MachineOp m;
  const Latencies &l = gpu_.latency;
  m.interval = 1;
  switch (op.opClass) {
  case OpClass::SharedLoad:
  case OpClass::SharedStore:
  case OpClass::MatrixLoad:
    m.pipe = Pipe::Shared;
    m.latency = uint16_t(l.shared);
    break;
  case OpClass::AsyncCopy:
    m.pipe = op.bytes                   ? Pipe::Copy
             : text.has("commit_group") ? Pipe::Commit
                                        : Pipe::Wait;
    m.groups = text.has("wait_group") ? uint16_t(op.imm) : 0;
    m.latency = uint16_t(l.l2);
    break;
  case OpClass::Fence:
    m.pipe = Pipe::Fence;
    m.latency = uint16_t(op.isGpuScope ? l.l2 : l.shared);
    break;
  default:
    m.pipe = Pipe::Global;
    m.latency = uint16_t(l.l1);
    break;
  }
  return m;
}

MachineOp Translator::translate(const Op &op, Text text) const {
  MachineOp m;
  switch (op.opClass) {
  case OpClass::GlobalLoad:
  case OpClass::GlobalStore:
  case OpClass::SharedLoad:
  case OpClass::SharedStore:
  case OpClass::LocalAccess:
  case OpClass::AsyncCopy:
  case OpClass::Atomic:
  case OpClass::MatrixLoad:
  case OpClass::Fence:
    return memory(op, text);
  case OpClass::ConstLoad:
    return m;
  case OpClass::Barrier:
    m.pipe = op.control == Control::Barrier ? Pipe::Barrier : Pipe::Other;
    return m;
  case OpClass::Shuffle:
    m.pipe = Pipe::Shuffle;
    m.latency = uint16_t(gpu_.latency.shuffle);
    return m;
  case OpClass::Vote:
    set(m, Pipe::Integer);
    m.latency = 12;
    return m;
  case OpClass::Mma: {
    m.pipe = Pipe::Tensor;
    // m16n8kDepth: the depth follows the last 'k' of the shape.
    int depth = text.has("m16n8k8")    ? 8
                : text.has("m16n8k16") ? 16
                : text.has("m16n8k32") ? 32
                                       : 64;
    bool isInteger = text.has("s32");
    int rows = text.all.find("m8n8") != std::string_view::npos ? 8 : 16;
    if (rows == 8)
      depth = 16;
    double rate = (isInteger ? gpu_.int8Macs : gpu_.halfMacs) * gpu_.mmaSync;
    double cycles = rows * 8.0 * depth / (rate / 4);
    m.interval = uint16_t(std::max(1.0, cycles + 0.5));
    // Half of the depth takes two thirds of the time.
    bool isShort = depth < (isInteger ? 32 : 16);
    m.latency = uint16_t(std::max<int>(gpu_.latency.mma * (isShort ? 2 : 3) / 3,
                                       m.interval + 4));
    return m;
  }
  case OpClass::Warpgroup: {
    m.latency = 1;
    if (!op.results) {
      m.pipe = text.has("fence")          ? Pipe::ProductFence
               : text.has("commit_group") ? Pipe::ProductCommit
                                          : Pipe::ProductWait;
      m.groups = uint16_t(op.imm);
      return m;
    }
    if (op.imm) // The first op stands for the instruction.
      return m;
    m.pipe = Pipe::Product;
    constexpr int kDepth = 16, kRows = 16, kWarps = 4;
    int columns = 8 * op.count;
    m.interval = uint16_t(
        std::max(1.0, kRows * columns * kDepth / (gpu_.halfMacs / 4) + 0.5));
    // Matrix B is read once for all four warps, A from a descriptor by each
    // warp for its rows.
    bool isShared = op.sources == 3;
    m.operandBytes =
        uint16_t(2 * kDepth * (columns / kWarps + (isShared ? kRows : 0)));
    return m;
  }
  case OpClass::BulkCopy:
    m.pipe = Pipe::BulkCopy;
    return m;
  case OpClass::Mbarrier:
    m.pipe = op.control == Control::Await ? Pipe::AwaitBytes
             : text.has("expect_tx")      ? Pipe::ExpectBytes
                                          : Pipe::Other;
    m.latency = uint16_t(gpu_.latency.shared);
    return m;
  case OpClass::ClusterBarrier:
    m.pipe =
        op.control == Control::Await ? Pipe::ClusterWait : Pipe::ClusterArrive;
    return m;
  case OpClass::Control:
    m.pipe = op.control == Control::None ? Pipe::Other : Pipe::Branch;
    return m;
  case OpClass::Other:
    m.pipe = Pipe::Other;
    return m;
  default:
    arithmetic(m, text);
    return m;
  }
}

/// Addresses of shared memory have 64 bits in PTX and 32 in machine code: of
/// 64-bit integers that only become such addresses, the low half is computed.
void Translator::narrow(MachineCode &code, std::vector<uint8_t> &widths) const {
  std::vector<bool> isNarrow(code.registerCount);
  for (size_t r = 0; r < widths.size(); ++r)
    isNarrow[r] = widths[r] == 2;
  auto isChain = [&](const MachineOp &m) {
    Text text{kernel_.texts[m.op]};
    return text.is({"add", "sub", "shl", "mul", "mov", "cvta"}) &&
           m.writes == 1;
  };
  for (bool changed = true; changed;) {
    changed = false;
    for (const MachineOp &m : code.ops) {
      const uint32_t *r = &code.registers[m.registers];
      for (int k = 0; k < m.reads; ++k) {
        if (!isNarrow[r[k]])
          continue;
        bool isAddress = k == 0 && (m.pipe == Pipe::Shared ||
                                    (m.pipe == Pipe::Copy && m.reads > 1));
        bool isPassed = isChain(m) && isNarrow[r[m.reads]];
        if (!isAddress && !isPassed) {
          isNarrow[r[k]] = false;
          changed = true;
        }
      }
    }
  }
  for (MachineOp &m : code.ops)
    if (m.writes == 1 && m.reads &&
        isNarrow[code.registers[m.registers + m.reads]] &&
        m.pipe != Pipe::Free) {
      if (Text{kernel_.texts[m.op]}.is({"cvt"}))
        set(m, Pipe::Free);
      m.slots = std::min<uint8_t>(m.slots, 1);
    }
  for (size_t r = 0; r < widths.size(); ++r)
    widths[r] = isNarrow[r] ? 1 : widths[r];
}

/// Divisions of a region by the same integer compute its reciprocal once.
void Translator::shareReciprocals(MachineCode &code,
                                  const MachineRegion &region) const {
  std::vector<uint32_t> divisors;
  for (uint32_t i = region.begin; i < region.end; ++i) {
    MachineOp &m = code.ops[i];
    Text text{kernel_.texts[m.op]};
    if (!text.is({"div", "rem"}) || isFloat(text.type()) || m.reads < 2)
      continue;
    uint32_t divisor = code.registers[m.registers + 1];
    if (std::find(divisors.begin(), divisors.end(), divisor) == divisors.end())
      divisors.push_back(divisor);
    else
      m.slots = uint8_t(m.slots * 2 / 3);
  }
}

/// Pairs that one instruction does: a product or shift and an addition, two
/// additions, two logic operations of at most three inputs.
void Translator::fuse(MachineCode &code, const MachineRegion &region,
                      const std::vector<uint32_t> &uses) const {
  std::map<uint32_t, uint32_t> producer;
  for (uint32_t i = region.begin; i < region.end; ++i) {
    MachineOp &m = code.ops[i];
    Text text{kernel_.texts[m.op]};
    bool isAdd = text.is({"add", "sub"}) && !isFloat(text.type());
    bool isLogic =
        text.is({"and", "or", "xor", "not"}) && text.type() != "pred";
    bool hasFused = false;
    for (int r = 0; r < m.reads && (isAdd || isLogic) && !hasFused; ++r) {
      uint32_t from = code.registers[m.registers + size_t(r)];
      auto it = producer.find(from);
      if (it == producer.end() || uses[from] != 1)
        continue;
      MachineOp &p = code.ops[it->second];
      Text first{kernel_.texts[p.op]};
      if (p.pipe == Pipe::Free || kernel_.ops[p.op].guard != kNowhere)
        continue;
      bool isProduct = first.is({"mul"}) && !isFloat(first.type());
      bool fits = isAdd ? isProduct || first.is({"shl"}) ||
                              (first.is({"add", "sub"}) &&
                               !isFloat(first.type()) && !is64(text.type()))
                        : isLogic && first.is({"and", "or", "xor", "not"}) &&
                              p.reads + m.reads <= 4;
      if (!fits)
        continue;
      if (isProduct)
        set(m, Pipe::Multiply, is64(text.type()) && !first.has("wide") ? 4 : 1);
      else
        m.slots = std::max(m.slots, p.slots);
      p.pipe = Pipe::Free;
      p.slots = 0;
      p.latency = 0;
      hasFused = true;
    }
    for (int w = 0; w < m.writes; ++w)
      if (!hasFused)
        producer[code.registers[m.registers + m.reads + size_t(w)]] = i;
      else
        producer.erase(code.registers[m.registers + m.reads + size_t(w)]);
  }
}

/// For each region, the registers that are used after it before they are
/// written.
std::vector<std::vector<bool>>
Translator::liveOut(const MachineCode &code) const {
  size_t count = code.regions.size();
  std::vector<std::vector<bool>> in(count), out(count), used(count),
      written(count);
  for (size_t i = 0; i < count; ++i) {
    for (auto *set : {&in[i], &out[i], &used[i], &written[i]})
      set->assign(code.registerCount, false);
    for (uint32_t j = code.regions[i].begin; j < code.regions[i].end; ++j) {
      const MachineOp &m = code.ops[j];
      const uint32_t *r = &code.registers[m.registers];
      for (int k = 0; k < m.reads; ++k)
        if (!written[i][r[k]])
          used[i][r[k]] = true;
      // A guarded op may leave its result as it was.
      if (kernel_.ops[m.op].guard == kNowhere)
        for (int k = 0; k < m.writes; ++k)
          written[i][r[m.reads + k]] = true;
    }
    in[i] = used[i];
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (size_t i = count; i-- > 0;) {
      const Op &last = kernel_.ops[regions_.all[i].end - 1];
      auto follow = [&](size_t op) {
        if (op >= regions_.of.size())
          return;
        const std::vector<bool> &next = in[regions_.of[op]];
        for (size_t r = 0; r < next.size(); ++r)
          if (next[r] && !out[i][r]) {
            out[i][r] = true;
            if (!written[i][r] && !in[i][r])
              in[i][r] = true;
            changed = true;
          }
      };
      if (last.control == Control::Branch)
        follow(last.target);
      if (last.control == Control::Indexed)
        for (int64_t t = 0; t < last.imm; ++t)
          follow(kernel_.targets[last.target + size_t(t)]);
      bool falls =
          last.guard != kNowhere ||
          (last.control != Control::Branch &&
           last.control != Control::Indexed && last.control != Control::Exit);
      if (falls)
        follow(regions_.all[i].end);
    }
  }
  return out;
}

MachineCode Translator::run(const Resources &resources) {
  MachineCode code;
  std::map<Place, uint32_t> places;
  std::vector<uint8_t> widths;
  std::vector<uint32_t> uses;
  auto registerOf = [&](Place place, int bytes) {
    auto [it, isNew] = places.try_emplace(place, uint32_t(widths.size()));
    if (isNew) {
      widths.push_back(uint8_t(bytes));
      uses.push_back(0);
    }
    return it->second;
  };
  // Places are next to each other, which gives their sizes.
  std::vector<Place> begins;
  for (const Op &op : kernel_.ops)
    for (int i = 0; i < op.results + op.sources; ++i)
      if (!(op.r[size_t(i)] & kConstant))
        begins.push_back(op.r[size_t(i)]);
  std::sort(begins.begin(), begins.end());
  begins.erase(std::unique(begins.begin(), begins.end()), begins.end());
  auto widthOf = [&](Place place) {
    auto next = std::upper_bound(begins.begin(), begins.end(), place);
    uint32_t end = next == begins.end() ? kernel_.frameBytes : *next;
    return int(std::min<uint32_t>((end - place) / (2 * kUnit), 2));
  };
  for (const Region &region : regions_.all) {
    MachineRegion to;
    to.begin = uint32_t(code.ops.size());
    for (uint32_t i = region.begin; i < region.end; ++i) {
      const Op &op = kernel_.ops[i];
      MachineOp m = translate(op, {kernel_.texts[i]});
      m.op = i;
      m.record = regions_.record[i];
      m.registers = uint32_t(code.registers.size());
      auto read = [&](Place place) {
        if (place == kNowhere || place & kConstant)
          return;
        uint32_t r = registerOf(place, widthOf(place));
        ++uses[r];
        code.registers.push_back(r);
        ++m.reads;
      };
      for (int s = 0; s < op.sources; ++s)
        read(op.r[size_t(op.results + s)]);
      read(op.guard);
      // The results are sums and are read as well.
      if (op.opClass == OpClass::Warpgroup)
        for (int r = 0; r < op.results; ++r)
          read(op.r[size_t(r)]);
      for (int r = 0; r < op.results; ++r)
        if (!(op.r[size_t(r)] & kConstant)) {
          code.registers.push_back(
              registerOf(op.r[size_t(r)], widthOf(op.r[size_t(r)])));
          ++m.writes;
        }
      code.ops.push_back(m);
    }
    to.end = uint32_t(code.ops.size());
    code.regions.push_back(to);
  }
  code.registerCount = uint32_t(widths.size());
  narrow(code, widths);
  for (const MachineRegion &region : code.regions) {
    shareReciprocals(code, region);
    fuse(code, region, uses);
  }
  std::vector<std::vector<bool>> live = liveOut(code);
  for (size_t i = 0; i < code.regions.size(); ++i) {
    MachineRegion &region = code.regions[i];
    scheduleRegion(kernel_, code, widths, live[i], resources.registers,
                   {code.ops.data() + region.begin, region.end - region.begin});
    for (uint32_t j = region.begin; j < region.end; ++j) {
      MachineOp &m = code.ops[j];
      m.line = code.instructions / 8;
      code.instructions += m.pipe == Pipe::Free ? 0 : m.slots;
    }
  }
  // Spilled registers are stored and loaded somewhere: evenly over the code.
  for (MachineRegion &region : code.regions) {
    uint32_t own = 0;
    for (uint32_t j = region.begin; j < region.end; ++j)
      own += code.ops[j].pipe != Pipe::Free;
    region.spills = uint32_t(uint64_t(own) * uint32_t(resources.spilledBytes) /
                             4 / std::max(code.instructions, 1u));
  }
  return code;
}

} // namespace

MachineCode machineCodeOf(const Kernel &kernel, const Regions &regions,
                          const GpuModel &gpu, const Resources &resources) {
  return Translator(kernel, regions, gpu).run(resources);
}

} // namespace softgpu
