// RUN: moe-opt %s -split-input-file -verify-diagnostics -moe-place-devices

// Rates between two sizes are interpolated, so sizes have to be distinct.
// expected-error @+1 {{as many rates in "memory" as rising sizes in "at", all above 0}}
module attributes {moe.target = {name = "t", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 1.0e9 : f64,
    kernels = [{kernel = "add_avx512", at = array<f64: 1.0, 1.0>, memory = array<f64: 1.0e9, 2.0e9>}]}]}} {}

// -----

// expected-error @+1 {{as many rates in "memory" as rising sizes in "at", all above 0}}
module attributes {moe.target = {name = "t", devices = [{name = "cpu0", kind = "cpu", isa = "avx512", memory_bytes = 1000 : i64, read_bps = 1.0e9 : f64,
    kernels = [{kernel = "add_avx512", at = array<f64: 1.0, 2.0>, memory = array<f64: 1.0e9>}]}]}} {}
