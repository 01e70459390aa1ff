//! Joins cities with their countries by hash, on one thread, and prints the output:
//! `cargo run -p annulus-join --example local_join`

use std::{error::Error, sync::Arc};

use annulus_join::{
    BuildSide, Fragment, FragmentFormat, HashConfig, JoinType, Keys, Output, OutputSpec, Partitions, Side, Sides,
    Writer,
};
use arrow::{
    array::{ArrayRef, RecordBatch, StringArray},
    util::pretty::print_batches,
};

fn table(key: &str, keys: &[&str], name: &str, names: &[&str]) -> Result<RecordBatch, Box<dyn Error>> {
    let column = |values: &[&str]| Arc::new(StringArray::from(values.to_vec())) as ArrayRef;
    Ok(RecordBatch::try_from_iter([(key, column(keys)), (name, column(names))])?)
}

fn main() -> Result<(), Box<dyn Error>> {
    let countries = table("code", &["CH", "NO"], "country", &["Switzerland", "Norway"])?;
    let cities = table("code", &["CH", "NO", "CH", "??"], "city", &["Zurich", "Oslo", "Bern", "Atlantis"])?;
    let keys = |side: &RecordBatch| Keys::new(&side.schema(), &[0], false);

    // The build side is prepared once; fragments of the probe side are joined with it one by one.
    let partitions = Partitions::for_rows(countries.num_rows());
    let build = BuildSide::prepare(keys(&countries)?, vec![countries.clone()], &HashConfig::new(partitions))?;
    let format = Arc::new(FragmentFormat::new(keys(&cities)?, partitions)?);
    let fragments = Fragment::prepare(&format, vec![cities.clone()], 1, 1 << 20)?;

    let schemas = Sides { left: countries.schema(), right: cities.schema() };
    let spec =
        OutputSpec::new(JoinType::Right, Side::Left, schemas).with_columns(Sides { left: vec![1], right: vec![1] });
    let output = Arc::new(Output::try_new(spec)?);
    let build_rows = output.build_rows(build.batch())?;
    let mut writer = Writer::new(Arc::clone(&output), |batch| Ok(print_batches(&[batch])?));
    for fragment in &fragments {
        let rows = output.probe_rows(fragment.batch())?;
        for morsel in fragment.morsels(1) {
            build.probe(fragment, &morsel, &mut writer.sink(&build_rows, &rows))?;
        }
        // The join type is RIGHT: a city without a country is output too.
        output.probe_alone(&rows, 0..fragment.batch().num_rows(), |batch| Ok(print_batches(&[batch])?))?;
    }
    Ok(writer.finish()?)
}
