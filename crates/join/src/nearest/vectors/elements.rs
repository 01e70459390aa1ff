//! Reading the elements of Arrow's lists.

use arrow::{
    array::{Array, ArrayRef, AsArray},
    buffer::{NullBuffer, OffsetBuffer, ScalarBuffer},
    datatypes::{ArrowPrimitiveType, DataType, Float16Type, Float32Type, Float64Type, Int8Type},
};

use crate::error::JoinError;

type Half = <Float16Type as ArrowPrimitiveType>::Native;

/// An element of a vector.
pub(super) trait Element: Copy {
    /// Returns the element as a 64-bit float, which is exact.
    fn widen(self) -> f64;
}

impl<T: Copy + Into<f64>> Element for T {
    #[inline]
    fn widen(self) -> f64 {
        self.into()
    }
}

/// The elements of all vectors, one after the other.
#[derive(Debug)]
pub(super) enum Values {
    Float16(ScalarBuffer<Half>),
    Float32(ScalarBuffer<f32>),
    Float64(ScalarBuffer<f64>),
    Int8(ScalarBuffer<i8>),
}

/// Evaluates an expression with the elements as a slice of their type.
macro_rules! with_values {
    ($values:expr, $slice:ident => $do:expr) => {
        match $values {
            $crate::nearest::vectors::elements::Values::Float16($slice) => $do,
            $crate::nearest::vectors::elements::Values::Float32($slice) => $do,
            $crate::nearest::vectors::elements::Values::Float64($slice) => $do,
            $crate::nearest::vectors::elements::Values::Int8($slice) => $do,
        }
    };
}
pub(super) use with_values;

#[derive(Debug)]
enum Offsets {
    Fixed(usize),
    Small(OffsetBuffer<i32>),
    Large(OffsetBuffer<i64>),
}

/// Vectors in the memory of their array.
#[derive(Debug)]
pub(super) struct Elements {
    pub(super) rows: usize,
    pub(super) values: Values,
    offsets: Offsets,
    nulls: Option<NullBuffer>,
    element_nulls: Option<NullBuffer>,
}

impl Elements {
    /// Reads lists of numbers, without a copy.
    ///
    /// # Errors
    /// [`JoinError::VectorsUnsupported`] if the array has another type.
    pub(super) fn try_new(vectors: &dyn Array) -> Result<Self, JoinError> {
        let (offsets, values): (Offsets, &ArrayRef) = match vectors.data_type() {
            DataType::FixedSizeList(_, length) => {
                (Offsets::Fixed(*length as usize), vectors.as_fixed_size_list().values())
            }
            DataType::List(_) => {
                let list = vectors.as_list::<i32>();
                (Offsets::Small(list.offsets().clone()), list.values())
            }
            DataType::LargeList(_) => {
                let list = vectors.as_list::<i64>();
                (Offsets::Large(list.offsets().clone()), list.values())
            }
            _ => return Err(unsupported(vectors)),
        };
        let element_nulls = values.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        let values = match values.data_type() {
            DataType::Float16 => Values::Float16(values.as_primitive::<Float16Type>().values().clone()),
            DataType::Float32 => Values::Float32(values.as_primitive::<Float32Type>().values().clone()),
            DataType::Float64 => Values::Float64(values.as_primitive::<Float64Type>().values().clone()),
            DataType::Int8 => Values::Int8(values.as_primitive::<Int8Type>().values().clone()),
            _ => return Err(unsupported(vectors)),
        };
        let nulls = vectors.nulls().filter(|nulls| nulls.null_count() > 0).cloned();
        Ok(Self { rows: vectors.len(), values, offsets, nulls, element_nulls })
    }

    /// Returns the places of a row's elements.
    #[inline]
    pub(super) fn range(&self, row: usize) -> std::ops::Range<usize> {
        match &self.offsets {
            Offsets::Fixed(length) => row * length..(row + 1) * length,
            Offsets::Small(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
            Offsets::Large(offsets) => offsets[row] as usize..offsets[row + 1] as usize,
        }
    }

    pub(super) fn is_null(&self, row: usize) -> bool {
        self.nulls.as_ref().is_some_and(|nulls| nulls.is_null(row))
    }

    /// Returns whether a vector has a null element.
    pub(super) fn has_null_element(&self, row: usize) -> bool {
        let Some(nulls) = &self.element_nulls else { return false };
        let range = self.range(row);
        nulls.slice(range.start, range.len()).null_count() > 0
    }

    /// Writes a row as 64-bit floats to a buffer that is cleared first.
    pub(super) fn widen_row(&self, row: usize, to: &mut Vec<f64>) {
        to.clear();
        let range = self.range(row);
        with_values!(&self.values, values => to.extend(values[range].iter().map(|value| value.widen())));
    }

    /// Returns the bytes of the elements, offsets and validities.
    pub(super) fn memory_bytes(&self) -> usize {
        let elements = if self.rows == 0 { 0 } else { self.range(self.rows - 1).end - self.range(0).start };
        let bytes =
            with_values!(&self.values, values => size_of_val(values.first().map_or(&[][..], std::slice::from_ref)));
        let offsets = match self.offsets {
            Offsets::Fixed(_) => 0,
            Offsets::Small(_) => 4,
            Offsets::Large(_) => 8,
        };
        let nulls = [&self.nulls, &self.element_nulls].into_iter().flatten();
        elements * bytes + self.rows * offsets + nulls.map(|nulls| nulls.len().div_ceil(8)).sum::<usize>()
    }
}

fn unsupported(vectors: &dyn Array) -> JoinError {
    JoinError::VectorsUnsupported { data_type: vectors.data_type().clone() }
}
