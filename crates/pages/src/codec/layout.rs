//! The layout of rows: the place of each column. Pure arithmetic on types.

use arrow::datatypes::{DataType, Field, FieldRef, UnionFields, UnionMode};

use super::CodecError;
use crate::page::MAX_PAGE_BYTES;

/// The largest size of a row of columns of fixed width: no page takes a wider row.
const MAX_FIXED_BYTES: usize = MAX_PAGE_BYTES;
/// The largest size of the rows for the absent children of a sparse union. Each row of the union
/// has them.
const MAX_ABSENT_BYTES: usize = 4096;

/// The layout of a row of these columns. Rows nest as columns do.
#[derive(Debug)]
pub(super) struct RowLayout {
    pub columns: Vec<Column>,
    /// The bytes of the validity bits at the row's start.
    pub validity_bytes: usize,
    /// The bytes before the values of varying length: validity, fixed values, ends.
    pub head_bytes: usize,
    /// The number of columns of varying length.
    pub varying: usize,
}

/// One column of a row.
#[derive(Debug)]
pub(super) struct Column {
    /// The name, with the path to it.
    pub name: String,
    pub data_type: DataType,
    pub kind: Kind,
    /// The number of the validity bit, if the column can be null.
    pub bit: Option<usize>,
    pub place: CellPosition,
}

/// The place of a column's value, its cell.
#[derive(Clone, Copy, Debug)]
pub(super) enum CellPosition {
    /// `width` bytes at `at`.
    Fixed { at: usize, width: usize },
    /// After the head, as the varying value with this number.
    Varying(usize),
}

/// The encoding of a cell.
#[derive(Debug)]
pub(super) enum Kind {
    /// No bytes.
    Null,
    /// One byte, 0 or 1.
    Boolean,
    /// The value as it is in Arrow's buffer.
    Fixed,
    /// The bytes.
    Bytes,
    /// A row of the fields.
    Struct(RowLayout),
    /// Rows of one column, one for each element.
    List(RowLayout),
    /// Rows of one column, always the same number.
    FixedSizeList(RowLayout, usize),
    /// The type's number (one byte), then a row of one column.
    Union(Vec<(i8, RowLayout)>, UnionMode),
    /// The value that the key refers to.
    Dictionary(Box<Kind>, DataType),
    /// A row of one column, which is the value of the run.
    Run(RowLayout),
}

impl RowLayout {
    /// Creates the layout of rows of `fields`. `path` is the name of the column that they are in.
    pub fn new<'a>(fields: impl IntoIterator<Item = &'a FieldRef>, path: &str) -> Result<Self, CodecError> {
        let mut columns = Vec::new();
        let (mut bits, mut varying) = (0, 0);
        for field in fields {
            let name = if path.is_empty() { field.name().clone() } else { format!("{path}.{}", field.name()) };
            let kind = Kind::new(field.data_type(), &name)?;
            let bit = (field.is_nullable() && kind.has_validity()).then(|| {
                bits += 1;
                bits - 1
            });
            let place = match kind.width(field) {
                Some(width) => CellPosition::Fixed { at: 0, width },
                None => {
                    varying += 1;
                    CellPosition::Varying(varying - 1)
                }
            };
            columns.push(Column { name, data_type: field.data_type().clone(), kind, bit, place });
        }
        let validity_bytes = bits.div_ceil(8);
        let mut head_bytes = validity_bytes;
        for column in &mut columns {
            if let CellPosition::Fixed { at, width } = &mut column.place {
                *at = head_bytes;
                head_bytes = head_bytes.saturating_add(*width);
            }
            if head_bytes > MAX_FIXED_BYTES {
                return Err(column.unsupported("its values are wider than a page"));
            }
        }
        // The last value of varying length ends with the row.
        head_bytes += 4 * usize::saturating_sub(varying, 1);
        Ok(Self { columns, validity_bytes, head_bytes, varying })
    }

    fn for_field(field: &FieldRef, path: &str) -> Result<Self, CodecError> {
        Self::new([field], path)
    }

    /// Returns the bytes of every row, if they have one size.
    pub fn row_bytes(&self) -> Option<usize> {
        (self.varying == 0).then_some(self.head_bytes)
    }

    /// Returns the bytes of every element of a list of such rows, if they have one size. The result
    /// is at least 1, so that a list's bytes bound the number of its elements.
    pub fn element_bytes(&self) -> Option<usize> {
        self.row_bytes().map(|bytes| bytes.max(1))
    }

    /// Returns the offset of the end of varying value `number`, which is not the last one.
    pub fn end_at(&self, number: usize) -> usize {
        self.head_bytes - 4 * (self.varying - 1 - number)
    }

    /// Returns a row of nulls and empty values, for a child that a row does not have.
    pub fn absent_row(&self) -> Vec<u8> {
        let mut row = vec![0; self.head_bytes];
        for column in &self.columns {
            match column.place {
                CellPosition::Fixed { at, width } => {
                    row[at..at + width].copy_from_slice(&column.kind.absent_cell(width))
                }
                CellPosition::Varying(number) => {
                    row.extend(column.kind.absent_cell(0));
                    if number + 1 < self.varying {
                        let (at, end) = (self.end_at(number), row.len() as u32);
                        row[at..at + 4].copy_from_slice(&end.to_le_bytes());
                    }
                }
            }
        }
        row
    }
}

