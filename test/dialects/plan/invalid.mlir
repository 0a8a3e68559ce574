// RUN: moe-opt %s --split-input-file --verify-diagnostics

// A header longer than its file.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected 0 <= header <= bytes, found header 9 of 8 bytes}}
  %f = plan.file model "a" bytes 8 header 9 hash "0123456789abcdef0123456789abcdef"
}

// -----

// An invalid hash.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected a hash of 32 lower-case hex digits, found 'xyz'}}
  %f = plan.file model "a" bytes 8 header 8 hash "xyz"
}

// -----

// An invalid hash of samples.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected a hash of samples of 32 lower-case hex digits, found '0123'}}
  %f = plan.file packed "/a/b" bytes 8 header 8 hash "0123456789abcdef0123456789abcdef" samples "0123"
}

// -----

// An invalid checksum.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected a checksum of 16 lower-case hex digits, found '0123456789ABCDEF'}}
  %w = plan.weight "w" in %f at 0 : 1x2x32xF32 strides [256, 128] checksum "0123456789ABCDEF"
}

// -----

// An unknown format.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected a layout for rows of 32 F32 elements, found rows16}}
  %w = plan.weight "w" in %f at 0 : 1x2x32xF32 strides [256, 128] layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected a row stride of 34 bytes in layout rows16, found 36}}
  %w = plan.weight "w" in %f at 0 : 1x2x32xQ8_0 strides [576, 36] layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // A second matrix begins after the first one's last panel.
  // expected-error @+1 {{expected an outer stride of at least 544 bytes, found 68}}
  %w = plan.weight "w" in %f at 0 : 2x2x32xQ8_0 strides [68, 34] layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected bytes inside the file's 4096, found offset 3584 and end 4128}}
  %w = plan.weight "w" in %f at 3584 : 1x2x32xQ8_0 strides [68, 34] layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x2x32xF32 strides [256, 128]
  // expected-error @+1 {{expected a layout for rows of 32 F32 elements, found rows16}}
  %p = plan.pack "w" of %w layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x2x32xQ8_0 strides [68, 34]
  // expected-error @+1 {{expected a layout other than the model file's}}
  %p = plan.pack "w" of %w layout gguf
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x2x32xQ8_0 strides [68, 34] layout rows16
  // expected-error @+1 {{expected rows in layout gguf, found rows16}}
  %p = plan.pack "w" of %w layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x2x32xQ8_0 strides [68, 34]
  %p = plan.pack "w" of %w layout rows16
  // expected-error @+1 {{expected rows in layout gguf, found rows16}}
  %q = plan.pack "w" of %p layout rows16
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected a tensor format, found 'Q9_X'}}
  %w = plan.weight "w" in %f at 0 : 1x1x256xQ9_X strides [0, 0]
}

// -----

// Rows that are not whole blocks.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected columns in blocks of 256 for Q4_K, found 128}}
  %w = plan.weight "w" in %f at 0 : 1x1x128xQ4_K strides [144, 144]
}

// -----

// Rows that overlap.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected a row stride of at least 16 bytes, found 8}}
  %w = plan.weight "w" in %f at 0 : 1x2x4xF32 strides [16, 8]
}

// -----

// Matrices that overlap.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected an outer stride of at least 32 bytes, found 16}}
  %w = plan.weight "w" in %f at 0 : 2x2x4xF32 strides [16, 16]
}

// -----

// Bytes outside the file.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected bytes inside the file's 4096, found offset 4088 and end 4104}}
  %w = plan.weight "w" in %f at 4088 : 1x1x4xF32 strides [16, 16]
}

// -----

// A shape needs three sizes.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  // expected-error @+1 {{expected outer x rows x cols, found 2 sizes}}
  %w = plan.weight "w" in %f at 0 : 1x4xF32 strides [16, 16]
}

// -----

// Folding keeps all heads.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %q = plan.weight "q" in %f at 0 : 1x24x4xF32 strides [384, 16]
  %k = plan.weight "k" in %f at 512 : 2x8x4xF32 strides [128, 16]
  // expected-error @+1 {{"w": expected a result of shape [1, heads * (latent + rope), inputs] = [1, 16, 4], got [1, 15, 4]}}
  %w = plan.derived "w" = #moe.fold_query<heads = 2, nope = 8, rope = 4, latent = 4> of %q, %k : 1x15x4xF32
}

