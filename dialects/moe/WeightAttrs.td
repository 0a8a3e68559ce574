//===- WeightAttrs.td - The kinds of weights --------------------*- tablegen -*-===//

#ifndef MOE_DIALECTS_MOE_WEIGHTATTRS_TD
#define MOE_DIALECTS_MOE_WEIGHTATTRS_TD

include "dialects/moe/MoeDialect.td"
include "dialects/moe/WeightInterfaces.td"
include "mlir/IR/AttrTypeBase.td"

class Moe_WeightSource<string name, string mnemonic_, list<string> methods = []>
    : AttrDef<Moe_Dialect, name, [
          DeclareAttrInterfaceMethods<Moe_WeightSourceInterface, methods>]> {
  let mnemonic = mnemonic_;
}

def Moe_FileTensorAttr : Moe_WeightSource<"FileTensor", "tensor", ["locate"]> {
  let summary = "a tensor of the model file";
  let description = [{
    `#moe.tensor<file = 0, offset = 4096>`: the index into the module's
    `moe.files`, and the offset in that file. The tensor has the name of the
    weight's symbol, and its size follows from the type.
  }];
  let parameters = (ins "int64_t":$file, "int64_t":$offset);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Moe_WeightSliceAttr : Moe_WeightSource<"WeightSlice", "slice", ["locate", "keepsWholePart"]> {
  let summary = "a view of consecutive matrices, rows or elements of a weight";
  let description = [{
    `#moe.slice<dim = 0, begin = 16>`: along dimension `dim` of the part, as many
    as the weight's type has, from `begin` on. The dimension is that of the rows
    or of the matrices, or the only one of a vector. No byte moves.

    Slices along rows are parts of tensors that a file fuses. Slices along
    matrices are the experts of a layer that one device holds; memory counts
    them alone.
  }];
  let parameters = (ins "int64_t":$dim, "int64_t":$begin);
  let assemblyFormat = "`<` struct(params) `>`";
}

def Moe_StackAttr : Moe_WeightSource<"Stack", "stack"> {
  let summary = "matrices or rows of several weights in one";
  let description = [{
    `#moe.stack`: the parts are matrices [rows, columns] or weights of several
    such matrices, one after the other; or the rows of one matrix. Packing copies
    parts of the result's format and converts the others. Files with a tensor per
    expert need this, and so does a device that holds some experts of a layer.
  }];
}

def Moe_TransposeAttr : Moe_WeightSource<"Transpose", "transpose"> {
  let summary = "matrices of a weight transposed, computed when weights are packed";
  let description = [{
    `#moe.transpose`: [N, R, C] becomes [N, C, R]. Blocks run along rows, so those
    of a quantised weight are not kept: the result has its own format.
  }];
}

def Moe_FoldQueryAttr : Moe_WeightSource<"FoldQuery", "fold_query"> {
  let summary = "W_UK multiplied into W_Q, computed when weights are packed";
  let description = [{
    `#moe.fold_query<heads = 16, nope = 128, rope = 64, latent = 512>`: the parts
    are W_Q [heads * (nope + rope), K] and W_UK [heads, nope, latent], or [heads,
    latent, nope] with `k_transposed`. The result [heads * (latent + rope), K]
    holds, per head, W_UK^T W_Qnope and then the rope rows of W_Q unchanged.
  }];
  let parameters = (ins "int64_t":$heads, "int64_t":$nope, "int64_t":$rope, "int64_t":$latent,
                        DefaultValuedParameter<"bool", "false">:$k_transposed);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

#endif // MOE_DIALECTS_MOE_WEIGHTATTRS_TD
