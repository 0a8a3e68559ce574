//===- MoeTypes.td - Quantised element types --------------------*- tablegen -*-===//
//
// One def per quantised format of kernels/quant/Formats.def; f32, f16 and bf16
// are MLIR's own types.
//
//===----------------------------------------------------------------------===//

#ifndef MOE_DIALECTS_MOE_TYPES_TD
#define MOE_DIALECTS_MOE_TYPES_TD

include "dialects/moe/MoeDialect.td"
include "dialects/moe/MoeInterfaces.td"
include "mlir/IR/AttrTypeBase.td"

class Moe_QuantType<string format, string mnemonic_>
    : TypeDef<Moe_Dialect, format, [DeclareTypeInterfaceMethods<Moe_QuantTypeInterface, ["getFormat"]>]> {
  let mnemonic = mnemonic_;
  let summary = "element of a tensor stored as ggml's " # format;
  let extraClassDefinition = [{
    ::moek::Format $cppClass::getFormat() const { return ::moek::Format::}] # format # [{; }
  }];
}

def Moe_Q4_0 : Moe_QuantType<"Q4_0", "q4_0">;
def Moe_Q4_1 : Moe_QuantType<"Q4_1", "q4_1">;
def Moe_Q5_0 : Moe_QuantType<"Q5_0", "q5_0">;
def Moe_Q5_1 : Moe_QuantType<"Q5_1", "q5_1">;
def Moe_Q8_0 : Moe_QuantType<"Q8_0", "q8_0">;
def Moe_Q2_K : Moe_QuantType<"Q2_K", "q2_k">;
def Moe_Q3_K : Moe_QuantType<"Q3_K", "q3_k">;
def Moe_Q4_K : Moe_QuantType<"Q4_K", "q4_k">;
def Moe_Q5_K : Moe_QuantType<"Q5_K", "q5_k">;
def Moe_Q6_K : Moe_QuantType<"Q6_K", "q6_k">;
def Moe_IQ4_NL : Moe_QuantType<"IQ4_NL", "iq4_nl">;
def Moe_IQ4_XS : Moe_QuantType<"IQ4_XS", "iq4_xs">;
def Moe_IQ1_S : Moe_QuantType<"IQ1_S", "iq1_s">;
def Moe_IQ1_M : Moe_QuantType<"IQ1_M", "iq1_m">;
def Moe_IQ2_XXS : Moe_QuantType<"IQ2_XXS", "iq2_xxs">;
def Moe_IQ2_XS : Moe_QuantType<"IQ2_XS", "iq2_xs">;
def Moe_IQ2_S : Moe_QuantType<"IQ2_S", "iq2_s">;
def Moe_IQ3_XXS : Moe_QuantType<"IQ3_XXS", "iq3_xxs">;
def Moe_IQ3_S : Moe_QuantType<"IQ3_S", "iq3_s">;
def Moe_MXFP4 : Moe_QuantType<"MXFP4", "mxfp4">;
def Moe_NVFP4 : Moe_QuantType<"NVFP4", "nvfp4">;
def Moe_TQ1_0 : Moe_QuantType<"TQ1_0", "tq1_0">;
def Moe_TQ2_0 : Moe_QuantType<"TQ2_0", "tq2_0">;

def Moe_KvType : TypeDef<Moe_Dialect, "Kv"> {
  let mnemonic = "kv";
  let summary = "one layer's cache, this step's rows included";
  let description = [{
    The value through which attention depends on the op that appended the
    step's rows. `width` is the elements of a row, each a `::moek::KvType`: that
    of `!moe.kv<576>` is bf16, that of `!moe.kv<576, q8_0>` q8_0.
  }];
  let parameters = (ins "int64_t":$width, "::moek::KvType":$element);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// The element type that models are built with; moe-choose-kv-types changes it.
    static KvType get(::mlir::MLIRContext *context, int64_t width) {
      return get(context, width, ::moek::KvType::BF16);
    }
    /// Returns the type of rows of the same width with other elements.
    KvType of(::moek::KvType element) {
      return get(getContext(), getWidth(), element);
    }
    int64_t getRowBytes() const;
  }];
}

#endif // MOE_DIALECTS_MOE_TYPES_TD