// -----

// Transposing swaps rows and columns.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 2x8x4xF32 strides [128, 16]
  // expected-error @+1 {{"t": expected [matrices, columns, rows] of the part = [2, 4, 8], got [2, 8, 4]}}
  %t = plan.derived "t" = #moe.transpose of %k : 2x8x4xF32
}

// -----

// The number of weights has to match the number of matrices.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 1x8x4xF32 strides [128, 16]
  // expected-error @+1 {{"s": expected parts of 3 matrices in all, got 2}}
  %s = plan.derived "s" = #moe.stack of %k, %k : 3x8x4xF32
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 2x8x4xF32 strides [128, 16]
  // Each weight has several matrices, which is too many.
  // expected-error @+1 {{"s": expected parts with the result's columns = [8, 4], got [2, 8, 4]}}
  %s = plan.derived "s" = #moe.stack of %k : 1x8x4xF32
}

// -----

// Rows of several are one matrix.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 1x8x4xF32 strides [128, 16]
  %l = plan.weight "l" in %f at 640 : 1x2x4xF32 strides [32, 16]
  // expected-error @+1 {{"s": expected parts of 9 rows in all, got 10}}
  %s = plan.derived "s" = #moe.stack of %k, %l : 1x9x4xF32
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 2x8x4xF32 strides [128, 16]
  // expected-error @+1 {{"s": expected parts with the result's columns = [16, 4], got [2, 8, 4]}}
  %s = plan.derived "s" = #moe.stack of %k, %k : 1x16x4xF32
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 1x8x4xF32 strides [128, 16]
  %s = plan.derived "s" = #moe.stack of %k : 1x8x4xF32
  // expected-error @+1 {{expected each part to be a 'plan.weight'}}
  %t = plan.derived "t" = #moe.stack of %s : 1x8x4xF32
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 1x32x32xQ8_0 strides [1088, 34] layout rows16
  // expected-error @+1 {{expected rows in layout gguf, found rows16}}
  %s = plan.derived "s" = #moe.stack of %k : 1x32x32xQ8_0
}

// -----

// Only weights of the model file can be transposed.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 2x8x4xF32 strides [128, 16]
  %t = plan.derived "t" = #moe.transpose of %k : 2x4x8xF32
  // expected-error @+1 {{expected each part to be a 'plan.weight'}}
  %u = plan.derived "u" = #moe.transpose of %t : 2x8x4xF32
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %k = plan.weight "k" in %f at 512 : 1x32x32xQ8_0 strides [1088, 34] layout rows16
  // expected-error @+1 {{expected rows in layout gguf, found rows16}}
  %t = plan.derived "t" = #moe.transpose of %k : 1x32x32xQ8_0
}

// -----

// Constants are not empty.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected at least one value}}
  %c = plan.constant "c" []
}

// -----

// Negative sizes of a device.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected sizes of at least 0, found -1}}
  %x = plan.device "cpu0" cpu isa "ref" memory -1
}

// -----

// A GPU shares the CPU's memory.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected a CUDA device to share the CPU's memory}}
  %x = plan.device "cpu0" cpu isa "ref" memory 1024 {shares_memory}
}

// -----

// Caches start at cache lines.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  // expected-error @+1 {{expected an offset in multiples of 64, found 32}}
  %kv = plan.kv on %d layer 0 f32 rows 4 cols 4 at 32
}

// -----

// An empty cache.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  // expected-error @+1 {{expected a layer and positive sizes, found layer 0, rows 0, cols 4}}
  %kv = plan.kv on %d layer 0 f32 rows 0 cols 4
}

// -----

// Types have to cover all tokens.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected 2 types, found 1}}
  plan.tokenizer "gpt2" pre "" scores [] {tokens = ["a", "b"], types = array<i32: 1>, merges = [], chat_template = ""}
}

// -----

// An empty range of tokens.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  // expected-error @+1 {{expected 1 <= min tokens <= max tokens, found 4 to 2}}
  plan.phase "p" tokens 4 to 2 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    plan.bind input %x output %x
  }
}

// -----

// A phase without plan.bind.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  // expected-error @+1 {{expected 'plan.bind' at the end}}
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
  }
}

