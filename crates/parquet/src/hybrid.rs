//! Parquet's hybrid of runs and bit-packed groups, in which codes and levels are written (the format's
//! `Encodings.md`, RLE).

use arrow::{array::BooleanBufferBuilder, buffer::BooleanBuffer};
use bytes::Bytes;

use crate::{bits, error::PageError};

/// Integers of up to 32 bits, from the first to the last.
#[derive(Debug)]
pub(crate) struct Hybrid {
    bytes: Bytes,
    /// The place of the next run.
    next: usize,
    width: u32,
    run: Run,
}

/// What is left of a run.
#[derive(Debug, Clone, Copy)]
enum Run {
    Repeated {
        value: u32,
        left: usize,
    },
    /// Values `first..end` of those that are packed from byte `start` on.
    Packed {
        start: usize,
        first: usize,
        end: usize,
    },
}

impl Run {
    fn left(self) -> usize {
        match self {
            Self::Repeated { left, .. } => left,
            Self::Packed { first, end, .. } => end - first,
        }
    }

    /// Leaves `count` values out, of at least as many.
    fn advance(&mut self, count: usize) {
        match self {
            Self::Repeated { left, .. } => *left -= count,
            Self::Packed { first, .. } => *first += count,
        }
    }
}

impl Hybrid {
    /// Reads values of `width` bits.
    ///
    /// # Errors
    /// If the width is more than 32.
    pub fn new(bytes: Bytes, width: u8) -> Result<Self, PageError> {
        if width > 32 {
            return Err(PageError::Count);
        }
        Ok(Self { bytes, next: 0, width: width.into(), run: Run::Repeated { value: 0, left: 0 } })
    }

    /// Fills `out` with the next values.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn read(&mut self, mut out: &mut [u32]) -> Result<(), PageError> {
        while !out.is_empty() {
            let count = self.run()?.min(out.len());
            let (now, later) = out.split_at_mut(count);
            match self.run {
                Run::Repeated { value, .. } => now.fill(value),
                Run::Packed { start, first, .. } => bits::unpack(&self.bytes[start..], first, self.width, now),
            }
            self.run.advance(count);
            out = later;
        }
        Ok(())
    }

    /// Leaves out the next `count` values.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn skip(&mut self, mut count: usize) -> Result<(), PageError> {
        while count > 0 {
            let now = self.run()?.min(count);
            self.run.advance(now);
            count -= now;
        }
        Ok(())
    }

    /// Reads `count` values of one bit.
    ///
    /// # Errors
    /// If there are fewer, or a value is more than 1.
    pub fn bits(&mut self, mut count: usize) -> Result<BooleanBuffer, PageError> {
        let mut bits = BooleanBufferBuilder::new(count);
        while count > 0 {
            let now = self.run()?.min(count);
            match self.run {
                Run::Repeated { value, .. } if value > 1 => return Err(PageError::Count),
                Run::Repeated { value, .. } => bits.append_n(now, value == 1),
                Run::Packed { start, first, .. } => bits.append_packed_range(first..first + now, &self.bytes[start..]),
            }
            self.run.advance(now);
            count -= now;
        }
        Ok(bits.finish())
    }

    /// Returns the values that the present run has left, at least one, after it has begun the next one if
    /// need be.
    fn run(&mut self) -> Result<usize, PageError> {
        while self.run.left() == 0 {
            self.run = self.next_run()?;
        }
        Ok(self.run.left())
    }

    fn next_run(&mut self) -> Result<Run, PageError> {
        // A dictionary of one entry needs no bits, and some writers write no runs for it.
        if self.width == 0 && self.next == self.bytes.len() {
            return Ok(Run::Repeated { value: 0, left: usize::MAX });
        }
        let header = varint(&self.bytes, &mut self.next)?;
        let length = usize::try_from(header >> 1).map_err(|_| PageError::Count)?;
        let rest = self.bytes.len() - self.next;
        if header & 1 == 0 {
            let bytes = self.width.div_ceil(8) as usize;
            if rest < bytes || length == 0 {
                return Err(if length == 0 { PageError::Count } else { PageError::Short });
            }
            let mut value = [0; 4];
            value[..bytes].copy_from_slice(&self.bytes[self.next..self.next + bytes]);
            self.next += bytes;
            return Ok(Run::Repeated { value: u32::from_le_bytes(value), left: length });
        }
        if length == 0 {
            return Err(PageError::Count);
        }
        // The last groups may be cut after the last byte with values.
        let bytes = length.saturating_mul(self.width as usize).min(rest);
        let stored = if self.width == 0 { usize::MAX } else { bytes * 8 / self.width as usize };
        let run = Run::Packed { start: self.next, first: 0, end: length.saturating_mul(8).min(stored) };
        self.next += bytes;
        if run.left() == 0 { Err(PageError::Short) } else { Ok(run) }
    }
}

/// Reads an unsigned integer in groups of seven bits.
///
/// # Errors
/// If it does not end, or has more than 64 bits.
pub(crate) fn varint(bytes: &[u8], next: &mut usize) -> Result<u64, PageError> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.get(*next).ok_or(PageError::Short)?;
        *next += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
    }
    Err(PageError::Count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hybrid(bytes: &[u8], width: u8) -> Hybrid {
        Hybrid::new(Bytes::copy_from_slice(bytes), width).unwrap()
    }

    #[test]
    fn runs_and_groups_follow_each_other() {
        // Four times 5, then 0 to 7 packed in three bits, as in the format's document, then two times 1.
        let bytes = [8, 5, 3, 0x88, 0xc6, 0xfa, 4, 1];
        let mut out = [9; 14];
        hybrid(&bytes, 3).read(&mut out).unwrap();
        assert_eq!(out, [5, 5, 5, 5, 0, 1, 2, 3, 4, 5, 6, 7, 1, 1]);
        for skipped in 0..14 {
            let mut values = hybrid(&bytes, 3);
            values.skip(skipped).unwrap();
            let mut rest = vec![9; 14 - skipped];
            values.read(&mut rest).unwrap();
            assert_eq!(rest, out[skipped..]);
            assert_eq!(values.skip(1), Err(PageError::Short));
        }
    }

    #[test]
    fn what_cannot_be_is_an_error() {
        let mut out = [0; 9];
        assert_eq!(hybrid(&[], 3).read(&mut out), Err(PageError::Short));
        assert_eq!(hybrid(&[0, 1], 3).read(&mut out), Err(PageError::Count));
        assert_eq!(hybrid(&[3, 0x88], 3).read(&mut out), Err(PageError::Short));
        assert_eq!(hybrid(&[0xff; 12], 3).read(&mut out), Err(PageError::Count));
        assert_eq!(Hybrid::new(Bytes::new(), 33).err(), Some(PageError::Count));
    }

    #[test]
    fn a_dictionary_of_one_entry_needs_no_bits() {
        let mut out = [9; 20];
        hybrid(&[], 0).read(&mut out).unwrap();
        assert_eq!(out, [0; 20]);
        hybrid(&[40], 0).read(&mut out).unwrap();
        assert_eq!(out, [0; 20]);
    }
}
