//===- PlanTypes.td - References into the tables of a plan ------*- tablegen -*-===//

#ifndef MOE_DIALECTS_PLAN_PLANTYPES_TD
#define MOE_DIALECTS_PLAN_PLANTYPES_TD

include "dialects/plan/PlanDialect.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

class Plan_Type<string name, string mnemonic_, string summary_>
    : TypeDef<Plan_Dialect, name>,
      BuildableType<"::mlir::plan::" # name # "Type::get($_builder.getContext())"> {
  let mnemonic = mnemonic_;
  let summary = summary_;
}

def Plan_File : Plan_Type<"File", "file", "a file with weights">;
def Plan_Device : Plan_Type<"Device", "device", "a memory with its processors">;
def Plan_Queue : Plan_Type<"Queue", "queue", "where a device's instructions run in order">;
def Plan_Module : Plan_Type<"Module", "module", "code for a device">;
def Plan_Event : Plan_Type<"Event", "event", "that an instruction and all before it in its queue have ended">;
def Plan_Weight : Plan_Type<"Weight", "weight", "matrices in a file">;
def Plan_Constant : Plan_Type<"Constant", "constant", "numbers the compiler computed">;
def Plan_Kv : Plan_Type<"Kv", "kv", "one layer's cache">;
def Plan_Buffer : Plan_Type<"Buffer", "buffer", "a region of a device's arena">;
def Plan_Explain : Plan_Type<"Explain", "explain", "why an op is where it is">;

// These attributes return signed numbers; MLIR's own I64Attr returns an
// unsigned one.
def Plan_I64 : TypedSignlessIntegerAttrBase<I64, "int64_t", "64-bit integer">;
def Plan_I32 : TypedSignlessIntegerAttrBase<I32, "int32_t", "32-bit integer">;

// The numbers of the enums are those of plan.fbs, moek::Encoding, moek::KvType
// and moek::Layout.
class Plan_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::mlir::plan";
  let genSpecializedAttr = 0;
}

def Plan_FileKind : Plan_Enum<"FileKind", "who wrote a file", [
  I32EnumAttrCase<"Model", 0, "model">, I32EnumAttrCase<"Packed", 1, "packed">,
  I32EnumAttrCase<"Loaded", 2, "loaded">]>;
def Plan_FileKindAttr : EnumAttr<Plan_Dialect, Plan_FileKind, "file_kind">;

def Plan_DeviceKind : Plan_Enum<"DeviceKind", "what a device is", [
  I32EnumAttrCase<"Cpu", 0, "cpu">, I32EnumAttrCase<"Cuda", 1, "cuda">]>;
def Plan_DeviceKindAttr : EnumAttr<Plan_Dialect, Plan_DeviceKind, "device_kind">;

def Plan_NodeUse : Plan_Enum<"NodeUse", "how a CPU's memory nodes hold weights", [
  I32EnumAttrCase<"Any", 0, "any">, I32EnumAttrCase<"Split", 1, "split">,
  I32EnumAttrCase<"Interleaved", 2, "interleaved">, I32EnumAttrCase<"One", 3, "one">]>;
def Plan_NodeUseAttr : EnumAttr<Plan_Dialect, Plan_NodeUse, "node_use">;

def Plan_QueueKind : Plan_Enum<"QueueKind", "what a queue runs", [
  I32EnumAttrCase<"Compute", 0, "compute">, I32EnumAttrCase<"Copy", 1, "copy">]>;
def Plan_QueueKindAttr : EnumAttr<Plan_Dialect, Plan_QueueKind, "queue_kind">;

def Plan_ResidencyMode : Plan_Enum<"ResidencyMode", "how a weight gets to a device", [
  I32EnumAttrCase<"Resident", 0, "resident">, I32EnumAttrCase<"Streamed", 1, "streamed">,
  I32EnumAttrCase<"File", 2, "file">, I32EnumAttrCase<"Pinned", 3, "pinned">]>;
def Plan_ResidencyModeAttr : EnumAttr<Plan_Dialect, Plan_ResidencyMode, "residency_mode">;

def Plan_Encoding : Plan_Enum<"Encoding", "how a buffer's elements are stored", [
  I32EnumAttrCase<"F32", 0, "f32">, I32EnumAttrCase<"I32", 1, "i32">,
  I32EnumAttrCase<"A8", 2, "a8">, I32EnumAttrCase<"A8K", 3, "a8k">]>;
def Plan_EncodingAttr : EnumAttr<Plan_Dialect, Plan_Encoding, "encoding">;

def Plan_KvElement : Plan_Enum<"KvElement", "element of a cache", [
  I32EnumAttrCase<"F32", 0, "f32">, I32EnumAttrCase<"F16", 1, "f16">,
  I32EnumAttrCase<"BF16", 2, "bf16">, I32EnumAttrCase<"Q8_0", 3, "q8_0">]>;
def Plan_KvElementAttr : EnumAttr<Plan_Dialect, Plan_KvElement, "kv_element">;

def Plan_Layout : Plan_Enum<"Layout", "how a weight's bytes are arranged", [
  I32EnumAttrCase<"Gguf", 0, "gguf">, I32EnumAttrCase<"Rows16", 1, "rows16">]>;
def Plan_LayoutAttr : EnumAttr<Plan_Dialect, Plan_Layout, "layout">;

def Plan_RejectedAttr : AttrDef<Plan_Dialect, "Rejected"> {
  let mnemonic = "rejected";
  let summary = "what was not chosen, with what it is predicted to take, and why";
  let description = [{
    The alternative is a device, kernel or layout (`kind`) for an op or, with `of`,
    for a weight. Negative seconds mean that it cannot execute the op.
  }];
  let parameters = (ins "::mlir::StringAttr":$kind, "::mlir::StringAttr":$name, "::mlir::StringAttr":$of,
                        "::mlir::FloatAttr":$seconds, "::mlir::StringAttr":$chosen,
                        "::mlir::FloatAttr":$chosen_seconds, "::mlir::StringAttr":$reason);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Plan_RejectedList : TypedArrayAttrBase<Plan_RejectedAttr, "a list of #plan.rejected">;

#endif // MOE_DIALECTS_PLAN_PLANTYPES_TD