// -----

// 8-bit activations come in blocks.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  plan.phase "p" tokens 1 to 4 {
    // expected-error @+1 {{expected columns in blocks of 32 for a8, found 48}}
    %x = plan.buffer "x" on %d a8 cols 48 rows [1, 0]
    plan.bind input %x output %x
  }
}

// -----

// A buffer without rows.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  plan.phase "p" tokens 1 to 4 {
    // expected-error @+1 {{expected at least one row and column, found rows [0, 0], cols 4}}
    %x = plan.buffer "x" on %d f32 cols 4 rows [0, 0]
    plan.bind input %x output %x
  }
}

// -----

// A negative layer.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected a layer of at least 0, found -2}}
  %e = plan.explain "op" layer -2 phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
}

// -----

// An instruction that does not exist.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{no instruction is called 'multiply'}}
    plan.inst multiply on %d.compute ["k"] (x = %x) for %e
    plan.bind input %x output %x
  }
}

// -----

// An unknown property of work, or one out of order.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{work has no 'token_ops' here}}
    plan.inst add on %d.compute ["add_ref"] (x = %x, y = %x, out = %x) for %e work {again = 0.5, token_ops = 1.0}
    plan.bind input %x output %x
  }
}

// -----

// A fraction above 1.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{work has again = 2}}
    plan.inst add on %d.compute ["add_ref"] (x = %x, y = %x, out = %x) for %e work {again = 2.0}
    plan.bind input %x output %x
  }
}

// -----

// A required operand is missing.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{expected operand 'y' of add}}
    plan.inst add on %d.compute ["add_ref"] (x = %x, out = %x) for %e
    plan.bind input %x output %x
  }
}

// -----

// An operand that the op does not have.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{add has no operand 'z' here}}
    plan.inst add on %d.compute ["add_ref"] (x = %x, y = %x, out = %x, z = %x) for %e
    plan.bind input %x output %x
  }
}

// -----

// A gemm for every weight that needs one.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  %w = plan.weight "w" in %f at 0 : 1x32x32xF32 strides [4096, 128]
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{linear: expected 2 kernels, found 1}}
    plan.inst linear on %d.compute ["linear_ref"] (act = %x, w = %w, out = %x) {accumulate = 0} for %e
    plan.bind input %x output %x
  }
}

// -----

// Memory of another device may only be used by copies.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %g = plan.device "gpu0" cuda isa "cuda" memory 1024
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    %y = plan.buffer "y" on %g f32 cols 32 rows [1, 0]
    // expected-error @+1 {{add: expected 'out' in the memory of its device, found it on another}}
    plan.inst add on %d.compute ["add_ref"] (x = %x, y = %x, out = %y) for %e
    plan.bind input %x output %x
  }
}

// -----

// Generic form: parameters as in the signature.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{head_linear: expected 4 integers, found 1}}
    "plan.inst"(%d.compute, %x, %x, %x, %e) <{operandSegmentSizes = array<i32: 1, 3, 0, 0, 1>, op = "head_linear", kernels = ["k", "g"], present = array<i1: true, true, true>, ints = array<i64: 1>, floats = array<f64>}>
      : (!plan.queue, !plan.buffer, !plan.buffer, !plan.buffer, !plan.explain) -> ()
    plan.bind input %x output %x
  }
}

// -----

// Generic form: a buffer where a weight belongs.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %d.compute = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{head_linear: expected '!plan.weight' for 'w', found '!plan.buffer'}}
    "plan.inst"(%d.compute, %x, %x, %x, %e) <{operandSegmentSizes = array<i32: 1, 3, 0, 0, 1>, op = "head_linear", kernels = ["k", "g"], present = array<i1: true, true, true>, ints = array<i64: 1, 2, 3, 0>, floats = array<f64>}>
      : (!plan.queue, !plan.buffer, !plan.buffer, !plan.buffer, !plan.explain) -> ()
    plan.bind input %x output %x
  }
}

// -----

