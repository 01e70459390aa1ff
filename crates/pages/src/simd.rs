//! The vector instructions of the machine.

/// Returns whether the machine has the parts of AVX-512 that this crate compiles for: F, DQ, VL and
/// BW, and the count of set bits.
pub fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw") && has!("popcnt")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
