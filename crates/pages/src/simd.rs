//! The vector instructions of the machine.

/// Returns whether the machine has the parts of AVX-512 that this crate compiles for, F, DQ, VL and
/// BW, and the operations on bits that come with them.
pub fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::is_x86_feature_detected as has;
        let bits = has!("popcnt") && has!("bmi1") && has!("bmi2");
        bits && has!("avx512f") && has!("avx512dq") && has!("avx512vl") && has!("avx512bw")
    }
    #[cfg(not(target_arch = "x86_64"))]
    false
}
