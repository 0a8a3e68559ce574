//===- PlanOps.td - Tables, phases and instructions -------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_PLAN_PLANOPS_TD
#define MOE_DIALECTS_PLAN_PLANOPS_TD

include "dialects/moe/WeightInterfaces.td"
include "dialects/plan/PlanInterfaces.td"
include "dialects/plan/PlanTypes.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/RegionKindInterface.td"
include "mlir/Interfaces/InferTypeOpInterface.td"

// No op of a table is Pure: canonicalization must not remove entries that are
// unused or occur twice.
class Plan_Op<string mnemonic, list<Trait> traits = []>
    : Op<Plan_Dialect, mnemonic, traits>;

// An op that is an entry of a table. Other ops refer to the entry by its
// result.
class Plan_Entry<string mnemonic, list<Trait> traits = []>
    : Plan_Op<mnemonic, !listconcat([
        DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>], traits)> {
  let hasVerifier = 1;
}
class Plan_ProgramEntry<string mnemonic, list<Trait> traits = []>
    : Plan_Entry<mnemonic, !listconcat([HasParent<"ProgramOp">], traits)>;
// A table entry for a weight or a file of weights. It may be in a plan.program
// or in a plan.packing.
class Plan_FileEntry<string mnemonic, list<Trait> traits = []>
    : Plan_Entry<mnemonic, !listconcat([ParentOneOf<["ProgramOp", "PackingOp"]>], traits)>;
class Plan_WeightEntry<string mnemonic, list<string> methods = []>
    : Plan_FileEntry<mnemonic, [DeclareOpInterfaceMethods<Plan_WeightEntryInterface, methods>]>;

//===----------------------------------------------------------------------===//
// The program and its tables
//===----------------------------------------------------------------------===//

def Plan_ProgramOp : Plan_Op<"program", [
    IsolatedFromAbove, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "a whole plan";
  let description = [{
    Without `sequences` the plan decodes one sequence at a time. `pooling` is how
    the model embeds texts: "mean", "first", "last" or "rank". With `labels`, which
    name the outputs of a classifier, logits are those outputs and not of tokens.
    `mtp_layers` counts
    the layers of the phase "draft", which follow the others. `nvrtc` is the
    version of the compiler that made the images.
  }];
  let arguments = (ins StrAttr:$compiler, StrAttr:$target, StrAttr:$architecture,
                       StrAttr:$model_name, StrAttr:$model_hash, Plan_I64:$hidden,
                       Plan_I64:$vocab, Plan_I32:$layers, Plan_I32:$context,
                       Plan_I32:$experts, Plan_I32:$experts_used, StrAttr:$options,
                       Plan_I64:$parameters,
                       OptionalAttr<Plan_I32>:$trained_context,
                       OptionalAttr<Plan_I32>:$mtp_layers,
                       OptionalAttr<StrAttr>:$pooling,
                       OptionalAttr<StrArrayAttr>:$labels,
                       OptionalAttr<Plan_I32>:$sequences,
                       OptionalAttr<StrAttr>:$nvrtc);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "attr-dict-with-keyword $body";
}

def Plan_FileOp : Plan_FileEntry<"file"> {
  let summary = "a file with weights";
  let description = [{
    ```mlir
    %gguf = plan.file model "m.gguf" bytes 2000000 header 512 hash "<32 hex digits>" samples "<32 hex digits>"
    ```
    `bytes` is the exact size. The `hash` (XXH3-128) of the leading `header` bytes
    and, if it is recorded, the hash of sampled blocks identify the file
    (runtime/schema/plan.fbs). `path` is relative to the plan's folder or
    absolute. The file that plan-pack-weights plans has no path, header or hash
    until it is written; until then, offsets into it do not count the header. A
    `loaded` file has none either: moert makes its bytes in memory while it loads.
  }];
  let arguments = (ins Plan_FileKindAttr:$kind, StrAttr:$path, Plan_I64:$bytes,
                       Plan_I64:$header_bytes, StrAttr:$header_hash,
                       DefaultValuedStrAttr<StrAttr, "">:$sample_hash);
  let results = (outs Plan_File:$result);
  let assemblyFormat = [{
    `` $kind $path `bytes` $bytes `header` $header_bytes `hash` $header_hash
    (`samples` $sample_hash^)? attr-dict
  }];
}

