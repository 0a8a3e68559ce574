//===- MoeOps.td - Ops of the model graph -----------------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_OPS_TD
#define MOE_DIALECTS_MOE_OPS_TD

include "dialects/moe/MoeAttrs.td"
include "dialects/moe/MoeInterfaces.td"
include "dialects/moe/MoeTypes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Moe_Op<string mnemonic, list<Trait> traits = []> : Op<Moe_Dialect, mnemonic, traits> {
  let hasVerifier = 1;
}
class Moe_ComputeOp<string mnemonic, list<Trait> traits = []>
    : Moe_Op<mnemonic, !listconcat([Pure, Moe_CostOpInterface,
          DeclareOpInterfaceMethods<Moe_LowerableOpInterface>], traits)>;

// Types of values: activations and token ids have a row per token; weights may
// have any format.
def Moe_Rows : TensorRankOf<[F32], [2]>;
def Moe_Ids : TensorRankOf<[I32], [1, 2]>;
def Moe_Weight : RankedTensorOf<[AnyType]>;
def Moe_Vector : TensorRankOf<[F32], [1]>;
// The shape is [experts, columns]: a vector for each expert.
def Moe_Vectors : TensorRankOf<[F32], [2]>;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

def Moe_WeightSymbols : TypedArrayAttrBase<FlatSymbolRefAttr, "a list of weights"> {
  let constBuilderCall = "$_builder.getArrayAttr($0)";
}

