//===- WeightsWriter.cpp - plan.weights -----------------------------------===//
//
// The file begins with text that says what is in it, padded with zeros to 64
// bytes; its hash tells one weights file from another:
//   moec weights 1
//   model <hash of the model>
//   <offset behind the header> <bytes> <name>   for each weight
//
//===----------------------------------------------------------------------===//

#include "compiler/Serialize/WeightsWriter.h"

#include "compiler/Serialize/FoldQuery.h"
#include "kernels/quant/Rows16.h"
#include "llvm/ADT/MapVector.h"
#include "mlir/IR/Builders.h"
#include "runtime/base/AtomicFile.h"
#include "runtime/base/CheckedMath.h"
#include "runtime/base/ContentHash.h"
#include "runtime/base/MappedFile.h"
#include "runtime/base/Text.h"

#include <algorithm>
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

constexpr uint64_t kAlignment = 64;
/// Bytes copied at a time, between two calls of the progress function.
constexpr uint64_t kChunk = uint64_t(4) << 20;

/// Bytes of a model file that move together: the weights inside may be views
/// of each other's rows.
struct Extent {
  Value file;
  uint64_t begin, end;
  uint64_t target = 0; ///< Behind the header.
};

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
  stdfs::path folder = stdfs::path(path).parent_path();
  struct statvfs info;
  if (statvfs(folder.empty() ? "." : folder.c_str(), &info) != 0)
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

class Packer {
public:
  Packer(plan::ProgramOp program, const PlaceWeightsOptions &options)
      : program(program), options(options),
        path((stdfs::path(options.planPath).parent_path() /
              weightsName(options.planPath))
                 .string()) {}

  StatusOr<uint64_t> run() {
    collect();
    if (extents.empty() && folds.empty() && packs.empty())
      return uint64_t(0);
    layOut();
    MOE_RETURN_IF_ERROR(requireSpace(path, total()));
    MOE_RETURN_IF_ERROR(write());
    rewrite();
    return total();
  }

private:
  uint64_t total() const { return header.size() + dataBytes; }

  /// What is used, and the extents that hold it.
  void collect() {
    for (Operation &op : program.getBody().front()) {
      if (op.use_empty())
        continue;
      if (auto pack = dyn_cast<plan::PackOp>(op))
        packs.push_back(pack);
      else if (auto fold = dyn_cast<plan::FoldQueryOp>(op))
        folds.push_back(fold);
      else if (auto weight = dyn_cast<plan::WeightOp>(op))
        if (options.all && isRead(weight))
          weights.push_back(weight);
    }
    SmallVector<Extent> all;
    llvm::MapVector<Value, unsigned> fileNumbers;
    for (plan::WeightOp weight : weights) {
      fileNumbers.try_emplace(weight.getFile(), fileNumbers.size());
      all.push_back({weight.getFile(), uint64_t(weight.getOffset()),
                     uint64_t(weight.getOffset() + weight.getExtentBytes())});
    }
    llvm::stable_sort(all, [&](const Extent &a, const Extent &b) {
      return std::pair(fileNumbers.lookup(a.file), a.begin) <
             std::pair(fileNumbers.lookup(b.file), b.begin);
    });
    for (const Extent &extent : all)
      if (!extents.empty() && extents.back().file == extent.file &&
          extent.begin < extents.back().end)
        extents.back().end = std::max(extents.back().end, extent.end);
      else
        extents.push_back(extent);
  }

  /// Whether an instruction reads the weight, not only a computed one.
  static bool isRead(plan::WeightOp weight) {
    return llvm::any_of(weight->getUsers(), [](Operation *user) {
      return isa<plan::InstOp>(user);
    });
  }

