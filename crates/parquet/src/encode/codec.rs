//! The codecs of pages.

use std::cell::RefCell;

use parquet::{
    basic::Compression,
    errors::{ParquetError, Result},
};

thread_local! {
    /// The state of a thread's compressor, of a megabyte or more: a page often has less.
    static ZSTANDARD: RefCell<Option<zstd::bulk::Compressor<'static>>> = const { RefCell::new(None) };
}

/// Appends `bytes` to `out`, compressed as one block.
///
/// # Errors
/// If the codec fails, or is another than none, Snappy, LZ4 (raw) or Zstandard.
pub(super) fn compress(codec: Compression, bytes: &[u8], out: &mut Vec<u8>) -> Result<()> {
    match codec {
        Compression::UNCOMPRESSED => out.extend_from_slice(bytes),
        Compression::SNAPPY => {
            let start = grow(out, snap::raw::max_compress_len(bytes.len()));
            let length = snap::raw::Encoder::new().compress(bytes, &mut out[start..]);
            out.truncate(start + length.map_err(|error| ParquetError::External(Box::new(error)))?);
        }
        Compression::LZ4_RAW => {
            let start = grow(out, lz4_flex::block::get_maximum_output_size(bytes.len()));
            let length = lz4_flex::block::compress_into(bytes, &mut out[start..]);
            out.truncate(start + length.map_err(|error| ParquetError::External(Box::new(error)))?);
        }
        Compression::ZSTD(level) => {
            let start = grow(out, zstd::zstd_safe::compress_bound(bytes.len()));
            let length = ZSTANDARD.with_borrow_mut(|compressor| {
                let compressor = match compressor {
                    Some(compressor) => compressor,
                    none => none.insert(zstd::bulk::Compressor::default()),
                };
                compressor.set_compression_level(level.compression_level())?;
                compressor.compress_to_buffer(bytes, &mut out[start..])
            });
            out.truncate(start + length.map_err(|error| ParquetError::External(Box::new(error)))?);
        }
        other => return Err(ParquetError::NYI(format!("codes are not compressed with {other}"))),
    }
    Ok(())
}

/// Returns whether [`compress`] knows a codec.
pub(super) fn is_known(codec: Compression) -> bool {
    use Compression::{LZ4_RAW, SNAPPY, UNCOMPRESSED, ZSTD};
    matches!(codec, UNCOMPRESSED | SNAPPY | LZ4_RAW | ZSTD(_))
}

/// Makes `out` longer by `bytes`, and returns the length it had.
fn grow(out: &mut Vec<u8>, bytes: usize) -> usize {
    let start = out.len();
    out.resize(start + bytes, 0);
    start
}
