// RUN: moe-opt %s -split-input-file -plan-pack-weights | FileCheck %s
// RUN: moe-opt %s -split-input-file -plan-pack-weights=all | FileCheck %s --check-prefix=ALL

// What is computed or laid out anew is written in the program's order, at cache
// lines; what it is made of goes. Weights of the model stay where they are.
// CHECK: plan.packing bytes 3584 {
// CHECK-NEXT: %[[M:.*]] = plan.file model "m"
// CHECK-NEXT: %[[W:.*]] = plan.weight "w" in %[[M]] at 128
// CHECK-NEXT: plan.packed "w" of %[[W]] layout rows16 at 0
// CHECK-NEXT: %[[T:.*]] = plan.derived "w.transposed" = #moe.transpose of %[[W]] : 3x32x5xF32
// CHECK-NEXT: plan.packed "w.transposed" of %[[T]] layout gguf at 1664
// CHECK-NEXT: }
// CHECK: plan.program
// CHECK: %[[GGUF:.*]] = plan.file model "m"
// CHECK-NEXT: %[[FILE:.*]] = plan.file packed "" bytes 3584 header 0 hash ""
// CHECK-NEXT: %[[WP:.*]] = plan.weight "w" in %[[FILE]] at 0 : 3x5x32xQ8_0 strides [544, 34] layout rows16
// CHECK-NEXT: %[[WT:.*]] = plan.weight "w.transposed" in %[[FILE]] at 1664 : 3x32x5xF32 strides [640, 20]
// CHECK-NEXT: %[[S:.*]] = plan.weight "s" in %[[GGUF]] at 1024
// CHECK-NEXT: plan.resident %[[WP]] on
// CHECK: w = %[[WP]],
// CHECK: w = %[[WT]],
// CHECK: w = %[[S]],

// Every weight that is read is copied, so that the model file is not needed.
// ALL: plan.packing bytes 3616 {
// ALL: plan.packed "w" of %{{.*}} layout rows16 at 0
// ALL: plan.packed "w.transposed" of %{{.*}} layout gguf at 1664
// ALL: plan.packed "s" of %{{.*}} layout gguf at 3584
// ALL-NOT: plan.packed
// ALL: plan.program
// ALL-NOT: plan.file model
// ALL: plan.weight "s" in %{{.*}} at 3584 : 1x2x4xF32 strides [32, 16]
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000
  %queue = plan.queue compute of %cpu0
  %m = plan.file model "m" bytes 100000000 header 64 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %m at 128 : 3x5x32xQ8_0 strides [204, 34]
  %p = plan.pack "w" of %w layout rows16
  %t = plan.derived "w.transposed" = #moe.transpose of %w : 3x32x5xF32
  %s = plan.weight "s" in %m at 1024 : 1x2x4xF32 strides [48, 16]
  %unread = plan.weight "unread" in %m at 2048 : 1x2x4xF32 strides [32, 16]
  plan.resident %p on %cpu0 resident
  %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 4 rows [1, 0] at 0
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %p, out = %x) {accumulate = 0} for %e
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %t, out = %x) {accumulate = 0} for %e
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %s, out = %x) {accumulate = 0} for %e
    plan.bind input %x output %x
  }
}

// -----

// Without anything to write the program stays as it is.
// CHECK-NOT: plan.packing
// CHECK: plan.program
// CHECK-NOT: plan.file packed
// CHECK: plan.weight "w" in %{{.*}} at 128 : 1x2x4xF32
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000
  %queue = plan.queue compute of %cpu0
  %m = plan.file model "m" bytes 100000000 header 64 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %m at 128 : 1x2x4xF32 strides [32, 16]
  %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 4 rows [1, 0] at 0
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %w, out = %x) {accumulate = 0} for %e
    plan.bind input %x output %x
  }
}

// -----

// Programs of a module, such as rungs of a ladder, share what has equal bytes;
// a weight of the same name with other bytes is one of its own. Those of a huge
// page or more begin at pages.
// CHECK: plan.packing bytes 4198400 {
// CHECK: plan.packed "w" of %{{.*}} layout rows16 at 0
// CHECK: plan.packed "a.chosen" of %{{.*}} layout gguf at 576
// CHECK: plan.packed "a.chosen" of %{{.*}} layout gguf at 4096
// CHECK-NOT: plan.packed
// CHECK: plan.program
// CHECK: plan.file packed "" bytes 4198400
// CHECK-NEXT: plan.weight "w" in %{{.*}} at 0 :
// CHECK-NEXT: plan.weight "a.chosen" in %{{.*}} at 576 :
// CHECK: plan.program
// CHECK: plan.file packed "" bytes 4198400
// CHECK-NEXT: plan.weight "w" in %{{.*}} at 0 :
// CHECK-NEXT: plan.weight "a.chosen" in %{{.*}} at 4096 :
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000
  %queue = plan.queue compute of %cpu0
  %m = plan.file model "m" bytes 100000000 header 64 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %m at 128 : 1x5x32xQ8_0 strides [204, 34]
  %p = plan.pack "w" of %w layout rows16
  %a = plan.weight "a.0-0" in %m at 1024 : 1x2x4xF32 strides [32, 16]
  %c = plan.derived "a.chosen" = #moe.stack of %a : 1x2x4xF32
  %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 4 rows [1, 0] at 0
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %p, out = %x) {accumulate = 0} for %e
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %c, out = %x) {accumulate = 0} for %e
    plan.bind input %x output %x
  }
}
plan.program attributes {
    architecture = "", compiler = "", context = 64 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 1 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %cpu0 = plan.device "cpu0" cpu isa "avx2" memory 1000
  %queue = plan.queue compute of %cpu0
  %m = plan.file model "m" bytes 100000000 header 64 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %m at 128 : 1x5x32xQ8_0 strides [204, 34]
  %p = plan.pack "w" of %w layout rows16
  %a = plan.weight "a.1-1" in %m at 1088 : 1x1024x1024xF32 strides [4194304, 4096]
  %c = plan.derived "a.chosen" = #moe.stack of %a : 1x1024x1024xF32
  %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 1 {
    %x = plan.buffer "x" on %cpu0 f32 cols 4 rows [1, 0] at 0
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %p, out = %x) {accumulate = 0} for %e
    plan.inst linear on %queue ["l", "g"] (act = %x, w = %c, out = %x) {accumulate = 0} for %e
    plan.bind input %x output %x
  }
}
