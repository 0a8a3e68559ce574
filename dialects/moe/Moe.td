//===- Moe.td - Everything of the dialect, for tablegen ---------*- tablegen -*-===//

include "dialects/moe/MoeOps.td"
