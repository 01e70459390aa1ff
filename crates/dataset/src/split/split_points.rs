//! Finds split points in a sample.

use arrow::{array::UInt32Array, compute::take, row::Rows};

use crate::{
    error::DatasetError,
    input::Dataset,
    placement::{PlacementSpec, converter, key_columns},
};

/// Finds split points that divide the rows of `dataset` into `partitions` parts of about the same
/// size. They come from a bounded sample of keys that is spread over the dataset's units. The same
/// dataset gives the same points.
///
/// At least 16,384 keys are sampled, and at least 64 for each partition, up to about a million.
/// With s keys in a range, its share of the rows is off by about `1 / sqrt(s)` of itself. If the
/// rows are in the keys' order and not all units are sampled, it is off by up to two sampled units
/// more. If few keys have most rows, there are fewer points, because rows of one key stay together.
///
/// # Errors
/// If the dataset can be read only once, is damaged, or its keys cannot be ordered.
pub fn sample_ranges(dataset: &Dataset, keys: &[String], partitions: usize) -> Result<PlacementSpec, DatasetError> {
    let columns = key_columns(&dataset.schema, keys)?;
    let converter = converter(&dataset.schema, &columns)?;
    let wanted = (partitions * SAMPLE_PER_PARTITION).clamp(MIN_SAMPLE, MAX_SAMPLE);
    let sample = dataset.sample(&columns, wanted)?;
    let order = converter.convert_columns(sample.columns())?;
    let mut rows: Vec<u32> = (0..sample.num_rows() as u32).collect();
    rows.sort_unstable_by(|&a, &b| order.row(a as usize).cmp(&order.row(b as usize)));
    let points = UInt32Array::from(quantiles(&order, &rows, partitions));
    let points = sample.columns().iter().map(|column| take(column, &points, None)).collect::<Result<_, _>>()?;
    Ok(PlacementSpec::Splits(points))
}

const SAMPLE_PER_PARTITION: usize = 64;
const MIN_SAMPLE: usize = 1 << 14;
const MAX_SAMPLE: usize = 1 << 20;

/// Returns rows that begin ranges of about equal size, at most `partitions - 1`. They ascend
/// strictly, and none has the smallest key. `sorted` has the rows of `keys` in order.
fn quantiles(keys: &Rows, sorted: &[u32], partitions: usize) -> Vec<u32> {
    let key = |place: usize| keys.row(sorted[place] as usize);
    let (mut points, mut last) = (vec![], 0);
    for point in 1..partitions {
        // If the quantile falls on the key of the point before, the next key begins the range.
        let mut place = (point * sorted.len() / partitions).max(last);
        while place < sorted.len() && key(place) <= key(last) {
            place += 1;
        }
        if place >= sorted.len() {
            break;
        }
        points.push(sorted[place]);
        last = place;
    }
    points
}