def Moe_WeightOp : Moe_Op<"weight", [
    HasParent<"::mlir::ModuleOp">, Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a weight of the module";
  let description = [{
    ```mlir
    moe.weight @blk.0.attn_q.weight : tensor<3072x2048x!moe.q4_k> = #moe.tensor<file = 0, offset = 4096>
    moe.weight @blk.0.attn_q.weight.folded : tensor<9216x2048xbf16>
      = #moe.fold_query<heads = 16, nope = 128, rope = 64, latent = 512>
        of [@blk.0.attn_q.weight, @blk.0.attn_kv_b.weight.keys]
    ```
    `source` says where the bytes come from and `parts` are the weights that it
    reads. The symbol is the weight's only identity: functions refer to it, and
    entries of the plan have its name. A weight that nothing refers to has no
    entry.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Moe_WeightSourceInterface:$source,
                       DefaultValuedAttr<Moe_WeightSymbols, "{}">:$parts,
                       TypeAttrOf<Moe_Weight>:$tensor_type,
                       DefaultValuedStrAttr<StrAttr, "private">:$sym_visibility);
  // In the text form, the type precedes the source, because the source's own
  // parser would otherwise consume it.
  let assemblyFormat = "$sym_name `:` $tensor_type `=` $source (`of` $parts^)? attr-dict";
  let extraClassDeclaration = [{
    auto getPartSymbols() { return getParts().getAsRange<::mlir::FlatSymbolRefAttr>(); }
    /// Returns whether the weight is the tensor of the model file that has the
    /// weight's name.
    bool isFileTensor() { return getParts().empty(); }
  }];
}

def Moe_WeightRefOp : Moe_Op<"weight_ref", [
    Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a weight of the module, as an operand of other ops";
  let description = [{
    ```mlir
    %w = moe.weight_ref @blk.0.attn_q.weight : tensor<3072x2048x!moe.q4_k>
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$weight);
  let results = (outs Moe_Weight:$result);
  let assemblyFormat = "$weight attr-dict `:` type($result)";
  let hasVerifier = 0;
  let builders = [OpBuilder<(ins "WeightOp":$weight)>];
}

//===----------------------------------------------------------------------===//
// Whole-row ops
//===----------------------------------------------------------------------===//

def Moe_EmbeddingOp : Moe_ComputeOp<"embedding"> {
  let summary = "rows of the embedding table";
  let description = [{
    The result has consecutive columns of each row, from column `begin` on. Both
    numbers are whole blocks of the table's format.
    ```mlir
    %x = moe.embedding %tokens, %table : (tensor<?xi32>, tensor<102400x2048x!moe.q4_k>) -> tensor<?x2048xf32>
    ```
  }];
  let arguments = (ins Moe_Ids:$tokens, Moe_Weight:$table,
                       DefaultValuedAttr<I64Attr, "0">:$begin);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$tokens `,` $table attr-dict `:` functional-type(operands, results)";
}

def Moe_RmsNormOp : Moe_ComputeOp<"rms_norm", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x / sqrt(mean(x^2) + eps) * weight, per row or part of one";
  let description = [{
    Each row has `groups` parts, such as heads, with a mean of their own; all
    of them are multiplied by the same weight, by parts of one that is as long
    as a row, or by none.
  }];
  let arguments = (ins Moe_Rows:$x, Optional<Moe_Vector>:$weight, F64Attr:$eps,
                       DefaultValuedAttr<I64Attr, "1">:$groups);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x (`,` $weight^)? attr-dict `:` type($x) (`,` type($weight)^)?";
}

def Moe_LayerNormOp : Moe_ComputeOp<"layer_norm", [AllTypesMatch<["x", "result"]>]> {
  let summary = "(x - mean) / sqrt(variance + eps) * weight + bias, per row";
  let arguments = (ins Moe_Rows:$x, Moe_Vector:$weight, Optional<Moe_Vector>:$bias, F64Attr:$eps);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x `,` $weight (`,` $bias^)? attr-dict `:` type($x) `,` type($weight) (`,` type($bias)^)?
  }];
}

def Moe_LinearOp : Moe_ComputeOp<"linear", [AttrSizedOperandSegments, Moe_ResidualOpInterface]> {
  let summary = "x * weight^T + bias + residual";
  let description = [{
    `weight` is [N, K]; `bias` [N]; `residual` [T, N] is added by the kernel that
    writes the result (moe-fuse puts it there).
    ```mlir
    %y = moe.linear %x, %w residual %r : (tensor<?x2048xf32>, tensor<2048x2048x!moe.q4_k>, tensor<?x2048xf32>) -> tensor<?x2048xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Weight:$weight, Optional<Moe_Vector>:$bias,
                       Optional<Moe_Rows>:$residual);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x `,` $weight (`bias` $bias^)? (`residual` $residual^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Moe_AddOp : Moe_ComputeOp<"add", [SameOperandsAndResultType, Commutative]> {
  let summary = "elementwise sum";
  let arguments = (ins Moe_Rows:$lhs, Moe_Rows:$rhs);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$lhs `,` $rhs attr-dict `:` type($result)";
}

def Moe_GateMulOp : Moe_ComputeOp<"gate_mul", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x * function(gate)";
  let description = [{
    `gate` has the columns of `x`, or fewer: each is then for as many consecutive
    columns, such as those of a head or the whole row.
    ```mlir
    %y = moe.gate_mul %x, %heads {function = #moe.gate<softplus>} : tensor<?x96xf32>, tensor<?x6xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Rows:$gate,
                       DefaultValuedAttr<Moe_GateAttr, "::mlir::moe::Gate::Sigmoid">:$function);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x `,` $gate attr-dict `:` type($x) `,` type($gate)";
}

def Moe_ScaleOp : Moe_ComputeOp<"scale", [AllTypesMatch<["x", "result"]>]> {
  let summary = "factor * x, with a softcap c c * tanh(factor * x / c), clamped to a limit";
  let description = [{
    With a `limit` l above 0 the result is clamped to -l ... l.
  }];
  let arguments = (ins Moe_Rows:$x, F64Attr:$factor,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap,
                       DefaultValuedAttr<F64Attr, "0.0">:$limit);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Moe_PositionScaleOp : Moe_ComputeOp<"position_scale", [AllTypesMatch<["x", "result"]>]> {
  let summary = "x * (1 + slope * ln(1 + floor((position + offset) / length)))";
  let description = [{
    The temperature of attention to long contexts: `position` is that of the
    token in its sequence, from 0.
  }];
  let arguments = (ins Moe_Rows:$x, I64Attr:$length, DefaultValuedAttr<I64Attr, "0">:$offset,
                       F64Attr:$slope);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Moe_EmbedPositionsOp : Moe_ComputeOp<"embed_positions"> {
  let summary = "the rows of a table that positions select";
  let description = [{
    Learned position embeddings. `tokens` are the ids of the step's tokens, of
    which only the number is used.
  }];
  let arguments = (ins Moe_Ids:$tokens, Moe_Weight:$table);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$tokens `,` $table attr-dict `:` functional-type(operands, results)";
}

def Moe_ActivationMulOp : Moe_ComputeOp<"activation_mul", [SameOperandsAndResultType]> {
  let summary = "activation(gate, up) of an FFN, of any two rows; without up, it is 1";
  let arguments = (ins Moe_Rows:$gate, Optional<Moe_Rows>:$up, Moe_ActivationAttr:$activation);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$gate (`,` $up^)? attr-dict `:` type($result)";
}

def Moe_FfnOp : Moe_ComputeOp<"ffn", [AttrSizedOperandSegments, Moe_ResidualOpInterface]> {
  let summary = "dense or shared-expert FFN: down(activation(gate x, up x))";
  let description = [{
    `gate` and `up` are [F, D], `down` is [D, F]; each may have a bias.
    `activation` is silu(g) * u by default; with a `limit` c it is
    silu(min(g, c)) * max(-c, min(u, c)), or if it `clamps_activated` gates,
    min(silu(g), c) * max(-c, min(u, c)). With a `soft_limit` s too it is Kimi K3's
    SiTU, c tanh(g / c) sigmoid(g) * s tanh(u / s). `fused` (set by moe-fuse) asks for the
    kernel that computes it without writing either factor.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Weight:$gate, Moe_Weight:$up, Moe_Weight:$down,
                       Optional<Moe_Vector>:$gate_bias, Optional<Moe_Vector>:$up_bias,
                       Optional<Moe_Vector>:$down_bias, Optional<Moe_Rows>:$residual,
                       DefaultValuedAttr<Moe_ActivationAttr, "::mlir::moe::Activation::Silu">:$activation,
                       DefaultValuedAttr<F64Attr, "0.0">:$limit, UnitAttr:$fused,
                       UnitAttr:$clamps_activated, DefaultValuedAttr<F64Attr, "0.0">:$soft_limit);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x `,` $gate `,` $up `,` $down (`gate_bias` $gate_bias^)? (`up_bias` $up_bias^)?
    (`down_bias` $down_bias^)? (`residual` $residual^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Moe_LmHeadOp : Moe_ComputeOp<"lm_head"> {
  let summary = "logits: x * weight^T";
  let arguments = (ins Moe_Rows:$x, Moe_Weight:$weight);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x `,` $weight attr-dict `:` functional-type(operands, results)";
}

def Moe_TransferOp : Moe_ComputeOp<"transfer", [SameOperandsAndResultType]> {
  let summary = "the same rows on another device";
  let arguments = (ins RankedTensorOf<[AnyType]>:$x, StrAttr:$from, StrAttr:$to);
  let results = (outs RankedTensorOf<[AnyType]>:$result);
  let assemblyFormat = "$x `from` $from `to` $to attr-dict `:` type($x)";
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

def Moe_RopeOp : Moe_ComputeOp<"rope", [AllTypesMatch<["x", "result"]>]> {
  let summary = "rotates rope.dim elements at `offset` of each of `heads` heads";
  let arguments = (ins Moe_Rows:$x, I64Attr:$heads, I64Attr:$offset, Moe_RopeAttr:$rope);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}

def Moe_MlaLatentOp : Moe_ComputeOp<"mla_latent",
    [DeclareOpInterfaceMethods<Moe_CacheOpInterface>]> {
  let summary = "norm of the latent and RoPE of the shared key, appended to the cache";
  let description = [{
    `x` [T, latent + rope] from attn_kv_a_mqa. Row: [rms_norm(x[:latent]) |
    rope(x[latent:])]. The result stands for the cache of `layer` with the rows.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Vector:$weight, I64Attr:$layer, F64Attr:$eps,
                       Moe_RopeAttr:$rope);
  let results = (outs Moe_KvType:$result);
  let assemblyFormat = "$x `,` $weight attr-dict `:` functional-type(operands, results)";
}

def Moe_MlaAttentionOp : Moe_ComputeOp<"mla_attention"> {
  let summary = "multi-head latent attention, by its definition";
  let description = [{
    DeepSeek-V2, arXiv 2405.04434, section 2.1. Keys W_UK c and values W_UV c of
    every cached latent c are decompressed; the rope part of the key is shared
    by all heads. `q` [T, heads * (nope + rope)], already rotated; `wk` [heads,
    nope, latent], or [heads, latent, nope] with `k_transposed`; `wv` [heads,
    value, latent]; result [T, heads * value]. With `chosen` (moe.choose_entries)
    a token sees those blocks of `pool` positions and the positions behind the
    last complete block alone, and no form that decompresses all fits.
  }];
  let arguments = (ins Moe_Rows:$q, Moe_KvType:$kv, Moe_Weight:$wk, Moe_Weight:$wv,
                       Optional<Moe_Ids>:$chosen,
                       I64Attr:$heads, I64Attr:$nope, I64Attr:$rope, I64Attr:$latent,
                       I64Attr:$value, F64Attr:$scale, UnitAttr:$k_transposed,
                       DefaultValuedAttr<I64Attr, "1">:$pool);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $q `,` $kv `,` $wk `,` $wv (`chosen` $chosen^)? attr-dict `:`
    functional-type(operands, results)
  }];
}

def Moe_AbsorbQueryOp : Moe_ComputeOp<"absorb_query"> {
  let summary = "queries in latent space: [W_UK^T q_nope | q_rope] per head";
  let description = [{
    (W_UK c) . q = c . (W_UK^T q): scores against the latent itself, so that
    keys need no decompression. [T, heads * (nope + rope)] becomes
    [T, heads * (latent + rope)].
  }];
  let arguments = (ins Moe_Rows:$q, Moe_Weight:$wk, I64Attr:$heads, I64Attr:$nope,
                       I64Attr:$rope, I64Attr:$latent, UnitAttr:$k_transposed);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$q `,` $wk attr-dict `:` functional-type(operands, results)";
}

def Moe_LatentAttentionOp : Moe_ComputeOp<"latent_attention"> {
  let summary = "attention whose one key-value head is the latent";
  let description = [{
    `q` [T, heads * (latent + rope)]; scores q . [c | k_rope] * scale; result
    [T, heads * latent], the weighted sums of latents.
  }];
  let arguments = (ins Moe_Rows:$q, Moe_KvType:$kv, I64Attr:$heads, I64Attr:$latent,
                       I64Attr:$rope, F64Attr:$scale);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$q `,` $kv attr-dict `:` functional-type(operands, results)";
}

def Moe_ExpandValueOp : Moe_ComputeOp<"expand_value"> {
  let summary = "W_UV times each head's latent output";
  let arguments = (ins Moe_Rows:$x, Moe_Weight:$wv, I64Attr:$heads, I64Attr:$latent,
                       I64Attr:$value);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x `,` $wv attr-dict `:` functional-type(operands, results)";
}

def Moe_AlternativesOp : Moe_Op<"alternatives", [Pure]> {
  let summary = "a value that each device computes in its own way";
  let description = [{
    Operand i is computed on `devices[i]`, by ops with `moe.only_on`, which exist
    only if attention is on one of these. moe-place-devices replaces the result by
    the operand of the device that it chooses, and erases the other ops.
    ```mlir
    %r = moe.alternatives %a, %b {devices = [["gpu0"], ["cpu0"]]} : tensor<?x2048xf32>
    ```
  }];
  let arguments = (ins Variadic<Moe_Rows>:$ways, ArrayAttr:$devices);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$ways attr-dict `:` functional-type($ways, $result)";
}

def Moe_KvStoreOp : Moe_ComputeOp<"kv_store",
    [DeclareOpInterfaceMethods<Moe_CacheOpInterface>]> {
  let summary = "keys and values appended to the cache";
  let description = [{
    `k` [T, kv_heads * key], after norm and RoPE, and `v` [T, kv_heads * value].
    A row of the cache has the parts of each head in blocks of their own
    (kernels/KvCache.h). The result stands for the cache of `layer` with the rows.
  }];
  let arguments = (ins Moe_Rows:$k, Moe_Rows:$v, I64Attr:$layer, I64Attr:$kv_heads);
  let results = (outs Moe_KvType:$result);
  let assemblyFormat = "$k `,` $v attr-dict `:` functional-type(operands, results)";
}

def Moe_GqaAttentionOp : Moe_ComputeOp<"gqa_attention"> {
  let summary = "attention whose heads share keys and values in groups";
  let description = [{
    Grouped-query attention, arXiv 2305.13245: query head h reads key-value head
    h / (heads / kv_heads). `q` [T, heads * key], result [T, heads * value].
    Scores are q . k * scale, with a `softcap` c c * tanh(score / c). With a
    `window` w token t sees t - w + 1 ... t, otherwise all up to t. `sinks`
    [heads] are one score more of each head, which has no value.
  }];
  let arguments = (ins Moe_Rows:$q, Moe_KvType:$kv, Optional<Moe_Vector>:$sinks,
                       I64Attr:$heads, I64Attr:$kv_heads, I64Attr:$key, I64Attr:$value,
                       F64Attr:$scale, DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $q `,` $kv (`sinks` $sinks^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_RowStoreOp : Moe_ComputeOp<"row_store",
    [DeclareOpInterfaceMethods<Moe_CacheOpInterface, ["getCachePart"]>]> {
  let summary = "rows appended to a cache as they are";
  let description = [{
    `part` tells the caches of a layer apart: attention reads cache 0, an indexer
    reads cache 1. With a `ratio`, only the rows of tokens that end as many are
    stored. The result stands for the cache with the rows.
  }];
  let arguments = (ins Moe_Rows:$x, I64Attr:$layer, DefaultValuedAttr<I64Attr, "0">:$part,
                       DefaultValuedAttr<I64Attr, "1">:$ratio);
  let results = (outs Moe_KvType:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Moe_ChooseEntriesOp : Moe_ComputeOp<"choose_entries", [AttrSizedOperandSegments]> {
  let summary = "the entries of a cache that a token attends to, chosen by a lightning indexer";
  let description = [{
    DeepSeek-V3.2, arXiv 2512.02556. Among the entries e that token t sees (each
    for `ratio` positions: kernels/Entries.h), the op chooses the `top_k` with
    the largest scale * sum over heads of weights[t][h] * relu(q[t][h] . row of
    e); of equal scores, the lower entry wins. `q` is [T, heads * key], `weights`
    [T, heads] or absent (all 1), a row of `kv` has `key` elements, and the result
    is [T, top_k].

    With `blocks`, a second result [T, blocks] has the blocks of `block` entries
    before the token's own whose largest scores are largest. A choice `within`
    these and the token's own block sees no other entries.
  }];
  let arguments = (ins Moe_Rows:$q, Optional<Moe_Rows>:$weights, Moe_KvType:$kv,
                       Optional<Moe_Ids>:$within, I64Attr:$heads,
                       I64Attr:$key, I64Attr:$top_k, F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "1">:$ratio,
                       DefaultValuedAttr<I64Attr, "0">:$block);
  let results = (outs Moe_Ids:$result, Optional<Moe_Ids>:$blocks);
  let assemblyFormat = [{
    $q `,` $kv (`weights` $weights^)? (`within` $within^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// Returns the number of scores of a token: one for each entry, or block of
    /// entries, of the longest context.
    int64_t getScores();
    int64_t getBlockScores();
  }];
  let builders = [OpBuilder<(ins "Type":$result, "Value":$q, "Value":$weights, "Value":$kv,
                                 "uint64_t":$heads, "uint64_t":$key, "uint64_t":$top_k,
                                 "llvm::APFloat":$scale, CArg<"uint64_t", "1">:$ratio), [{
    build($_builder, $_state, result, Type(), q, weights, kv, Value(), heads, key, top_k, scale, ratio);
  }]>];
}

def Moe_ChooseBlocksOp : Moe_ComputeOp<"choose_blocks"> {
  let summary = "the blocks of positions that a token attends to, chosen by an indexer for each group of heads";
  let description = [{
    Of the blocks of `ratio` positions before the `local` last ones, of which the
    last is the token's own, each of `groups` groups chooses the `top_k` whose
    largest product of the group's query and a key is largest; of equal ones,
    the lower block wins. `q` is [T, groups * key], a row of `kv` has `key`
    elements, and the result is [T, groups * top_k].
  }];
  let arguments = (ins Moe_Rows:$q, Moe_KvType:$kv, I64Attr:$groups, I64Attr:$key,
                       I64Attr:$top_k, I64Attr:$ratio, I64Attr:$local);
  let results = (outs Moe_Ids:$result);
  let assemblyFormat = "$q `,` $kv attr-dict `:` functional-type(operands, results)";
}

def Moe_BlockAttentionOp : Moe_ComputeOp<"block_attention"> {
  let summary = "attention to chosen blocks of positions and to the last ones";
  let description = [{
    moe.gqa_attention to the blocks of `ratio` positions in `chosen`
    [T, groups * top_k], of one group of heads or of one for each of `kv_heads`,
    and to all positions that could not be chosen: the `local` last blocks, or
    with local = 0 the positions behind the last complete block.
  }];
  let arguments = (ins Moe_Rows:$q, Moe_KvType:$kv, Moe_Ids:$chosen, I64Attr:$heads,
                       I64Attr:$kv_heads, I64Attr:$key, I64Attr:$value, F64Attr:$scale,
                       I64Attr:$groups, I64Attr:$ratio, I64Attr:$local);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$q `,` $kv `,` $chosen attr-dict `:` functional-type(operands, results)";
  let extraClassDeclaration = [{
    int64_t getTopK();
    /// Returns the number of positions after which a token sees no additional
    /// rows.
    int64_t getMostPositions();
  }];
}

def Moe_SparseAttentionOp : Moe_ComputeOp<"sparse_attention", [AttrSizedOperandSegments]> {
  let summary = "attention to a window of rows and to entries";
  let description = [{
    All heads share rows of `key` elements, the first `value` of which are the
    value. A token sees the last `window` rows of `kv`. It also sees `entries`,
    each for `ratio` positions: all entries before it, or those in `chosen`. These
    are numbers of blocks of `pool` entries; entries behind the last complete
    block are always seen. `q` is [T, heads * key], the result [T, heads * value];
    `sinks` are those of moe.gqa_attention.
  }];
  let arguments = (ins Moe_Rows:$q, Optional<Moe_KvType>:$kv, Optional<Moe_KvType>:$entries,
                       Optional<Moe_Ids>:$chosen, Optional<Moe_Vector>:$sinks,
                       I64Attr:$heads, I64Attr:$key, I64Attr:$value, F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<I64Attr, "0">:$ratio,
                       DefaultValuedAttr<I64Attr, "1">:$pool);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $q (`kv` $kv^)? (`entries` $entries^)? (`chosen` $chosen^)? (`sinks` $sinks^)? attr-dict `:`
    functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    /// Returns the number of positions after which a token sees no additional
    /// rows; 0 if every earlier position stays visible.
    int64_t getMostPositions();
  }];
}

def Moe_CompressOp : Moe_ComputeOp<"compress",
    [AttrSizedOperandSegments, DeclareOpInterfaceMethods<Moe_StateOpInterface, ["getStatePart"]>]> {
  let summary = "the values of `ratio` tokens as one";
  let description = [{
    Each column is the sum of `kv` weighted by the softmax of `gate` + `ape`, or of
    `gate`, over the tokens of an entry, or their mean without gates; with `overlap`, `kv` and
    `gate` have two of each column (Compress in kernels/Ops.def). The entry is in
    the row of its last token; other rows are undefined. `part` tells the states
    of a layer apart.
  }];
  let arguments = (ins Moe_Rows:$kv, Optional<Moe_Rows>:$gate, Optional<Moe_Vectors>:$ape,
                       I64Attr:$layer, I64Attr:$part, I64Attr:$ratio, UnitAttr:$overlap);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $kv (`gate` $gate^)? (`ape` $ape^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_EntryStoreOp : Moe_ComputeOp<"entry_store",
    [DeclareOpInterfaceMethods<Moe_CacheOpInterface, ["getCachePart"]>]> {
  let summary = "norm and RoPE of complete entries, appended to a cache";
  let description = [{
    The row of the last token of each entry of `ratio` tokens is normalised, and
    its elements before the last `tail` ones are rotated by the position of the
    first token.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Vector:$weight, I64Attr:$layer, I64Attr:$part,
                       I64Attr:$ratio, F64Attr:$eps, Moe_RopeAttr:$rope,
                       DefaultValuedAttr<I64Attr, "0">:$tail);
  let results = (outs Moe_KvType:$result);
  let assemblyFormat = "$x `,` $weight attr-dict `:` functional-type(operands, results)";
}

//===----------------------------------------------------------------------===//
// Residual streams
//===----------------------------------------------------------------------===//

def Moe_HyperWeightsOp : Moe_ComputeOp<"hyper_weights", [AllTypesMatch<["x", "result"]>]> {
  let summary = "the weights with which a part reads residual streams, writes them and mixes them";
  let description = [{
    Hyper-connections, arXiv 2409.19606, with a doubly stochastic matrix; formulas
    at HyperWeights in kernels/Ops.def. `x` [T, streams + streams +
    streams^2], or [T, streams] for what is only read.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Vector:$scale, Moe_Vector:$base, I64Attr:$streams,
                       I64Attr:$iterations, F64Attr:$eps);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x `,` $scale `,` $base attr-dict `:` functional-type(operands, results)";
}

def Moe_HyperCollapseOp : Moe_ComputeOp<"hyper_collapse"> {
  let summary = "the weighted sum of streams that a part reads, or without weights their mean";
  let arguments = (ins Moe_Rows:$x, Optional<Moe_Rows>:$weights, I64Attr:$streams);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x (`,` $weights^)? attr-dict `:` functional-type(operands, results)";
}

def Moe_HyperSpreadOp : Moe_ComputeOp<"hyper_spread", [AttrSizedOperandSegments]> {
  let summary = "the streams mixed, plus the output of a part; or a copy of that output for each stream";
  let arguments = (ins Moe_Rows:$y, Optional<Moe_Rows>:$x, Optional<Moe_Rows>:$weights,
                       I64Attr:$streams);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $y (`into` $x^)? (`by` $weights^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_ResidualMixOp : Moe_ComputeOp<"residual_mix", [AllTypesMatch<["x", "result"]>]> {
  let summary = "the residual stream mixed with earlier states of it, by attention over depth";
  let description = [{
    Kimi K3. `stack` [T, n * D] has n earlier rows of each token. The result is
    the sum of x and these, weighted by the softmax of the products of `weight`
    [D] and each row / sqrt(mean of squares + eps).
    ```mlir
    %y = moe.residual_mix %x, %stack, %w {eps = 1.0e-05 : f64} : tensor<?x64xf32>, tensor<?x128xf32>, tensor<64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Rows:$stack, Moe_Vector:$weight, F64Attr:$eps);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x `,` $stack `,` $weight attr-dict `:` type($x) `,` type($stack) `,` type($weight)
  }];
}

def Moe_ConcatOp : Moe_ComputeOp<"concat"> {
  let summary = "the columns of one value, then those of another";
  let arguments = (ins Moe_Rows:$x, Moe_Rows:$y);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x `,` $y attr-dict `:` functional-type(operands, results)";
}

def Moe_RegroupOp : Moe_ComputeOp<"regroup"> {
  let summary = "columns by group to columns by part";
  let description = [{
    `x` is [T, groups * width]. The columns of each group from `offset` on are
    divided into `parts`; the result has the first part of all groups, then the
    second part of all, then the third.
    ```mlir
    %q = moe.regroup %x {groups = 4 : i64, offset = 0 : i64, parts = array<i64: 16>} : (tensor<?x128xf32>) -> tensor<?x64xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$x, I64Attr:$groups, I64Attr:$offset, DenseI64ArrayAttr:$parts);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$x attr-dict `:` functional-type(operands, results)";
}

def Moe_ShortConvOp : Moe_ComputeOp<"short_conv",
    [AllTypesMatch<["x", "result"]>, DeclareOpInterfaceMethods<Moe_StateOpInterface, ["getStatePart"]>]> {
  let summary = "causal convolution of each column with its last inputs";
  let description = [{
    y[t] = bias + sum over j < taps of conv[:, j] * x[t - (taps - 1 - j) *
    dilation], with zeros before a sequence's first row; with `silu`, its SiLU.
    `conv` is [columns, taps]. The layer keeps (taps - 1) * dilation rows of x of
    each sequence; `part` tells the states of a layer apart.
    ```mlir
    %y = moe.short_conv %x conv %w {layer = 0 : i64} : (tensor<?x72xf32>, tensor<72x3xf32>) -> tensor<?x72xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Vectors:$conv, Optional<Moe_Vector>:$bias, I64Attr:$layer,
                       DefaultValuedAttr<I64Attr, "0">:$part,
                       DefaultValuedAttr<I64Attr, "1">:$dilation, UnitAttr:$silu);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x `conv` $conv (`bias` $bias^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_DeltaNetOp : Moe_ComputeOp<"delta_net",
    [AttrSizedOperandSegments, DeclareOpInterfaceMethods<Moe_StateOpInterface>]> {
  let summary = "recurrent layer: convolution, gates and the delta rule";
  let description = [{
    arXiv 2412.06464. `x` [T, 2 * key_heads * key + heads * value]: queries, keys
    and values before the causal convolution of each column with its last
    inputs, `conv` [columns, taps] and `bias`, and SiLU; or three parts of equal
    width, each with its `conv`. `beta` and `alpha` [T, heads]; a head writes with
    sigmoid(beta) and forgets with exp(a * softplus(alpha + dt)), or with a
    `floor` below 0, exp(floor * sigmoid(|a| * (alpha + dt))). With alpha and dt
    for each of heads * key channels, each row of a head's matrix has a decay of
    its own (KDA, arXiv 2510.26692). Value head h has the key of head
    h / (heads / key_heads), `tiled` of head h % key_heads (kernels/Ops.def,
    DeltaRule). With `sums` it is Mamba 2 (arXiv 2405.21060): x is values, keys
    and queries, there is no beta, a head writes with softplus(alpha + dt), and
    `skip` [heads] times the value is added to the result. Result
    [T, heads * value]. The layer keeps of a sequence taps - 1 rows of x and a
    matrix per head.
  }];
  let arguments = (ins Variadic<Moe_Rows>:$x, Optional<Moe_Rows>:$beta, Moe_Rows:$alpha,
                       Variadic<Moe_Vectors>:$conv, Optional<Moe_Vector>:$bias,
                       Moe_Vector:$a, Moe_Vector:$dt, Optional<Moe_Vector>:$skip, I64Attr:$layer,
                       I64Attr:$key_heads, I64Attr:$heads, I64Attr:$key, I64Attr:$value, F64Attr:$eps,
                       DefaultValuedAttr<F64Attr, "0.0">:$floor, UnitAttr:$tiled, UnitAttr:$sums);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x (`beta` $beta^)? `alpha` $alpha `conv` $conv (`bias` $bias^)? `decay` $a `,` $dt
    (`skip` $skip^)? attr-dict `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// Experts
//===----------------------------------------------------------------------===//

def Moe_RouterOp : Moe_ComputeOp<"router", [AttrSizedOperandSegments]> {
  let summary = "the experts that serve a token, and their mixing weights";
  let description = [{
    DeepSeek-V3, arXiv 2412.19437, section 2.1.2. Scores are `scoring` of x *
    weight^T + logit_bias. `bias` shifts the selection only. With groups > 1 the
    best `groups_used` groups (by the sum of their `group_best` best biased
    scores) stay eligible. Mixing weights are the unbiased scores of the `top_k`
    selected, normalised if `normalize`, times `scale` and the expert's own
    `expert_scale`.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Weight:$weight, Optional<Moe_Vector>:$logit_bias,
                       Optional<Moe_Vector>:$bias, Optional<Moe_Vector>:$expert_scale,
                       I64Attr:$top_k, Moe_ScoringAttr:$scoring,
                       DefaultValuedAttr<I64Attr, "1">:$groups,
                       DefaultValuedAttr<I64Attr, "1">:$groups_used,
                       DefaultValuedAttr<I64Attr, "1">:$group_best,
                       UnitAttr:$normalize, DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Moe_Ids:$ids, Moe_Rows:$weights);
  let assemblyFormat = [{
    $x `,` $weight (`logit_bias` $logit_bias^)? (`bias` $bias^)?
    (`expert_scale` $expert_scale^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_HashRouterOp : Moe_ComputeOp<"hash_router"> {
  let summary = "a router whose choice is a table's row for the token";
  let description = [{
    `table` is [vocabulary, top_k]. Weights are those of a `moe.router`.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Ids:$tokens, Moe_Weight:$weight, Moe_Weight:$table,
                       Optional<Moe_Vector>:$expert_scale,
                       Moe_ScoringAttr:$scoring, UnitAttr:$normalize,
                       DefaultValuedAttr<F64Attr, "1.0">:$scale);
  let results = (outs Moe_Ids:$ids, Moe_Rows:$weights);
  let assemblyFormat = [{
    $x `,` $tokens `,` $weight `table` $table (`expert_scale` $expert_scale^)? attr-dict `:` functional-type(operands, results)
  }];
}

def Moe_SplitChoicesOp : Moe_ComputeOp<"split_choices"> {
  let summary = "a token's choices with the largest weights, and the others";
  let description = [{
    `ids`, `weights` [T, k] of a router of `experts` become [T, k - n] with the
    largest weights, in falling order, and [T, n] with the rest.
    ```mlir
    %a, %wa, %b, %wb = moe.split_choices %ids, %w {experts = 64 : i64} : (tensor<?x6xi32>, tensor<?x6xf32>) -> (tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x2xi32>, tensor<?x2xf32>)
    ```
  }];
  let arguments = (ins Moe_Ids:$ids, Moe_Rows:$weights, I64Attr:$experts);
  let results = (outs Moe_Ids:$first_ids, Moe_Rows:$first_weights,
                      Moe_Ids:$last_ids, Moe_Rows:$last_weights);
  let assemblyFormat = "$ids `,` $weights attr-dict `:` functional-type(operands, results)";
}

def Moe_ExpertsOp : Moe_ComputeOp<"experts", [AttrSizedOperandSegments, Moe_ResidualOpInterface]> {
  let summary = "routed FFN: sum over a token's experts of weight * ffn(x)";
  let description = [{
    `gate`, `up` [E, F, D], `down` [E, D, F], each with a bias [E, F or D] or
    none; `ids`, `weights` [T, k]. `activation`, `limit`, `soft_limit`, `clamps_activated` and `fused` as in
    `moe.ffn`.
    `gate_scale` and `up_scale` [E, 1] multiply the product with an expert's
    matrix: formats such as NVFP4 need them, as their elements have few bits for a
    scale. The scale of `down` is the router's `expert_scale`.
    With a `slice` the weights are those of some experts, and the sum is over the
    choices of these. If a layer's experts are on several devices, each device has
    an op, and moe.add joins their results in the order of the slices.
  }];
  let arguments = (ins Moe_Rows:$x, Moe_Ids:$ids, Moe_Rows:$weights, Moe_Weight:$gate,
                       Moe_Weight:$up, Moe_Weight:$down, Optional<Moe_Vectors>:$gate_bias,
                       Optional<Moe_Vectors>:$up_bias, Optional<Moe_Vectors>:$down_bias,
                       Optional<Moe_Vectors>:$gate_scale, Optional<Moe_Vectors>:$up_scale,
                       Optional<Moe_Rows>:$residual,
                       DefaultValuedAttr<Moe_ActivationAttr, "::mlir::moe::Activation::Silu">:$activation,
                       DefaultValuedAttr<F64Attr, "0.0">:$limit,
                       OptionalAttr<Moe_ExpertSliceAttr>:$slice, UnitAttr:$fused,
                       UnitAttr:$clamps_activated, DefaultValuedAttr<F64Attr, "0.0">:$soft_limit);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = [{
    $x `,` $ids `,` $weights `,` $gate `,` $up `,` $down (`gate_bias` $gate_bias^)?
    (`up_bias` $up_bias^)? (`down_bias` $down_bias^)? (`gate_scale` $gate_scale^)?
    (`up_scale` $up_scale^)? (`residual` $residual^)? attr-dict `:` functional-type(operands, results)
  }];
  let extraClassDeclaration = [{
    bool hasScales() { return getGateScale() || getUpScale(); }
  }];
}

//===----------------------------------------------------------------------===//
// N-grams
//===----------------------------------------------------------------------===//

def Moe_NgramEmbedOp : Moe_ComputeOp<"ngram_embed",
    [DeclareOpInterfaceMethods<Moe_CacheOpInterface, ["getCachePart", "isExact"]>,
     DeclareOpInterfaceMethods<Moe_FileRowsOpInterface>]> {
  let summary = "rows of a table that hashes of n-grams select";
  let description = [{
    For each of 2 to n tokens that end with the row's token, the hash is the
    exclusive or of the products of each with its multiplier, the latest first;
    n is the number of `multipliers`. A row is a hash modulo one of `moduli`,
    plus one of `offsets`: those of two tokens first. The result has the rows'
    columns one after the other. `pad` stands for tokens before the first, and
    with `ends` also for all before a token that is `pad`. With `map`, map[id]
    stands for a token. Numbers have 64 bits.

    The table stays in the model file. `history` keeps what stood for each token.
    ```mlir
    %x, %h = moe.ngram_embed %tokens, %table {layer = 1 : i64, part = 3 : i64, pad = 7 : i64, ends,
      multipliers = array<i64: 31, 37>, moduli = array<i64: 11>, offsets = array<i64: 0>}
      : (tensor<?xi32>, tensor<11x12xf32>) -> (tensor<?x12xf32>, !moe.kv<1, f32>)
    ```
  }];
  let arguments = (ins Moe_Ids:$tokens, Moe_Weight:$table, I64Attr:$layer, I64Attr:$part,
                       DenseI64ArrayAttr:$multipliers, DenseI64ArrayAttr:$moduli,
                       DenseI64ArrayAttr:$offsets, OptionalAttr<DenseI64ArrayAttr>:$map,
                       I64Attr:$pad, UnitAttr:$ends);
  let results = (outs Moe_Rows:$result, Moe_KvType:$history);
  let assemblyFormat = "$tokens `,` $table attr-dict `:` functional-type(operands, results)";
}

def Moe_GateStreamsOp : Moe_ComputeOp<"gate_streams", [AllTypesMatch<["q", "k", "result"]>]> {
  let summary = "a value for each residual stream, gated by the product of query and key";
  let description = [{
    `q` and `k` have a row of `value`'s width for each of `streams` streams. With
    score = q k^T / sqrt(width), a stream's part of the result is
    sigmoid(sign(score) * sqrt(max(|score|, 1e-6))) * value.
    ```mlir
    %g = moe.gate_streams %q, %k, %v {streams = 3 : i64} : tensor<?x144xf32>, tensor<?x48xf32>
    ```
  }];
  let arguments = (ins Moe_Rows:$q, Moe_Rows:$k, Moe_Rows:$value, I64Attr:$streams);
  let results = (outs Moe_Rows:$result);
  let assemblyFormat = "$q `,` $k `,` $value attr-dict `:` type($q) `,` type($value)";
}

#endif // MOE_DIALECTS_MOE_OPS_TD
