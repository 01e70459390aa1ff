//! A dataset of several hosts, one of which is lost and does not know it.

use std::{path::Path, sync::Arc};

use annulus_dataset::output::{
    Collection, Existing, Manifest, OutputError, OutputFormat, OutputOptions, Settings, WholeDataset,
};
use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};

/// The files of a member, which cannot be seen yet.
fn member(dir: &Path, number: usize) -> WholeDataset {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![number as i64; 3]))]).unwrap();
    let options = OutputOptions::new(Collection::member_dir(dir, number), OutputFormat::Parquet);
    let files = WholeDataset::create(&options, Settings::default(), schema, 1, 1 << 20).unwrap();
    files.write(0, &rows).unwrap();
    files
}

fn publish(dir: &Path, number: usize) -> Manifest {
    member(dir, number).seal().unwrap().publish().unwrap()
}

#[test]
fn others_start_over_beside_a_member_that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let first = Collection::begin(&dir, vec![0, 1], Existing::Refuse).unwrap();
    let lost = member(&dir, 1);
    drop(first);
    // It still has its number.
    let refused = Collection::begin(&dir, vec![0, 1], Existing::Refuse).err();
    assert!(matches!(refused, Some(OutputError::InUse(_))), "{refused:?}");
    let again = Collection::begin(&dir, vec![0, 2], Existing::Refuse).unwrap();
    let members = [publish(&dir, 0), publish(&dir, 2)];
    let whole = again.complete(Settings::default(), &members).unwrap();
    assert_eq!(whole.file_names().collect::<Vec<_>>(), ["host-00/part-00000.parquet", "host-02/part-00000.parquet"]);
    assert!(Collection::has(&dir, 0, &members[0]) && Collection::has(&dir, 2, &members[1]));
    // The one that is lost finds a dataset that is complete, and not with what it has.
    let late = lost.seal().unwrap().publish().unwrap();
    assert!(!Collection::has(&dir, 1, &late));
}