def Plan_WeightOp : Plan_WeightEntry<"weight", ["isInFile"]> {
  let summary = "`outer` matrices of `rows` x `cols` at `offset` of a file";
  let description = [{
    ```mlir
    %w = plan.weight "blk.0.attn_q.weight" in %gguf at 4096 : 1x3072x2048xQ4_K strides [3538944, 1152]
    %p = plan.weight "output.weight" in %packed at 8192 : 1x102400x2048xQ6_K strides [172032000, 1680] layout rows16
    ```
    The shape is outer x rows x cols. The strides are the bytes from one matrix to
    the next and from one row to the next. `format` is a name of
    kernels/quant/Formats.def. Panels of a layout other than gguf
    (kernels/Layout.h) are contiguous. `checksum`, if it is recorded, covers all
    bytes of the weight (runtime/schema/plan.fbs). A weight in a `loaded` file is
    made of the rows of its `sources`, weights of model files in layout gguf, one
    after the other.
  }];
  let arguments = (ins StrAttr:$name, Plan_File:$file, Variadic<Plan_Weight>:$sources,
                       Plan_I64:$offset, StrAttr:$format,
                       Plan_I64:$outer, Plan_I64:$rows, Plan_I64:$cols,
                       Plan_I64:$outer_stride, Plan_I64:$row_stride,
                       DefaultValuedAttr<Plan_LayoutAttr, "Layout::Gguf">:$layout,
                       DefaultValuedStrAttr<StrAttr, "">:$checksum);
  let results = (outs Plan_Weight:$result);
  let assemblyFormat = [{
    $name `in` $file (`of` $sources^)? `at` $offset `:` custom<Shape>($outer, $rows, $cols, $format)
    `strides` ` ` `[` $outer_stride `,` $row_stride `]` (`layout` `` $layout^)?
    (`checksum` $checksum^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Returns the bytes from `offset` to the end of the last row or panel.
    int64_t getExtentBytes();
  }];
}

def Plan_DerivedOp : Plan_WeightEntry<"derived"> {
  let summary = "a weight that packing computes";
  let description = [{
    ```mlir
    %t = plan.derived "blk.0.attn_kv_b.weight.keys.transposed" = #moe.transpose of %k : 16x512x128xQ8_0
    ```
    `source` (dialects/moe/WeightAttrs.td) says how it is made of its parts, which
    are weights in the model file. plan-pack-weights plans its bytes as a part of
    plan.weights and lets instructions read a `plan.weight` instead. A program
    that still has one cannot be written.
  }];
  let arguments = (ins StrAttr:$name, Moe_WeightSourceInterface:$source,
                       Variadic<Plan_Weight>:$parts, StrAttr:$format,
                       Plan_I64:$outer, Plan_I64:$rows, Plan_I64:$cols);
  let results = (outs Plan_Weight:$result);
  let assemblyFormat = [{
    $name `=` $source `of` $parts `:` custom<Shape>($outer, $rows, $cols, $format) attr-dict
  }];
}

def Plan_PackOp : Plan_WeightEntry<"pack", ["getUnpacked"]> {
  let summary = "a weight that packing writes in another layout";
  let description = [{
    ```mlir
    %p = plan.pack "output.weight" of %w layout rows16
    ```
    The entry has the rows of `weight`, which are in GGUF layout or still to be
    computed, in `layout`. plan-pack-weights replaces it as it does
    `plan.derived`.
  }];
  let arguments = (ins StrAttr:$name, Plan_Weight:$weight, Plan_LayoutAttr:$layout);
  let results = (outs Plan_Weight:$result);
  let assemblyFormat = "$name `of` $weight `layout` `` $layout attr-dict";
}

def Plan_PackingOp : Plan_Op<"packing", [
    IsolatedFromAbove, SingleBlock, NoTerminator, NoRegionArguments]> {
  let summary = "what is to be written to plan.weights";
  let description = [{
    ```mlir
    plan.packing bytes 172032000 {
      %gguf = plan.file model "m.gguf" bytes 2000000 header 512 hash "<32 hex digits>"
      %w = plan.weight "output.weight" in %gguf at 8192 : 1x102400x2048xQ6_K strides [172032000, 1680]
      plan.packed "output.weight" of %w layout rows16 at 0
    }
    ```
    plan-pack-weights decides, for all programs of the module, which weights the
    file holds, how they are made from the model, in which layout, and at which
    offset. Bytes that several programs read are stored once. compiler/Pack
    computes the bytes, and compiler/Serialize puts a header of whole pages before
    them.
  }];
  let arguments = (ins Plan_I64:$bytes);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`bytes` $bytes $body attr-dict";
  let hasRegionVerifier = 1;
}

def Plan_PackedOp : Plan_Op<"packed", [HasParent<"PackingOp">]> {
  let summary = "a weight of plan.weights, at `offset` behind the header";
  let description = [{
    The rows of `weight` are stored in `layout`, without gaps. Entries are in the
    order of their offsets.
  }];
  let arguments = (ins StrAttr:$name, Plan_Weight:$weight, Plan_LayoutAttr:$layout,
                       Plan_I64:$offset);
  let assemblyFormat = "$name `of` $weight `layout` `` $layout `at` $offset attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the shape of the source weight in the layout of this entry.
    ::mlir::plan::WeightShape getPackedShape();
  }];
}