// Only CUDA devices have copy queues.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  // expected-error @+1 {{expected a queue of copies on a CUDA device, found it on 'cpu0'}}
  %q = plan.queue copy of %d
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  // expected-error @+1 {{expected the names of a function and its file}}
  %m = plan.module "add" of "" []
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %m = plan.module "add" of "Pair.cu" []
  // expected-error @+1 {{expected machine code and PTX}}
  plan.image of %m arch 89 registers 0 spilled 0 stack 0 shared 0 cubin "x" ptx ""
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %m = plan.module "add" of "Pair.cu" []
  // expected-error @+1 {{expected numbers of at least 0, found -4}}
  plan.image of %m arch 89 registers 0 spilled -4 stack 0 shared 0 cubin "x" ptx "y"
}

// -----

// Only GPUs have launches.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "cpu0" cpu isa "ref" memory 1024
  %q = plan.queue compute of %d
  %m = plan.module "add" of "Pair.cu" []
  %e = plan.explain "o" phase "p" on "cpu0" kernel "" because "" flops 0.0
    weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.1
  plan.phase "decode" tokens 1 to 1 {
    %x = plan.buffer "x" on %d f32 cols 4 rows [1, 0] at 64
    // expected-error @+1 {{add: expected launches on a CUDA device, found them on 'cpu0'}}
    plan.inst add on %q ["add_ref"] (x = %x, y = %x, out = %x) launches %m grid [1, 1, 1] threads 32 shared 0 for %e
    plan.bind input %x output %x
  }
}

// -----

plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "gpu0" cuda isa "cuda" memory 1024 {arch = 89 : i32}
  %q = plan.queue compute of %d
  %m = plan.module "add" of "Pair.cu" []
  %e = plan.explain "o" phase "p" on "gpu0" kernel "" because "" flops 0.0
    weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.1
  plan.phase "decode" tokens 1 to 1 {
    %x = plan.buffer "x" on %d f32 cols 4 rows [1, 0] at 64
    // expected-error @+1 {{expected three sizes of a grid}}
    plan.inst add on %q ["add_cuda"] (x = %x, y = %x, out = %x) launches %m grid [1, 1] threads 32 shared 0 for %e
    plan.bind input %x output %x
  }
}

// -----

// Only copies run in copy queues.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "gpu0" cuda isa "cuda" memory 1024 {arch = 89 : i32}
  %q = plan.queue copy of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{add: expected a copy in a queue of copies}}
    plan.inst add on %q ["add_cuda"] (x = %x, y = %x, out = %x) for %e
    plan.bind input %x output %x
  }
}

// -----

// An event is signalled before it is waited for.
plan.program attributes {
    architecture = "", compiler = "", context = 1 : i32, experts = 0 : i32,
    experts_used = 0 : i32, hidden = 1 : i64, layers = 0 : i32, model_hash = "",
    model_name = "", options = "", parameters = 0 : i64, target = "", vocab = 1 : i64} {
  %d = plan.device "gpu0" cuda isa "cuda" memory 1024 {arch = 89 : i32}
  %q = plan.queue copy of %d
  %c = plan.queue compute of %d
  %e = plan.explain "op" phase "p" on "cpu0" kernel "" because ""
    flops 0.0 weights 0.0 activations 0.0 kv 0.0 intensity 0.0 seconds 0.0
  plan.phase "p" tokens 1 to 4 {
    %x = plan.buffer "x" on %d f32 cols 32 rows [1, 0]
    %y = plan.buffer "y" on %d f32 cols 32 rows [1, 0]
    // expected-error @+1 {{operand #4 does not dominate this use}}
    plan.inst add on %c ["add_cuda"] (x = %x, y = %x, out = %x) after %1 for %e
    // expected-note @+1 {{operand defined here}}
    %1 = plan.inst copy on %q ["copy_cuda"] (x = %x, out = %y) signals for %e
    plan.bind input %x output %x
  }
}

// -----

plan.packing bytes 640 {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x2x32xQ8_0 strides [68, 34]
  // expected-error @+1 {{expected bytes inside the file's 640, found offset 128 and end 672}}
  plan.packed "w" of %w layout rows16 at 128
}

// -----

plan.packing bytes 640 {
  %f = plan.file model "a" bytes 4096 header 8 hash "0123456789abcdef0123456789abcdef"
  %w = plan.weight "w" in %f at 0 : 1x2x32xQ8_0 strides [68, 34]
  plan.packed "w" of %w layout gguf at 64
  // expected-error @+1 {{expected an offset of at least 132, found 128}}
  plan.packed "w" of %w layout gguf at 128
}
