//===- WeightsWriter.cpp - plan.weights -----------------------------------===//
//
// The file begins with text that says what is in it, padded with zeros to a
// page; its hash tells one weights file from another:
//   moec weights 2
//   model <hash of the model>
//   <offset behind the header> <bytes> <layout> <name>   for each weight
//
//===----------------------------------------------------------------------===//

#include "compiler/Serialize/WeightsWriter.h"

#include "compiler/Pack/RowSources.h"
#include "mlir/IR/Builders.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/HostCpu.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/OutputFile.h"
#include "runtime/base/Text.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <map>
#include <sys/statvfs.h>

using namespace mlir;
using moert::Status;
using moert::StatusCode;
using moert::StatusOr;
namespace stdfs = std::filesystem;

namespace moec {

namespace {

/// Weights begin at cache lines, those of huge pages' size at pages.
constexpr uint64_t kAlignment = 64, kPage = 4096;
constexpr uint64_t kHugePage = uint64_t(2) << 20;

/// A plain name beside the plan.
std::string weightsName(const std::string &planPath) {
  stdfs::path name = stdfs::path(planPath).filename();
  stdfs::path packed = name;
  packed.replace_extension(".weights");
  if (packed == name)
    packed += ".weights";
  return packed.string();
}

Status requireSpace(const std::string &path, uint64_t bytes) {
  MOE_ASSIGN_OR_RETURN(moert::OutputPlace place,
                       moert::OutputPlace::find(path));
  moert::removeStaleTemporaries(place.folder(), place.name());
  struct statvfs info;
  if (statvfs(place.folder().c_str(), &info) != 0)
    return Status(StatusCode::Io, path + ": " + std::strerror(errno));
  uint64_t available = uint64_t(info.f_bavail) * info.f_frsize;
  if (available >= bytes)
    return Status::ok();
  return Status(
      StatusCode::Io,
      fmt::format("{}: needs {}, but the disk has {} free; free some space, "
                  "write to another disk or use --weights=reference",
                  path, moert::humanBytes(double(bytes)),
                  moert::humanBytes(double(available))));
}

moek::Format formatOf(StringRef name) { return *plan::formatFromName(name); }

class Packer {
public:
  Packer(plan::ProgramOp program, const PlaceWeightsOptions &options)
      : program(program), options(options) {
    file.path = weightsPath(options.planPath);
  }

  StatusOr<uint64_t> run() {
    collect();
    if (entries.empty())
      return uint64_t(0);
    MOE_ASSIGN_OR_RETURN(moert::OutputPlace plan,
                         moert::OutputPlace::find(options.planPath));
    if (plan.isStream())
      return Status(StatusCode::Usage,
                    fmt::format("-o {}: packed weights need a file beside the "
                                "plan, and beside a stream there is none; name "
                                "a file, or use --weights reference",
                                options.planPath));
    layOut();
    MOE_RETURN_IF_ERROR(requireSpace(file.path, file.bytes));
    for (auto [entry, weight] : llvm::zip(entries, file.weights)) {
      MOE_ASSIGN_OR_RETURN(weight.source, sourceOf(entry));
    }
    MOE_RETURN_IF_ERROR(
        writePackedFile(file, {options.threads, options.progress}));
    rewrite();
    return file.bytes;
  }

private:
  /// What instructions read, in the plan's order: weights that they read one
  /// after another lie one behind another.
  void collect() {
    for (Operation &op : program.getBody().front())
      if (isa<plan::PackOp, plan::FoldQueryOp, plan::TransposeOp>(op) ||
          (options.all && isa<plan::WeightOp>(op)))
        if (llvm::any_of(op.getUsers(), [](Operation *user) {
              return isa<plan::InstOp>(user);
            }))
          entries.push_back(&op);
  }