def Plan_ConstantOp : Plan_ProgramEntry<"constant"> {
  let summary = "small numbers computed by the compiler, such as frequencies";
  let arguments = (ins StrAttr:$name, DenseF32ArrayAttr:$values);
  let results = (outs Plan_Constant:$result);
  let assemblyFormat = "$name custom<Floats>($values) attr-dict";
}

def Plan_DeviceOp : Plan_ProgramEntry<"device"> {
  let summary = "processors and their memory";
  let description = [{
    `arch` is the compute capability * 10 of a CUDA device. `memory_bytes` is the
    budget of placement. plan-launches sets `workspace_bytes`, the scratch memory
    that instructions of a CUDA device use one after the other, and plan-allocate
    sets the other sizes. `nodes` is the number of a CPU's memory nodes, and
    `node_use` says how they hold weights. A CUDA device with `shares_memory` has
    no memory of its own but the CPU's, whose `memory_bytes` are the budget of
    both; weights that both read count for the first of them.
  }];
  let arguments = (ins StrAttr:$name, Plan_DeviceKindAttr:$kind, StrAttr:$isa,
                       Plan_I64:$memory_bytes,
                       DefaultValuedAttr<Plan_I32, "0">:$arch,
                       DefaultValuedAttr<Plan_I64, "0">:$arena_bytes,
                       DefaultValuedAttr<Plan_I64, "0">:$kv_bytes,
                       DefaultValuedAttr<Plan_I64, "0">:$weight_bytes,
                       DefaultValuedAttr<Plan_I64, "0">:$scratch_bytes,
                       DefaultValuedAttr<Plan_I64, "0">:$worker_bytes,
                       DefaultValuedAttr<Plan_I32, "1">:$cores,
                       DefaultValuedAttr<Plan_I32, "0">:$multiprocessors,
                       DefaultValuedAttr<Plan_I64, "0">:$workspace_bytes,
                       DefaultValuedAttr<Plan_I32, "1">:$nodes,
                       DefaultValuedAttr<Plan_NodeUseAttr, "NodeUse::Any">:$node_use,
                       UnitAttr:$shares_memory);
  let results = (outs Plan_Device:$result);
  let assemblyFormat = "$name `` $kind `isa` $isa `memory` $memory_bytes attr-dict";
}

def Plan_QueueOp : Plan_ProgramEntry<"queue"> {
  let summary = "where instructions of a device run, one after the other";
  let description = [{
    ```mlir
    %gpu0.copy = plan.queue copy of %gpu0
    ```
    A CUDA device may have two queues, so that it computes and copies at the same
    time. A CPU has a compute queue only, in which its workers also copy.
  }];
  let arguments = (ins Plan_QueueKindAttr:$kind, Plan_Device:$device);
  let results = (outs Plan_Queue:$result);
  let assemblyFormat = "`` $kind `of` $device attr-dict";
}

