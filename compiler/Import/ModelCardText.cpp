#include "compiler/Import/ModelCard.h"
#include "runtime/base/Page.h"
#include "runtime/base/Text.h"

#include <algorithm>
#include <fmt/format.h>

using namespace moert;

namespace moec {

namespace {

/// Prints a line of a table: number of tensors, bytes and their share of `all`.
void useLine(Page &page, std::string_view label, const ModelCard::Use &use,
             uint64_t all, std::string_view note = "") {
  page.line(label,
            fmt::format("{:>6} {:<7} {:>12} {:>6.2f} %{}", use.tensors,
                        use.tensors == 1 ? "tensor" : "tensors",
                        humanBytes(double(use.bytes)),
                        all ? 100.0 * double(use.bytes) / double(all) : 0.0,
                        note));
}

void sizeGroup(Page &page, const ModelCard &card) {
  page.group("size");
  page.line(card.paths.size() == 1 ? "file" : "files",
            card.paths.size() == 1
                ? humanBytes(double(card.fileBytes))
                : fmt::format("{} in {} files",
                              humanBytes(double(card.fileBytes)),
                              card.paths.size()));
  if (card.total.tensors == 0) {
    page.line("weights", "none: the file holds no tensors");
    return;
  }
  page.line("parameters", fmt::format("{}, {} active per token",
                                      humanCount(card.total.parameters),
                                      humanCount(card.active.parameters)));
  page.line("weights",
            fmt::format("{}, {} read per token, {:.2f} bits per weight",
                        humanBytes(double(card.total.bytes)),
                        humanBytes(double(card.active.bytes)),
                        card.bitsPerWeight()));
}

std::string layersText(const ModelCard::Layers &layers) {
  std::string kinds;
  auto add = [&](uint64_t count, std::string_view kind) {
    if (count)
      kinds += fmt::format("{}{} {}", kinds.empty() ? "" : ", ", count, kind);
  };
  add(layers.dense, "dense");
  add(layers.moe, "mixture-of-experts");
  add(layers.mtp, "MTP");
  return kinds.empty() ? fmt::format("{}", layers.total)
                       : fmt::format("{}: {}", layers.total, kinds);
}

void shapeGroup(Page &page, const ModelCard &card) {
  page.group("shape");
  page.line("layers", layersText(card.layers));
  if (card.embeddingLength)
    page.line("hidden", fmt::format("{}", *card.embeddingLength));
  if (card.heads)
    page.line("heads", card.headsKv && *card.headsKv != *card.heads
                           ? fmt::format("{}, {} for keys and values",
                                         *card.heads, *card.headsKv)
                           : fmt::format("{}", *card.heads));
  if (card.ffnLength)
    page.line("FFN width", fmt::format("{}", *card.ffnLength));
  if (card.contextLength)
    page.line("context", counted(*card.contextLength, "token"));
  if (card.vocabularySize)
    page.line("vocabulary", counted(*card.vocabularySize, "token"));
  if (card.tokenizer)
    page.line("tokenizer", card.preTokenizer
                               ? fmt::format("{}, pre-tokenizer {}",
                                             printable(*card.tokenizer),
                                             printable(*card.preTokenizer))
                               : printable(*card.tokenizer));
  if (card.tiedOutput)
    page.line("output", "shares the embedding matrix");
}

void expertsGroup(Page &page, const ModelCard::Experts &experts) {
  page.group("experts");
  page.line("routed",
            fmt::format("{}, {} used per token", experts.count, experts.used));
  if (experts.groups > 1)
    page.line("groups", fmt::format("{}, {} used per token", experts.groups,
                                    experts.groupsUsed));
  page.line("shared", fmt::format("{}", experts.shared));
  if (experts.width)
    page.line("FFN width", fmt::format("{}", *experts.width));
  if (experts.gating)
    page.line("gating", *experts.gating);
}

void verdictGroup(Page &page, const ModelCard::Verdict &verdict) {
  page.group("moec compile");
  page.line("compiles", verdict.refusal.empty() ? "yes" : "no");
  if (!verdict.refusal.empty())
    page.paragraph("  why              ", verdict.refusal);
  for (const std::string &note : verdict.notes)
    page.paragraph("  note             ", note);
}

} // namespace

std::string modelCardText(const ModelCard &card) {
  Page page;
  page.group("model");
  if (card.name)
    page.line("name", printable(*card.name));
  page.line("architecture", printable(card.architecture));
  page.line("format", fmt::format("GGUF v{}", card.version));
  sizeGroup(page, card);
  shapeGroup(page, card);
  if (card.experts)
    expertsGroup(page, *card.experts);
  if (card.verdict)
    verdictGroup(page, *card.verdict);
  if (card.total.tensors == 0)
    return page.take();

  page.group("bytes by part");
  for (unsigned i = 0; i < modelPartCount; ++i)
    if (card.parts[i].tensors)
      useLine(page, modelPartName(static_cast<ModelPart>(i)), card.parts[i],
              card.total.bytes);
  page.group("formats");
  for (const ModelCard::FormatUse &format : card.formats) {
    moek::FormatInfo info = moek::formatInfo(format.format);
    useLine(page, info.name, format, card.total.bytes,
            info.hasKernels ? "" : "  (no kernels for this format)");
  }
  return page.take();
}

} // namespace moec