impl Column {
    pub fn unsupported(&self, reason: &'static str) -> CodecError {
        CodecError::Unsupported { column: self.name.clone(), data_type: self.data_type.clone(), reason }
    }
}

impl Kind {
    fn new(data_type: &DataType, name: &str) -> Result<Self, CodecError> {
        let refuse =
            |reason| Err(CodecError::Unsupported { column: name.to_owned(), data_type: data_type.clone(), reason });
        Ok(match data_type {
            DataType::Null => Self::Null,
            DataType::Boolean => Self::Boolean,
            DataType::FixedSizeBinary(width) if *width < 0 => return refuse("its width is negative"),
            DataType::FixedSizeBinary(_) => Self::Fixed,
            DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Self::Bytes,
            DataType::Binary | DataType::LargeBinary | DataType::BinaryView => Self::Bytes,
            DataType::Struct(fields) => Self::Struct(RowLayout::new(fields, name)?),
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::ListView(field)
            | DataType::LargeListView(field) => Self::List(RowLayout::for_field(field, name)?),
            DataType::Map(field, _) => match field.data_type() {
                DataType::Struct(entries) if entries.len() == 2 => Self::List(RowLayout::for_field(field, name)?),
                _ => return refuse("its entries are not pairs"),
            },
            DataType::FixedSizeList(field, size) => match usize::try_from(*size) {
                Ok(size) => Self::FixedSizeList(RowLayout::for_field(field, name)?, size),
                Err(_) => return refuse("its size is negative"),
            },
            DataType::Union(fields, mode) => Self::Union(union_layouts(fields, *mode, name, data_type)?, *mode),
            DataType::Dictionary(keys, values) => {
                if !keys.is_dictionary_key_type() {
                    return refuse("its keys are not integers");
                }
                match Self::new(values, name)? {
                    Self::Null | Self::Dictionary(..) | Self::Run(_) | Self::Union(..) => {
                        return refuse("its values have a null or an encoding of their own");
                    }
                    kind => Self::Dictionary(Box::new(kind), values.as_ref().clone()),
                }
            }
            DataType::RunEndEncoded(ends, values) => {
                if !matches!(ends.data_type(), DataType::Int16 | DataType::Int32 | DataType::Int64) {
                    return refuse("its run ends are not signed integers of 16, 32 or 64 bits");
                }
                Self::Run(RowLayout::for_field(values, name)?)
            }
            _ if data_type.primitive_width().is_some() => Self::Fixed,
            _ => return refuse("it is unknown"),
        })
    }

    /// Returns whether arrays of this kind have a validity bitmap.
    fn has_validity(&self) -> bool {
        !matches!(self, Self::Null | Self::Union(..) | Self::Run(_))
    }