def Plan_ModuleOp : Plan_ProgramEntry<"module"> {
  let summary = "a kernel that GPUs of the plan run";
  let description = [{
    ```mlir
    %gemv_2_q4_k = plan.module "gemv_2_q4_k" of "kernels/cuda/Gemv.cu" ["MOE_FORMAT=12"]
    ```
    The module is a file of kernels/cuda compiled with these definitions; `entry`
    is the name of its function. plan-launches adds one for each kernel that an
    instruction launches.
  }];
  let arguments = (ins StrAttr:$entry, StrAttr:$file, StrArrayAttr:$defines);
  let results = (outs Plan_Module:$result);
  let assemblyFormat = "$entry `of` $file $defines attr-dict";
}

def Plan_ImageOp : Plan_Op<"image", [HasParent<"ProgramOp">]> {
  let summary = "a module's code for one architecture";
  let description = [{
    ```mlir
    plan.image of %gemv_2_q4_k arch 89 registers 40 spilled 0 stack 0 shared 1024 cubin "..." ptx "..."
    ```
    `arch` is the compute capability * 10. `registers`, `spilled` and `stack` count
    registers and bytes per thread, `shared` counts bytes per block. moec compiles
    the images before it writes a plan; in text they follow everything else.
  }];
  let arguments = (ins Plan_Module:$module, Plan_I32:$arch, Plan_I32:$registers,
                       Plan_I32:$spilled_bytes, Plan_I32:$stack_bytes,
                       Plan_I32:$shared_bytes, StrAttr:$cubin, StrAttr:$ptx);
  let assemblyFormat = [{
    `of` $module `arch` $arch `registers` $registers `spilled` $spilled_bytes
    `stack` $stack_bytes `shared` $shared_bytes `cubin` $cubin `ptx` $ptx attr-dict
  }];
  let hasVerifier = 1;
}

def Plan_ResidentOp : Plan_Op<"resident", [HasParent<"ProgramOp">]> {
  let summary = "a weight is where instructions of a device read it";
  let description = [{
    ```mlir
    plan.resident %w on %cpu0 resident
    ```
    plan-allocate adds one for each weight and device that reads it.
  }];
  let arguments = (ins Plan_Weight:$weight, Plan_Device:$device, Plan_ResidencyModeAttr:$mode);
  let assemblyFormat = "$weight `on` $device `` $mode attr-dict";
}