  void layOut() {
    uint64_t end = 0;
    file.header =
        fmt::format("moec weights 2\nmodel {}\n", program.getModelHash().str());
    for (Operation *entry : entries) {
      plan::WeightShape shape = plan::shapeOf(entry->getResult(0));
      auto layout = moek::Layout(shape.layout);
      PackedWeight weight{nullptr,    shape.outer,  shape.rows,
                          shape.cols, shape.format, layout};
      uint64_t bytes = weight.bytes();
      weight.offset =
          moert::alignUp(end, bytes >= kHugePage ? kPage : kAlignment);
      end = weight.offset + bytes;
      file.header += fmt::format("{} {} {} {}\n", weight.offset, bytes,
                                 moek::layoutName(layout), nameOf(entry).str());
      file.weights.push_back(std::move(weight));
    }
    file.header.resize(moert::alignUp(file.header.size(), kPage));
    for (PackedWeight &weight : file.weights)
      weight.offset += file.header.size();
    file.bytes = file.header.size() + end;
  }

  static StringRef nameOf(Operation *entry) {
    return entry->getAttrOfType<StringAttr>("name").getValue();
  }

  //===--------------------------------------------------------------------===//
  // Sources
  //===--------------------------------------------------------------------===//

  StatusOr<std::unique_ptr<RowSource>> sourceOf(Operation *entry) {
    if (auto pack = dyn_cast<plan::PackOp>(entry))
      return sourceOf(pack.getWeight().getDefiningOp());
    if (auto fold = dyn_cast<plan::FoldQueryOp>(entry))
      return foldOf(fold);
    if (auto transpose = dyn_cast<plan::TransposeOp>(entry))
      return transposeOf(transpose);
    auto weight = cast<plan::WeightOp>(entry);
    MOE_ASSIGN_OR_RETURN(const ModelFile *model,
                         open(weight.getFile().getDefiningOp<plan::FileOp>()));
    return std::unique_ptr<RowSource>(std::make_unique<ModelRows>(
        *model, weight.getOffset(), viewOf(weight, nullptr)));
  }

  StatusOr<std::unique_ptr<RowSource>> foldOf(plan::FoldQueryOp op) {
    MOE_ASSIGN_OR_RETURN(moek::WeightView wq, mappedView(op.getWq()));
    MOE_ASSIGN_OR_RETURN(moek::WeightView wk, mappedView(op.getWk()));
    FoldQuery fold{wq,
                   wk,
                   op.getKTransposed(),
                   op.getHeads(),
                   op.getNope(),
                   op.getRope(),
                   op.getLatent(),
                   formatOf(op.getFormat())};
    MOE_RETURN_IF_ERROR(fold.check().at(op.getName().str()));
    return std::unique_ptr<RowSource>(std::make_unique<FoldedRows>(fold));
  }

  StatusOr<std::unique_ptr<RowSource>> transposeOf(plan::TransposeOp op) {
    MOE_ASSIGN_OR_RETURN(moek::WeightView from, mappedView(op.getWeight()));
    Transpose transpose{from, formatOf(op.getFormat())};
    MOE_RETURN_IF_ERROR(transpose.check().at(op.getName().str()));
    return std::unique_ptr<RowSource>(
        std::make_unique<TransposedRows>(transpose));
  }

  static moek::WeightView viewOf(plan::WeightOp weight, const uint8_t *data) {
    return {data,
            weight.getOuter(),
            weight.getRows(),
            weight.getCols(),
            weight.getOuterStride(),
            weight.getRowStride(),
            formatOf(weight.getFormat())};
  }

  StatusOr<const ModelFile *> open(plan::FileOp op) {
    auto found = opened.find(op.getPath().str());
    if (found == opened.end()) {
      // Where both files do not fit into memory, the new one is worth more.
      bool forget = 2 * file.bytes > moert::hostMemoryBytes();
      MOE_ASSIGN_OR_RETURN(
          ModelFile model,
          ModelFile::open(op.getPath().str(), op.getBytes(), forget));
      found = opened.emplace(op.getPath().str(), std::move(model)).first;
    }
    return &found->second;
  }

  /// Of what another weight is computed from.
  StatusOr<moek::WeightView> mappedView(Value value) {
    auto weight = value.getDefiningOp<plan::WeightOp>();
    auto op = weight.getFile().getDefiningOp<plan::FileOp>();
    MOE_RETURN_IF_ERROR(open(op).status());
    auto found = mapped.find(op.getPath().str());
    if (found == mapped.end()) {
      MOE_ASSIGN_OR_RETURN(moert::MappedFile mapping,
                           moert::MappedFile::open(op.getPath().str()));
      found = mapped.emplace(mapping.path(), std::move(mapping)).first;
    }
    return viewOf(weight, found->second.bytes().data() + weight.getOffset());
  }

