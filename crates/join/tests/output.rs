//! The input and the result of an output.

use std::sync::Arc;

use annulus_join::{
    BATCH_ROWS, FilterColumn, JoinError, JoinType, MergeBuild, MergeFragment, MergeJoin, Output, OutputSpec,
    PairFilter, PairSink, RequiredPairs, Side, SideRows, Sides, Writer,
};
use arrow::{
    array::{ArrayRef, AsArray, BooleanArray, Int32Array, RecordBatch, StringArray},
    datatypes::Int32Type,
};

/// A filter that answers with `keep`, called with the candidates.
struct Answers<F>(Vec<FilterColumn>, F);

impl<F: Fn(&RecordBatch) -> Result<BooleanArray, JoinError> + Send + Sync> PairFilter for Answers<F> {
    fn columns(&self) -> &[FilterColumn] {
        &self.0
    }

    fn keep(&self, candidates: &RecordBatch) -> Result<BooleanArray, JoinError> {
        (self.1)(candidates)
    }
}

fn side(rows: i32) -> RecordBatch {
    let numbers: ArrayRef = Arc::new(Int32Array::from_iter_values(0..rows));
    let texts: ArrayRef = Arc::new(StringArray::from_iter_values((0..rows).map(|row| format!("row {row}"))));
    RecordBatch::try_from_iter([("number", numbers), ("text", texts)]).unwrap()
}

fn spec(join: JoinType, filter: Option<Arc<dyn PairFilter>>) -> OutputSpec {
    let schema = side(0).schema();
    OutputSpec::new(join, Side::Left, Sides { left: Arc::clone(&schema), right: schema })
        .with_columns(Sides { left: vec![1], right: vec![0] })
        .with_filter(filter)
}

/// Gives pairs to an output in several parts, and returns its batches.
fn write(spec: OutputSpec, rows: i32, pairs: &[(u32, u32)]) -> Result<Vec<RecordBatch>, JoinError> {
    let output = Arc::new(Output::try_new(spec)?);
    let (build, probe) = (output.build_rows(&side(rows))?, output.probe_rows(&side(rows))?);
    let mut batches = Vec::new();
    let mut writer = Writer::new(Arc::clone(&output), |batch: RecordBatch| {
        assert_eq!(&batch.schema(), output.schema());
        batches.push(batch);
        Ok(())
    });
    for pairs in pairs.chunks(3000) {
        let (of_build, of_probe): (Vec<u32>, Vec<u32>) = pairs.iter().copied().unzip();
        writer.sink(&build, &probe).pairs(&of_build, &of_probe)?;
    }
    writer.finish()?;
    Ok(batches)
}

#[test]
fn what_threads_share_can_be_shared() {
    fn shared<T: Send + Sync>() {}
    shared::<(Output, SideRows, MergeJoin, MergeBuild, MergeFragment)>();
}

#[test]
fn batches_are_full_but_for_the_last() {
    let pairs: Vec<(u32, u32)> = (0..20_000).map(|pair| (pair % 100, pair / 100 % 100)).collect();
    let batches = write(spec(JoinType::Inner, None), 100, &pairs).unwrap();
    let rows: Vec<usize> = batches.iter().map(RecordBatch::num_rows).collect();
    assert_eq!(rows, [BATCH_ROWS, BATCH_ROWS, 20_000 - 2 * BATCH_ROWS]);
    let found = batches.iter().flat_map(|batch| {
        let (texts, numbers) = (batch.column(0).as_string::<i32>(), batch.column(1).as_primitive::<Int32Type>());
        (0..batch.num_rows()).map(|row| (texts.value(row).to_owned(), numbers.value(row))).collect::<Vec<_>>()
    });
    let expected = pairs.iter().map(|&(build, probe)| (format!("row {build}"), probe as i32));
    assert!(found.eq(expected));
}

#[test]
fn the_side_that_may_be_missing_is_nullable() {
    let nullable = |join| -> Vec<bool> {
        let mut spec = spec(join, None);
        let fields: Vec<_> =
            spec.schemas.left.fields().iter().map(|field| field.as_ref().clone().with_nullable(false)).collect();
        spec.schemas.left = Arc::new(arrow::datatypes::Schema::new(fields));
        spec.schemas.right = Arc::clone(&spec.schemas.left);
        Output::try_new(spec).unwrap().schema().fields().iter().map(|field| field.is_nullable()).collect()
    };
    assert_eq!(nullable(JoinType::Inner), [false, false]);
    assert_eq!(nullable(JoinType::Left), [false, true]);
    assert_eq!(nullable(JoinType::Right), [true, false]);
    assert_eq!(nullable(JoinType::Full), [true, true]);
    assert_eq!(nullable(JoinType::RightAnti), [false]);
}