    /// Returns the bytes of every cell, if they have one size.
    fn width(&self, field: &Field) -> Option<usize> {
        self.width_of(field.data_type())
    }

    fn width_of(&self, data_type: &DataType) -> Option<usize> {
        match self {
            Self::Null => Some(0),
            Self::Boolean => Some(1),
            Self::Fixed => match data_type {
                DataType::FixedSizeBinary(width) => Some(*width as usize),
                _ => data_type.primitive_width(),
            },
            Self::Bytes | Self::List(_) | Self::Union(..) => None,
            Self::Struct(rows) | Self::Run(rows) => rows.row_bytes(),
            Self::FixedSizeList(rows, size) => rows.element_bytes().map(|bytes| bytes.saturating_mul(*size)),
            Self::Dictionary(kind, values) => kind.width_of(values),
        }
    }

    /// Returns the cell of an absent value: zeros, or no bytes, if possible.
    fn absent_cell(&self, width: usize) -> Vec<u8> {
        match self {
            Self::Null | Self::Boolean | Self::Fixed | Self::Bytes | Self::List(_) => vec![0; width],
            Self::Struct(rows) | Self::Run(rows) => rows.absent_row(),
            Self::FixedSizeList(rows, size) => match rows.element_bytes() {
                Some(bytes) => {
                    let mut row = rows.absent_row();
                    row.resize(bytes, 0);
                    row.repeat(*size)
                }
                None => {
                    let row = rows.absent_row();
                    let mut cell = (row.len() as u32).to_le_bytes().repeat(*size);
                    cell.extend(row.repeat(*size));
                    cell
                }
            },
            Self::Union(children, _) => match children.first() {
                Some((id, rows)) => [vec![*id as u8], rows.absent_row()].concat(),
                None => Vec::new(),
            },
            Self::Dictionary(kind, _) => kind.absent_cell(width),
        }
    }

    /// Returns an upper bound of the bytes of [`absent_cell`](Self::absent_cell), without creating
    /// it.
    fn absent_bytes(&self, width: usize) -> usize {
        let row = |rows: &RowLayout| {
            let cell = |column: &Column| match column.place {
                CellPosition::Fixed { .. } => 0,
                CellPosition::Varying(_) => column.kind.absent_bytes(0),
            };
            rows.columns.iter().map(cell).fold(rows.head_bytes, usize::saturating_add)
        };
        match self {
            Self::Null | Self::Boolean | Self::Fixed | Self::Bytes | Self::List(_) => width,
            Self::Struct(rows) | Self::Run(rows) => row(rows),
            Self::FixedSizeList(rows, size) => (row(rows) + 4).saturating_mul(*size),
            Self::Union(children, _) => children.iter().map(|(_, rows)| 1 + row(rows)).fold(0, usize::saturating_add),
            Self::Dictionary(kind, _) => kind.absent_bytes(width),
        }
    }
}

fn union_layouts(
    fields: &UnionFields,
    mode: UnionMode,
    name: &str,
    data_type: &DataType,
) -> Result<Vec<(i8, RowLayout)>, CodecError> {
    let refuse = |reason| CodecError::Unsupported { column: name.to_owned(), data_type: data_type.clone(), reason };
    if fields.is_empty() {
        return Err(refuse("it has no types"));
    }
    let mut layouts = Vec::with_capacity(fields.len());
    let mut absent_bytes: usize = 0;
    for (id, field) in fields.iter() {
        if id < 0 {
            return Err(refuse("a type's number is negative"));
        }
        let rows = RowLayout::for_field(field, name)?;
        let column = &rows.columns[0];
        absent_bytes = absent_bytes.saturating_add(column.kind.absent_bytes(rows.head_bytes));
        if mode == UnionMode::Sparse && absent_bytes > MAX_ABSENT_BYTES {
            return Err(column.unsupported("a sparse union is too wide with it: use a dense one"));
        }
        layouts.push((id, rows));
    }
    Ok(layouts)
}