def Plan_KvOp : Plan_ProgramEntry<"kv"> {
  let summary = "one layer's cache: `capacity` rows of `width` elements";
  let description = [{
    plan-allocate sets `offset`, which counts from the start of the device's KV
    memory. With `row_per_sequence` the entry is a recurrent state: one row holds the
    layer's state of one sequence.
  }];
  let arguments = (ins Plan_Device:$device, Plan_I32:$layer, Plan_KvElementAttr:$element,
                       Plan_I64:$capacity, Plan_I64:$width, OptionalAttr<Plan_I64>:$offset,
                       UnitAttr:$row_per_sequence);
  let results = (outs Plan_Kv:$result);
  let assemblyFormat = [{
    `on` $device `layer` $layer `` $element `rows` $capacity `cols` $width
    (`at` $offset^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Returns the bytes of the whole cache.
    int64_t getBytes();
  }];
}

def Plan_ExplainOp : Plan_ProgramEntry<"explain"> {
  let summary = "why an op is where it is";
  let description = [{
    ```mlir
    %why = plan.explain "ffn_experts" layer 3 phase "decode" on "cpu0" ...
    ```
    An op outside the layers has no `layer`. Costs are those of the phase's typical
    step: `intensity` is FLOPs per byte of weights, and `seconds` is the prediction
    of the cost model. `rejected` lists the alternatives.
  }];
  let arguments = (ins StrAttr:$part, DefaultValuedAttr<Plan_I32, "-1">:$layer,
                       StrAttr:$phase, StrAttr:$device, StrAttr:$kernel,
                       StrAttr:$reason, F64Attr:$flops, F64Attr:$weight_bytes,
                       F64Attr:$activation_bytes, F64Attr:$kv_bytes, F64Attr:$intensity,
                       F64Attr:$seconds, OptionalAttr<Plan_RejectedList>:$rejected);
  let results = (outs Plan_Explain:$result);
  let assemblyFormat = [{
    $part (`layer` $layer^)? `phase` $phase `on` $device `kernel` $kernel `because` $reason
    `flops` $flops `weights` $weight_bytes `activations` $activation_bytes
    `kv` $kv_bytes `intensity` $intensity `seconds` $seconds (`rejected` $rejected^)? attr-dict
  }];
}

def Plan_NoteOp : Plan_Op<"note", [HasParent<"ProgramOp">]> {
  let summary = "a remark of the compiler that a user should see";
  let arguments = (ins StrAttr:$text);
  let assemblyFormat = "$text attr-dict";
}

def Plan_TokenizerOp : Plan_Op<"tokenizer", [HasParent<"ProgramOp">]> {
  let summary = "the tokenizer and chat template of the model";
  let description = [{
    `types` and `scores` are empty or as long as `tokens`. The id of a special
    token is -1 if the model does not have it. `rank_template` is the prompt of a
    model that ranks documents, with "{query}" and "{document}" in it.
  }];
  let arguments = (ins StrAttr:$model, StrAttr:$pre, StrArrayAttr:$tokens,
                       DenseI32ArrayAttr:$types, DenseF32ArrayAttr:$scores,
                       StrArrayAttr:$merges,
                       DefaultValuedAttr<Plan_I32, "-1">:$bos,
                       DefaultValuedAttr<Plan_I32, "-1">:$eos,
                       DefaultValuedAttr<Plan_I32, "-1">:$eot,
                       DefaultValuedAttr<Plan_I32, "-1">:$unk,
                       DefaultValuedAttr<Plan_I32, "-1">:$pad,
                       UnitAttr:$add_bos, UnitAttr:$add_eos,
                       UnitAttr:$remove_extra_spaces, StrAttr:$chat_template,
                       DefaultValuedStrAttr<StrAttr, "">:$rank_template);
  let assemblyFormat = "$model `pre` $pre `scores` custom<Floats>($scores) attr-dict";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Phases
//===----------------------------------------------------------------------===//

def Plan_PhaseOp : Plan_Op<"phase", [HasParent<"ProgramOp">, SingleBlock, NoRegionArguments]> {
  let summary = "the instructions for steps of `min_tokens` to `max_tokens` tokens";
  let description = [{
    Its name is one of runtime/schema/PhaseKind.def, which says what it maps to
    what. A "decode" phase with `with_head` maps token ids to logits.
    One list holds the instructions of all queues in a valid order; each queue runs
    its own instructions in this order. A step ends when all queues have ended.
  }];
  let arguments = (ins StrAttr:$name, Plan_I32:$min_tokens, Plan_I32:$max_tokens,
                       UnitAttr:$with_head);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    $name `tokens` $min_tokens `to` $max_tokens (`with_head` $with_head^)? $body attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    BindOp getBind();
  }];
}

