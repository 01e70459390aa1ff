//! Draws that depend on the seed, on what is drawn and on the entity it is drawn for, and on
//! nothing else. Rows can therefore be generated in any order.

use xxhash_rust::xxh3::xxh3_64_with_seed;

/// Names the draws, so that two draws for one entity are independent. New draws go to the end:
/// the position is part of what the generator promises to keep.
#[derive(Clone, Copy, Debug)]
pub enum Draw {
    Visitor,
    PinnedVisitor,
    VisitorId,
    OwnSite,
    Site,
    SiteId,
    MainDay,
    Day,
    Curve,
    Second,
    SecondAgain,
    Google,
    Page,
    PageKey,
    Source,
    RefererPage,
    Phrase,
    SearchEngine,
    Ad,
    AdEngine,
    Region,
    SharedAddress,
    Address,
    Screen,
    Phone,
    PhoneModel,
    PhoneMaker,
    Flag,
    Number,
    Text,
    Words,
    Length,
    UrlHash,
    RefererHash,
    Window,
    Watch,
}

/// The source of all draws of a table.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    seed: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { seed }
    }

    /// Returns 64 even bits for the entity `key`.
    pub fn bits(self, draw: Draw, key: u64) -> u64 {
        // Seeds of neighbouring draws differ in many bits.
        let seed = self.seed ^ (draw as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        xxh3_64_with_seed(&key.to_le_bytes(), seed)
    }

    /// Returns a number above 0, up to 1.
    pub fn unit(self, draw: Draw, key: u64) -> f64 {
        ((self.bits(draw, key) >> 11) + 1) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number below `bound`, which must not be 0.
    pub fn below(self, draw: Draw, key: u64, bound: u64) -> u64 {
        // The upper half of a product: even to within bound / 2^64.
        ((u128::from(self.bits(draw, key)) * u128::from(bound)) >> 64) as u64
    }

    /// Returns whether an event of this probability happens.
    pub fn happens(self, draw: Draw, key: u64, probability: f64) -> bool {
        self.unit(draw, key) <= probability
    }

    /// Returns one of `choices`, each with its weight.
    pub fn weighted<T: Copy>(self, draw: Draw, key: u64, choices: &[(T, u32)]) -> T {
        let total: u32 = choices.iter().map(|choice| choice.1).sum();
        let mut place = self.below(draw, key, u64::from(total)) as u32;
        for (value, weight) in choices {
            if place < *weight {
                return *value;
            }
            place -= weight;
        }
        choices[0].0
    }

    /// Returns a rank from 0 by a power law with a heavy tail: rank `k` or more has the probability
    /// `(1 + k / shift) ^ -tail`. This is Zipf's law with an offset (Mandelbrot). With a small
    /// `tail`, the number of distinct ranks keeps growing with the draws. Ranks are whole numbers
    /// and may be larger than 2^64.
    pub fn rank(self, draw: Draw, key: u64, tail: f64, shift: f64) -> f64 {
        (shift * (self.unit(draw, key).powf(-1.0 / tail) - 1.0)).floor()
    }
}