  void layOut() {
    auto place = [&](uint64_t bytes) {
      uint64_t offset = moert::alignUp(dataBytes, kAlignment);
      dataBytes = offset + bytes;
      return offset;
    };
    for (Extent &extent : extents)
      extent.target = place(extent.end - extent.begin);
    for (plan::FoldQueryOp fold : folds)
      foldTargets.push_back(place(bytesOf(fold)));
    for (plan::PackOp pack : packs)
      packTargets.push_back(place(bytesOf(pack)));

    header =
        fmt::format("moec weights 1\nmodel {}\n", program.getModelHash().str());
    auto describe = [&](uint64_t offset, uint64_t bytes, StringRef name) {
      header += fmt::format("{} {} {}\n", offset, bytes, name.str());
    };
    for (plan::WeightOp weight : weights)
      describe(targetOf(weight), weight.getExtentBytes(), weight.getName());
    for (auto [fold, offset] : llvm::zip(folds, foldTargets))
      describe(offset, bytesOf(fold), fold.getName());
    for (auto [pack, offset] : llvm::zip(packs, packTargets))
      describe(offset, bytesOf(pack), pack.getName());
    header.resize(moert::alignUp(header.size(), kAlignment));
  }

  uint64_t targetOf(plan::WeightOp weight) const {
    for (const Extent &extent : extents)
      if (extent.file == weight.getFile() &&
          extent.begin <= uint64_t(weight.getOffset()) &&
          uint64_t(weight.getOffset()) < extent.end)
        return extent.target + (weight.getOffset() - extent.begin);
    llvm_unreachable("every packed weight has an extent");
  }

  static moek::Format formatOf(StringRef name) {
    return *plan::formatFromName(name);
  }
  static uint64_t bytesOf(Value weight) {
    plan::WeightShape shape = plan::shapeOf(weight);
    return shape.outer * shape.matrixBytes();
  }

  //===--------------------------------------------------------------------===//
  // Writing
  //===--------------------------------------------------------------------===//

  Status write() {
    MOE_ASSIGN_OR_RETURN(moert::AtomicFile file,
                         moert::AtomicFile::create(path));
    MOE_RETURN_IF_ERROR(
        append(file, std::span(reinterpret_cast<const uint8_t *>(header.data()),
                               header.size())));
    for (const Extent &extent : extents) {
      MOE_RETURN_IF_ERROR(padTo(file, header.size() + extent.target));
      MOE_ASSIGN_OR_RETURN(std::span<const uint8_t> bytes,
                           map(extent.file.getDefiningOp<plan::FileOp>()));
      bytes = bytes.subspan(extent.begin, extent.end - extent.begin);
      for (; !bytes.empty();
           bytes = bytes.subspan(std::min(kChunk, bytes.size())))
        MOE_RETURN_IF_ERROR(
            append(file, bytes.first(std::min(kChunk, bytes.size()))));
    }
    for (auto [fold, offset] : llvm::zip(folds, foldTargets)) {
      MOE_RETURN_IF_ERROR(padTo(file, header.size() + offset));
      MOE_RETURN_IF_ERROR(writeFold(fold, file));
    }
    for (auto [pack, offset] : llvm::zip(packs, packTargets)) {
      MOE_RETURN_IF_ERROR(padTo(file, header.size() + offset));
      MOE_RETURN_IF_ERROR(writePacked(pack, file));
    }
    return file.commit();
  }

  Status append(moert::AtomicFile &file, std::span<const uint8_t> bytes) {
    MOE_RETURN_IF_ERROR(file.write(bytes.data(), bytes.size()));
    written += bytes.size();
    if (options.progress)
      options.progress(written, total());
    return Status::ok();
  }

  Status padTo(moert::AtomicFile &file, uint64_t offset) {
    static constexpr uint8_t zeros[kAlignment] = {};
    return append(file, std::span(zeros).first(offset - written));
  }

  StatusOr<std::span<const uint8_t>> map(plan::FileOp file) {
    auto found = mapped.find(file.getPath().str());
    if (found == mapped.end()) {
      MOE_ASSIGN_OR_RETURN(moert::MappedFile opened,
                           moert::MappedFile::open(file.getPath().str()));
      if (opened.bytes().size() != uint64_t(file.getBytes()))
        return Status(StatusCode::Io,
                      fmt::format("{}: has {} bytes, but had {} when it was "
                                  "imported",
                                  opened.path(), opened.bytes().size(),
                                  file.getBytes()));
      found = mapped.emplace(opened.path(), std::move(opened)).first;
    }
    return found->second.bytes();
  }