def Plan_BufferOp : Plan_Entry<"buffer", [HasParent<"PhaseOp">]> {
  let summary = "a region of a device's arena";
  let description = [{
    With `rows [a, b]`, a step of T tokens has a * T + b rows. plan-allocate sets
    `offset`, which counts from the start of the arena.

    Every worker has its own copy of a `per_worker` buffer. Each worker executes
    the whole of an instruction that writes one, so no barrier follows it.
  }];
  let arguments = (ins StrAttr:$name, Plan_Device:$device, Plan_EncodingAttr:$encoding,
                       Plan_I64:$cols, Plan_I64:$rows_per_token, Plan_I64:$fixed_rows,
                       OptionalAttr<Plan_I64>:$offset, UnitAttr:$per_worker);
  let results = (outs Plan_Buffer:$result);
  let assemblyFormat = [{
    $name `on` $device `` $encoding `cols` $cols `rows` ` ` `[` $rows_per_token `,` $fixed_rows `]`
    (`per_worker` $per_worker^)? (`at` $offset^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// Returns the bytes of the buffer in a step of `tokens` tokens.
    int64_t getBytes(int64_t tokens);
  }];
}

def Plan_InstOp : Plan_Op<"inst", [HasParent<"PhaseOp">, AttrSizedOperandSegments]> {
  let summary = "one instruction";
  let description = [{
    Operands and parameters are those of runtime/schema/OpTable.h, by name;
    optional operands may be absent. `kernels` are the driver and then one gemm
    per operand that needs one. `for` names its explanation.
    ```mlir
    %event = plan.inst copy on %gpu0.copy ["copy_cuda"] (x = %x, out = %y) after %ready signals for %why
    plan.inst linear on %cpu0.compute ["linear_avx512", "gemm_q4_k_avx512"]
      (act = %y, w = %w, out = %z) {accumulate = 1} after %event barrier for %why
      work {token_ops = 8192.0, first_bytes = 2304.0}
    ```
    `work` says what the instruction reads and computes in a step of any size; the
    numbers are those of runtime/schema/plan.fbs.
    `barrier` synchronises all workers of the queue before the instruction.
    `after` lists events that have to be signalled before it begins. With
    `signals`, its result is an event, which is signalled when the instruction and
    all before it in its queue have ended. Each event is signalled once, by an
    instruction that precedes all that wait for it.
    ```mlir
    plan.inst add on %gpu0.compute ["add_cuda"] (x = %x, y = %y, out = %z)
      launches %add grid [4, 1, 1] threads 256 shared 0 for %why
    ```
    `launches` lists the kernels that an instruction of a CUDA device launches, one
    after the other, in the phase's largest step. `shared` counts the bytes per
    block in addition to those that the code declares.
  }];
  let arguments = (ins StrAttr:$op, Plan_Queue:$queue, StrArrayAttr:$kernels,
                       Variadic<AnyTypeOf<[Plan_Buffer, Plan_Weight, Plan_Kv, Plan_Constant]>>:$arguments,
                       Variadic<Plan_Module>:$modules,
                       Variadic<Plan_Event>:$waits,
                       // There is one flag per operand of the signature.
                       DenseBoolArrayAttr:$present,
                       DenseI64ArrayAttr:$ints, DenseF64ArrayAttr:$floats,
                       UnitAttr:$barrier, Plan_Explain:$explain,
                       OptionalAttr<DenseF64ArrayAttr>:$work,
                       // Each GPU module has five numbers: blocks in x, y and
                       // z, threads per block, and bytes of shared memory.
                       DefaultValuedAttr<DenseI64ArrayAttr, "{}">:$launch_sizes);
  let results = (outs Optional<Plan_Event>:$event);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the op's signature; null only before verification.
    const ::moert::OpSpec *getSpec();
    /// Returns the value of the signature's operand number `position`, or null
    /// if it is absent.
    ::mlir::Value getArgument(unsigned position);
    /// Returns the device that runs the instruction.
    ::mlir::Value getDevice();

    struct Launch {
      ::mlir::Value module;
      int64_t grid[3], threads, sharedBytes;
    };
    ::llvm::SmallVector<Launch> getLaunches();
    void setLaunches(::llvm::ArrayRef<Launch> launches);
  }];
}

def Plan_BindOp : Plan_Op<"bind", [HasParent<"PhaseOp">, Terminator]> {
  let summary = "which buffers the phase's caller fills and reads";
  let arguments = (ins Plan_Buffer:$input, Optional<Plan_Buffer>:$hidden, Plan_Buffer:$output);
  let assemblyFormat = "`input` $input (`hidden` $hidden^)? `output` $output attr-dict";
  let extraClassDeclaration = [{
    /// Returns the buffers that the caller fills.
    ::llvm::SmallVector<::mlir::Value, 2> getInputs();
  }];
}

#endif // MOE_DIALECTS_PLAN_PLANOPS_TD
