//! The least and the greatest of values, for the statistics of a chunk.

/// The least and the greatest of the numbers of a column, in the order that the format has for them.
#[derive(Debug, Clone, Copy)]
pub(super) struct NumberBounds<K> {
    order: Order,
    /// Both as [`Number::ordered`] returns them. Without a value, the least is greater.
    least: K,
    greatest: K,
}

/// An order of numbers, which are given as their bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Unsigned,
    Signed,
    /// Without NaN, which has no place.
    Float,
}

/// The bits of a number.
pub(super) trait Number: Copy + Ord + Into<u64> {
    const MOST: Self;
    const LEAST: Self;
    /// Returns bits that are ordered as unsigned ones; `None` for NaN.
    fn ordered(self, order: Order) -> Option<Self>;
    /// Returns the bits that [`ordered`](Self::ordered) was called with.
    fn original(self, order: Order) -> Self;
    /// Fills `out` with the bytes that the number has in the format.
    fn store(self, out: &mut [u8]);
    /// Returns the bits of the same signed number in 64 bits.
    fn extended(self) -> u64;
}

macro_rules! number {
    ($bits:ty, $signed:ty, $float:ty) => {
        impl Number for $bits {
            const MOST: Self = Self::MAX;
            const LEAST: Self = Self::MIN;

            #[inline]
            fn ordered(self, order: Order) -> Option<Self> {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                match order {
                    Order::Unsigned => Some(self),
                    Order::Signed => Some(self ^ SIGN),
                    Order::Float if <$float>::from_bits(self).is_nan() => None,
                    Order::Float => Some(if self & SIGN == 0 { self ^ SIGN } else { !self }),
                }
            }

            fn original(self, order: Order) -> Self {
                const SIGN: $bits = 1 << (<$bits>::BITS - 1);
                match order {
                    Order::Unsigned => self,
                    Order::Signed => self ^ SIGN,
                    Order::Float => {
                        if self & SIGN == 0 {
                            !self
                        } else {
                            self ^ SIGN
                        }
                    }
                }
            }

            #[inline]
            fn store(self, out: &mut [u8]) {
                out.copy_from_slice(&self.to_le_bytes());
            }

            #[inline]
            fn extended(self) -> u64 {
                self as $signed as i64 as u64
            }
        }
    };
}

number!(u32, i32, f32);
number!(u64, i64, f64);

impl<K: Number> NumberBounds<K> {
    pub fn new(order: Order) -> Self {
        Self { order, least: K::MOST, greatest: K::LEAST }
    }

    pub fn order(&self) -> Order {
        self.order
    }

    /// Takes a value into account.
    #[inline]
    pub fn add(&mut self, value: K) {
        if let Some(value) = value.ordered(self.order) {
            self.least = self.least.min(value);
            self.greatest = self.greatest.max(value);
        }
    }

    /// Takes the values of other bounds into account.
    pub fn merge(&mut self, other: &Self) {
        self.least = self.least.min(other.least);
        self.greatest = self.greatest.max(other.greatest);
    }

    /// Returns the least and the greatest.
    pub fn ends(&self) -> Option<[K; 2]> {
        let ends = [self.least, self.greatest].map(|value| value.original(self.order));
        (self.least <= self.greatest).then_some(ends)
    }
}

/// The least and the greatest of texts or bytes.
#[derive(Debug, Default, Clone)]
pub(super) struct ByteBounds {
    ends: Option<[Vec<u8>; 2]>,
}

impl ByteBounds {
    /// Takes a value into account.
    #[inline]
    pub fn add(&mut self, value: &[u8]) {
        match &mut self.ends {
            Some([least, _]) if value < &least[..] => value.clone_into(least),
            Some([_, greatest]) if value > &greatest[..] => value.clone_into(greatest),
            Some(_) => {}
            None => self.ends = Some([value.to_vec(), value.to_vec()]),
        }
    }

    /// Returns the least and the greatest.
    pub fn ends(&self) -> Option<[&[u8]; 2]> {
        self.ends.as_ref().map(|[least, greatest]| [&least[..], &greatest[..]])
    }

    pub fn into_ends(self) -> Option<[Vec<u8>; 2]> {
        self.ends
    }
}