  StatusOr<moek::WeightView> view(Value value) {
    auto weight = value.getDefiningOp<plan::WeightOp>();
    MOE_ASSIGN_OR_RETURN(std::span<const uint8_t> bytes,
                         map(weight.getFile().getDefiningOp<plan::FileOp>()));
    return moek::WeightView{bytes.data() + weight.getOffset(),
                            weight.getOuter(),
                            weight.getRows(),
                            weight.getCols(),
                            weight.getOuterStride(),
                            weight.getRowStride(),
                            formatOf(weight.getFormat())};
  }

  Status writeFold(plan::FoldQueryOp op, moert::AtomicFile &file) {
    MOE_ASSIGN_OR_RETURN(moek::WeightView wq, view(op.getWq()));
    MOE_ASSIGN_OR_RETURN(moek::WeightView wk, view(op.getWk()));
    FoldQuery fold{wq,
                   wk,
                   op.getKTransposed(),
                   op.getHeads(),
                   op.getNope(),
                   op.getRope(),
                   op.getLatent(),
                   formatOf(op.getFormat())};
    return foldQuery(fold,
                     [&](std::span<const uint8_t> bytes) {
                       return append(file, bytes);
                     })
        .at(op.getName().str());
  }

  Status writePacked(plan::PackOp op, moert::AtomicFile &file) {
    MOE_ASSIGN_OR_RETURN(moek::WeightView w, view(op.getWeight()));
    std::vector<uint8_t> panel(16 * moek::rowBytes(w.format, w.cols));
    for (int64_t m = 0; m < w.outer; ++m)
      for (int64_t r = 0; r < w.rows; r += 16) {
        (void)moek::packRows16(
            w.format, w.data + m * w.outerStride + r * w.rowStride, w.rowStride,
            std::min<int64_t>(16, w.rows - r), w.cols, panel.data());
        MOE_RETURN_IF_ERROR(append(file, panel));
      }
    return Status::ok();
  }

  //===--------------------------------------------------------------------===//
  // The program afterwards
  //===--------------------------------------------------------------------===//

  void rewrite() {
    Block &block = program.getBody().front();
    OpBuilder builder(&block, llvm::find_if(block, [](Operation &op) {
      return isa<plan::WeightOp, plan::FoldQueryOp, plan::PackOp>(op);
    }));
    std::string hash = moert::contentHash(std::span(
        reinterpret_cast<const uint8_t *>(header.data()), header.size()));
    auto file = builder.create<plan::FileOp>(
        program.getLoc(), plan::FileKind::Packed, weightsName(options.planPath),
        total(), header.size(), hash);

    // Targets first: they are found by the old places.
    SmallVector<uint64_t> offsets;
    for (plan::WeightOp weight : weights)
      offsets.push_back(header.size() + targetOf(weight));
    for (auto [weight, offset] : llvm::zip(weights, offsets)) {
      weight.getFileMutable().assign(file);
      weight.setOffset(offset);
    }
    auto replace = [&](auto op, uint64_t offset) {
      builder.setInsertionPoint(op);
      plan::WeightShape shape = plan::shapeOf(op);
      std::string_view format = moek::formatInfo(shape.format).name;
      auto weight = builder.create<plan::WeightOp>(
          op.getLoc(), op.getName(), file, header.size() + offset,
          StringRef(format.data(), format.size()), shape.outer, shape.rows,
          shape.cols, shape.matrixBytes(), shape.rowBytes(), shape.layout);
      op.replaceAllUsesWith(weight.getResult());
      op.erase();
    };
    for (auto [pack, offset] : llvm::zip(packs, packTargets))
      replace(pack, offset);
    for (auto [fold, offset] : llvm::zip(folds, foldTargets))
      replace(fold, offset);
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
  std::string path;

  SmallVector<plan::WeightOp> weights;
  SmallVector<plan::FoldQueryOp> folds;
  SmallVector<plan::PackOp> packs;
  SmallVector<Extent> extents;
  SmallVector<uint64_t> foldTargets, packTargets;
  std::string header;
  uint64_t dataBytes = 0, written = 0;
  std::map<std::string, moert::MappedFile> mapped;
};

/// As the plan records a model file: relative if it is below the plan's folder.
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
  stdfs::path relative = absolute.lexically_relative(folder);
  bool below = !relative.empty() && *relative.begin() != "..";
  return (below ? relative : absolute).string();
}

} // namespace

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