#[test]
fn the_filter_sees_the_columns_that_it_asks_for() {
    let column = |side, index| FilterColumn { side, index };
    let columns = vec![column(Side::Right, 1), column(Side::Left, 0), column(Side::Right, 0)];
    let keep = |candidates: &RecordBatch| {
        let texts = candidates.column(0).as_string::<i32>();
        let (left, right) =
            (candidates.column(1).as_primitive::<Int32Type>(), candidates.column(2).as_primitive::<Int32Type>());
        let rows = 0..candidates.num_rows();
        assert!(rows.clone().all(|row| texts.value(row) == format!("row {}", right.value(row))));
        Ok(rows.map(|row| Some(left.value(row) < right.value(row))).collect())
    };
    let batches =
        write(spec(JoinType::Inner, Some(Arc::new(Answers(columns, keep)))), 3, &[(0, 0), (0, 1), (2, 1)]).unwrap();
    assert_eq!(batches.iter().map(RecordBatch::num_rows).sum::<usize>(), 1);
    assert_eq!(batches[0].column(0).as_string::<i32>().value(0), "row 0");
}

#[test]
fn a_filter_without_columns_is_asked_too() {
    let keep = |candidates: &RecordBatch| Ok((0..candidates.num_rows()).map(|row| Some(row % 2 == 0)).collect());
    let batches =
        write(spec(JoinType::Inner, Some(Arc::new(Answers(vec![], keep)))), 3, &[(0, 0), (0, 1), (2, 1)]).unwrap();
    assert_eq!(batches[0].num_rows(), 2);
}

#[test]
fn rows_without_columns_are_counted() {
    let spec = spec(JoinType::Inner, None).with_columns(Sides::default());
    let batches = write(spec, 3, &[(0, 0), (0, 1), (2, 1)]).unwrap();
    assert_eq!(batches[0].num_rows(), 3);
}

#[test]
fn what_goes_wrong_ends_the_join() {
    let fails = |_: &RecordBatch| Err(JoinError::Outside("division by zero".into()));
    let found = write(spec(JoinType::Inner, Some(Arc::new(Answers(vec![], fails)))), 2, &[(0, 0)]);
    assert_eq!(found.unwrap_err().to_string(), "division by zero");
    let short = |_: &RecordBatch| Ok(BooleanArray::from(vec![true]));
    let found = write(spec(JoinType::Inner, Some(Arc::new(Answers(vec![], short)))), 2, &[(0, 0), (1, 1)]);
    assert!(matches!(found, Err(JoinError::Outside(_))));
    for join in JoinType::ALL {
        let found = write(spec(join, None), 2, &[(0, 2)]);
        assert!(matches!(found, Err(JoinError::Fragment { .. })), "{join:?}");
    }
    let no_column = spec(JoinType::Inner, None).with_columns(Sides { left: vec![2], right: vec![0] });
    assert!(matches!(write(no_column, 1, &[]), Err(JoinError::Arrow(_))));
    let output = Output::try_new(spec(JoinType::Right, None)).unwrap();
    let fragment = output.probe_rows(&side(2)).unwrap();
    assert!(matches!(fragment.mark(&BooleanArray::from(vec![true])), Err(JoinError::Fragment { .. })));
}

#[test]
fn one_pair_is_enough_unless_pairs_come_out_or_are_filtered() {
    let wanted = |join, filtered: bool| {
        let filter =
            || Arc::new(Answers(vec![], |_: &RecordBatch| Ok(BooleanArray::from(vec![true])))) as Arc<dyn PairFilter>;
        Output::try_new(spec(join, filtered.then(filter))).unwrap().wanted()
    };
    assert_eq!(wanted(JoinType::Full, false), RequiredPairs::All);
    assert_eq!(wanted(JoinType::LeftSemi, false), RequiredPairs::OneOfEachBuildRow);
    assert_eq!(wanted(JoinType::RightAnti, false), RequiredPairs::OneOfEachProbeRow);
    assert_eq!(wanted(JoinType::RightAnti, true), RequiredPairs::All);
}
