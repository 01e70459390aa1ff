//! Sorted fragments on their way from host to host.
//!
//! Keys in Arrow's row format, of strings, nested types, many columns, or with nulls that match,
//! take many instructions a row to derive. They are derived once, where the fragment is sorted, and
//! travel as a hidden column, so that every host only merges. Keys of a fixed width do not travel:
//! they are the columns with their bits in another order.

use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray, RecordBatch};

use super::{MergeFragment, MergeJoin, keys::Keys};
use crate::{
    error::JoinError,
    hash::{Fragment, FragmentFormat},
};

impl MergeJoin {
    /// Returns the format of the fragments that [`fragments`](Self::fragments) makes, the same on
    /// all hosts.
    ///
    /// # Errors
    /// If a column of the probe side has a type that cannot be sent.
    pub fn format(&self) -> Result<FragmentFormat, JoinError> {
        let schema = &self.probe.schema;
        if self.encoder.keys_travel() { FragmentFormat::beside_bytes(schema) } else { FragmentFormat::keyless(schema) }
    }

    /// Converts a sorted batch of [`prepare_probe`](Self::prepare_probe) to fragments of at most
    /// `max_bytes` encoded bytes, with the keys that travel. `format` is that of this join.
    ///
    /// # Errors
    /// If the batch has other columns, or a row does not fit in a fragment.
    pub fn fragments(
        &self,
        format: &Arc<FragmentFormat>,
        batch: &RecordBatch,
        threads: usize,
        max_bytes: usize,
    ) -> Result<Vec<Fragment>, JoinError> {
        let keys = self.encoder.bytes(batch, &self.probe.keys.equal)?.map(|keys| Arc::new(keys) as ArrayRef);
        Fragment::in_order_beside(format, batch, keys, threads, max_bytes)
    }

    /// Prepares a fragment of [`fragments`](Self::fragments), of this host or another one, for
    /// joining. It refers to the fragment's memory. O(rows), without a look at keys that have
    /// travelled.
    ///
    /// # Errors
    /// [`JoinError::Fragment`] if its columns are not those of the probe side.
    pub fn arrived(&self, fragment: &Fragment) -> Result<MergeFragment, JoinError> {
        let Some(keys) = fragment.hidden() else { return self.fragment(fragment.batch()) };
        let keys = keys.as_binary_opt().filter(|_| self.encoder.keys_travel());
        let keys = keys.ok_or(JoinError::Fragment { what: "its columns are not those of the probe side" })?;
        let batch = self.checked(fragment.batch())?;
        let keys: Keys = self.encoder.beside(keys.clone(), &batch, &self.probe.keys)?;
        Ok(MergeFragment { batch, keys })
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringArray};

    use super::*;
    use crate::{KeyPair, MergeCondition, PairSink, RequiredPairs};

    #[derive(Default)]
    struct Pairs(Vec<(u32, u32)>);

    impl PairSink for Pairs {
        fn pairs(&mut self, build: &[u32], probe: &[u32]) -> Result<(), JoinError> {
            self.0.extend(build.iter().copied().zip(probe.iter().copied()));
            Ok(())
        }
    }

    fn batch(texts: &[&str]) -> RecordBatch {
        let numbers: Int64Array = (0..texts.len() as i64).map(Some).collect();
        let texts: StringArray = texts.iter().copied().map(Some).collect();
        let columns: [(&str, ArrayRef); 2] = [("text", Arc::new(texts)), ("number", Arc::new(numbers))];
        RecordBatch::try_from_iter(columns).unwrap()
    }

    fn join(column: usize) -> MergeJoin {
        let equal = vec![KeyPair { build: column, probe: column }];
        let schema = batch(&[]).schema();
        MergeJoin::try_new(&MergeCondition { equal, ..MergeCondition::default() }, &schema, &schema).unwrap()
    }

    /// A host that receives a fragment looks at the keys that travelled, and not at the columns.
    #[test]
    fn keys_that_travel_are_not_derived_again() {
        let join = join(0);
        let format = Arc::new(join.format().unwrap());
        let (sorted, others) = (batch(&["a", "b", "c"]), batch(&["x", "y", "z"]));
        let keys = join.encoder.bytes(&sorted, &[0]).unwrap().map(|keys| Arc::new(keys) as ArrayRef);
        let fragments = Fragment::in_order_beside(&format, &others, keys, 1, 1 << 12).unwrap();
        let build = join.prepare_build(vec![batch(&["b", "c", "y"])], 1).unwrap();
        let mut pairs = Pairs::default();
        join.probe(&build, &join.arrived(&fragments[0]).unwrap(), 0..3, RequiredPairs::All, &mut pairs).unwrap();
        assert_eq!(pairs.0, [(0, 1), (1, 2)]);
    }

    #[test]
    fn keys_of_a_fixed_width_stay_in_their_columns() {
        let join = join(1);
        let format = Arc::new(join.format().unwrap());
        let fragments = join.fragments(&format, &batch(&["a", "b"]), 1, 1 << 12).unwrap();
        assert!(fragments[0].hidden().is_none());
        // Fragments of another join.
        let other = self::join(0);
        assert!(matches!(other.fragments(&format, &batch(&["a"]), 1, 1 << 12), Err(JoinError::Fragment { .. })));
        let format = Arc::new(other.format().unwrap());
        let fragments = other.fragments(&format, &batch(&["a"]), 1, 1 << 12).unwrap();
        assert!(matches!(join.arrived(&fragments[0]), Err(JoinError::Fragment { .. })));
    }
}