  //===--------------------------------------------------------------------===//
  // The program afterwards
  //===--------------------------------------------------------------------===//

  void rewrite() {
    Block &block = program.getBody().front();
    OpBuilder builder(&block, llvm::find_if(block, [](Operation &op) {
      return isa<plan::WeightOp, plan::FoldQueryOp, plan::TransposeOp,
                 plan::PackOp>(op);
    }));
    std::string hash = moert::contentHash(
        std::span(reinterpret_cast<const uint8_t *>(file.header.data()),
                  file.header.size()));
    auto fileOp = builder.create<plan::FileOp>(
        program.getLoc(), plan::FileKind::Packed, weightsName(options.planPath),
        file.bytes, file.header.size(), hash);
    for (auto [entry, weight] : llvm::zip(entries, file.weights)) {
      builder.setInsertionPoint(entry);
      plan::WeightShape shape = plan::shapeOf(entry->getResult(0));
      std::string_view format = moek::formatInfo(shape.format).name;
      auto stored = builder.create<plan::WeightOp>(
          entry->getLoc(), nameOf(entry), fileOp, weight.offset,
          StringRef(format.data(), format.size()), shape.outer, shape.rows,
          shape.cols, shape.matrixBytes(), shape.rowBytes(), shape.layout);
      entry->getResult(0).replaceUsesWithIf(
          stored.getResult(),
          [](OpOperand &use) { return isa<plan::InstOp>(use.getOwner()); });
    }
    // What packs uses what is computed, and both use what is stored.
    eraseUnused<plan::PackOp>(block);
    eraseUnused<plan::FoldQueryOp>(block);
    eraseUnused<plan::TransposeOp>(block);
    eraseUnused<plan::WeightOp>(block);
    eraseUnused<plan::FileOp>(block);
  }

  template <typename OpT> static void eraseUnused(Block &block) {
    for (OpT op : llvm::make_early_inc_range(block.getOps<OpT>()))
      if (op.use_empty())
        op.erase();
  }

  plan::ProgramOp program;
  const PlaceWeightsOptions &options;
  SmallVector<Operation *> entries;
  PackedFile file; ///< Its weights are parallel to `entries`.
  std::map<std::string, ModelFile> opened;
  std::map<std::string, moert::MappedFile> mapped;
};

/// As the plan records a model file: relative if it is below the plan's folder,
/// where that is known.
StatusOr<std::string> recordedPath(const std::string &file,
                                   const std::string &planPath) {
  std::error_code error;
  stdfs::path absolute = stdfs::weakly_canonical(stdfs::absolute(file), error);
  stdfs::path folder;
  if (!error)
    folder =
        stdfs::weakly_canonical(stdfs::absolute(planPath).parent_path(), error);
  if (error)
    return Status(StatusCode::Io, file + ": " + error.message());
  MOE_ASSIGN_OR_RETURN(moert::OutputPlace plan,
                       moert::OutputPlace::find(planPath));
  if (plan.isStream())
    return absolute.string();
  stdfs::path relative = absolute.lexically_relative(folder);
  bool below = !relative.empty() && *relative.begin() != "..";
  return (below ? relative : absolute).string();
}

} // namespace

std::string weightsPath(const std::string &planPath) {
  return (stdfs::path(planPath).parent_path() / weightsName(planPath)).string();
}

StatusOr<uint64_t> placeWeights(plan::ProgramOp program,
                                const PlaceWeightsOptions &options) {
  MOE_ASSIGN_OR_RETURN(uint64_t bytes, Packer(program, options).run());
  for (plan::FileOp file : program.getBody().getOps<plan::FileOp>())
    if (file.getKind() == plan::FileKind::Model) {
      MOE_ASSIGN_OR_RETURN(std::string path, recordedPath(file.getPath().str(),
                                                          options.planPath));
      file.setPath(path);
    }
  return bytes;
}

} // namespace moec
