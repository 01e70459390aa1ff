//! A disk that becomes full at any byte.

use std::{
    io::{self, Write},
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use bytes::Bytes;
use datafusion::{
    common::JoinType,
    error::Result,
    execution::{
        disk_manager::{DiskManager, DiskManagerBuilder, DiskManagerMode},
        runtime_env::{RuntimeEnv, RuntimeEnvBuilder},
        spill_file::{SpillFile, SpillWriter, TempFileFactory},
    },
};
use futures::Stream;
use rand::{Rng, SeedableRng, rngs::StdRng};

use crate::{
    common::{context, eventually, rows, run, shared_join},
    support::PeakPool,
};

/// Files of a real folder, as long as there are bytes left.
struct Full {
    inner: Arc<DiskManager>,
    left: Arc<AtomicU64>,
}

struct FullFile {
    inner: Arc<dyn SpillFile>,
    left: Arc<AtomicU64>,
}

struct FullWriter {
    inner: Box<dyn SpillWriter>,
    left: Arc<AtomicU64>,
}

impl TempFileFactory for Full {
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        Ok(Arc::new(FullFile { inner: self.inner.create_tmp_file(description)?, left: Arc::clone(&self.left) }))
    }
}

impl SpillFile for FullFile {
    fn size(&self) -> Option<u64> {
        self.inner.size()
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        self.inner.read_stream()
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(FullWriter { inner: self.inner.open_writer()?, left: Arc::clone(&self.left) }))
    }
}

impl Write for FullWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let less = |left: u64| left.checked_sub(bytes.len() as u64);
        match self.left.fetch_update(Relaxed, Relaxed, less) {
            Ok(_) => self.inner.write(bytes),
            Err(_) => Err(io::ErrorKind::StorageFull.into()),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl SpillWriter for FullWriter {
    fn finish(&mut self) -> Result<()> {
        self.inner.finish()
    }
}

/// Returns a runtime with a pool of this many bytes, on a disk that is full after `left` bytes.
pub fn full_after(left: u64, pool: usize) -> (Arc<RuntimeEnv>, Arc<DiskManager>) {
    let inner = Arc::new(DiskManagerBuilder::default().build().unwrap());
    let full = Arc::new(Full { inner: Arc::clone(&inner), left: Arc::new(AtomicU64::new(left)) });
    let disk = DiskManagerBuilder::default().with_mode(DiskManagerMode::Custom(full));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(PeakPool::new(pool)).with_disk_manager_builder(disk);
    (runtime.build_arc().unwrap(), inner)
}

#[tokio::test]
async fn a_full_disk_is_an_error_that_says_so_and_leaves_nothing() {
    let mut random = StdRng::seed_from_u64(3);
    let mut failed = 0;
    for _ in 0..60 {
        let (runtime, inner) = full_after(random.random_range(0..400_000), 60_000);
        let ours = shared_join((rows(2, 15, 200).0, rows(2, 15, 200).0), JoinType::Full);
        if let Err(error) = run(ours, &context(Arc::clone(&runtime), 100)).await {
            let text = error.to_string();
            assert!(text.contains("free disk space") && text.contains("no storage space"), "{text}");
            failed += 1;
        }
        eventually("nothing is reserved", || runtime.memory_pool.reserved() == 0).await;
        eventually("no file is left", || inner.spilling_progress().active_files_count == 0).await;
    }
    assert!((20..60).contains(&failed), "{failed} of 60 runs failed");
}
