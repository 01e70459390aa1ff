//! The bytes of row groups, of which the next ones come while the present ones are decoded.

use std::ops::Range;

use bytes::Bytes;
use datafusion::{
    common::{internal_err, runtime::SpawnedTask},
    error::{DataFusionError, Result},
    parquet::{arrow::async_reader::AsyncFileReader, errors::Result as ParquetResult},
};

/// The most bytes of a row group that is fetched ahead.
const MOST_AHEAD: u64 = 32 << 20;

type Reader = Box<dyn AsyncFileReader>;

/// Fetches the bytes of a file.
pub(super) struct Fetcher {
    /// `None` while it fetches ahead.
    reader: Option<Reader>,
    ahead: Option<SpawnedTask<(Reader, ParquetResult<Vec<Bytes>>)>>,
}

impl Fetcher {
    pub fn new(reader: Reader) -> Self {
        Self { reader: Some(reader), ahead: None }
    }

    /// Returns the bytes in `ranges`: those that are fetched ahead, if any are, and they must be these.
    ///
    /// # Errors
    /// If they cannot be read.
    pub async fn fetch(&mut self, ranges: Vec<Range<u64>>) -> Result<Vec<Bytes>> {
        if let Some(task) = self.ahead.take() {
            let (reader, bytes) = task.join().await.map_err(|error| DataFusionError::External(Box::new(error)))?;
            self.reader = Some(reader);
            return Ok(bytes?);
        }
        if ranges.is_empty() {
            return Ok(vec![]);
        }
        match &mut self.reader {
            Some(reader) => Ok(reader.get_byte_ranges(ranges).await?),
            None => internal_err!("a file is read on after its reader was lost"),
        }
    }

    /// Begins to fetch the bytes in `ranges`, if they are not too many.
    pub fn fetch_ahead(&mut self, ranges: Vec<Range<u64>>) {
        let bytes: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        if ranges.is_empty() || bytes > MOST_AHEAD {
            return;
        }
        let Some(mut reader) = self.reader.take() else { return };
        self.ahead = Some(SpawnedTask::spawn(async move {
            let bytes = reader.get_byte_ranges(ranges).await;
            (reader, bytes)
        }));
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use datafusion::parquet::{
        arrow::arrow_reader::ArrowReaderOptions, errors::ParquetError, file::metadata::ParquetMetaData,
    };
    use futures::{FutureExt, future::BoxFuture};

    use super::*;

    /// A file of zeros, which notes what is asked for.
    struct Zeros(Arc<Mutex<Vec<Range<u64>>>>);

    impl AsyncFileReader for Zeros {
        fn get_bytes(&mut self, range: Range<u64>) -> BoxFuture<'_, ParquetResult<Bytes>> {
            self.0.lock().unwrap().push(range.clone());
            let bytes = if range.start == 7 { Err(ParquetError::EOF("at 7".to_owned())) } else { Ok(()) };
            async move { bytes.map(|()| vec![0; (range.end - range.start) as usize].into()) }.boxed()
        }

        fn get_metadata<'a>(
            &'a mut self,
            _options: Option<&'a ArrowReaderOptions>,
        ) -> BoxFuture<'a, ParquetResult<Arc<ParquetMetaData>>> {
            async { Err(ParquetError::EOF("no metadata".to_owned())) }.boxed()
        }
    }

    #[tokio::test]
    async fn bytes_are_fetched_once_and_ahead_if_they_are_few() {
        let asked = Arc::default();
        let mut fetcher = Fetcher::new(Box::new(Zeros(Arc::clone(&asked))));
        assert!(fetcher.fetch(vec![]).await.unwrap().is_empty());
        for start in 0..3 {
            let found = fetcher.fetch(vec![start..start + 10, 50..52]).await.unwrap();
            assert_eq!(found.iter().map(Bytes::len).collect::<Vec<_>>(), [10, 2]);
            fetcher.fetch_ahead(vec![start + 1..start + 11, 50..52]);
        }
        fetcher.fetch(vec![3..13, 50..52]).await.unwrap();
        assert_eq!(asked.lock().unwrap().len(), 8);
        fetcher.fetch_ahead(vec![0..MOST_AHEAD, 0..1]);
        assert_eq!(asked.lock().unwrap().len(), 8);
        fetcher.fetch_ahead(vec![7..8, 8..9]);
        assert!(fetcher.fetch(vec![7..8, 8..9]).await.unwrap_err().to_string().contains("at 7"));
    }
}
