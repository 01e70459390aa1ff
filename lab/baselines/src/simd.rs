//! Loops that the compiler turns into vector instructions of the machine.

/// Compiles a function also for AVX2 and AVX-512, and calls the best one that the machine supports.
macro_rules! vectorised {
    ($(#[$doc:meta])* $vis:vis fn $name:ident($($arg:ident: $type:ty),*) $body:block) => {
        $(#[$doc])*
        $vis fn $name($($arg: $type),*) {
            #[inline(always)]
            fn body($($arg: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512dq,avx512vl,avx512bw")]
                fn avx512($($arg: $type),*) {
                    body($($arg),*)
                }
                #[target_feature(enable = "avx2")]
                fn avx2($($arg: $type),*) {
                    body($($arg),*)
                }
                if annulus_pages::simd::has_avx512() {
                    // SAFETY: the machine has the features.
                    return unsafe { avx512($($arg),*) };
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the machine has the feature.
                    return unsafe { avx2($($arg),*) };
                }
            }
            body($($arg),*)
        }
    };
}

pub(crate) use vectorised;
