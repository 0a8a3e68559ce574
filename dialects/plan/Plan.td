//===- Plan.td - Everything of the dialect, for tablegen --------*- tablegen -*-===//

include "dialects/plan/PlanOps.td"
