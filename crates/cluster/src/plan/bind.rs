//! Plans what a host runs, from a condition and a choice.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use annulus_cyclo::Condition as LocalCondition;
use annulus_join::{
    Alone, FilterColumn, KeyPair, MergeCondition, Output, OutputSpec, PairFilter, Partitions, Side, Sides,
};
use arrow::datatypes::{Field, Schema, SchemaRef};
use datafusion::{
    error::DataFusionError,
    logical_expr::{Expr, utils::conjunction},
};

use super::{
    Condition, Projection, Scan,
    filter::Predicate,
    select::Selection,
    sql::{Sql, reason},
};
use crate::{
    error::ClusterError,
    job::{Algorithm, Query},
};

/// The plan of one host.
pub struct Bound {
    /// The columns read of the left and the right side.
    pub scans: Sides<Scan>,
    /// The rows and columns that the join outputs.
    pub output: OutputSpec,
    /// The expressions that are evaluated over the output, if the query lists any.
    pub projection: Option<Projection>,
    /// The number of columns of the left and the right side that the join outputs. They are the
    /// first ones that are read.
    pub(super) outputs: Sides<usize>,
    /// Equal keys and band, by their places in the columns that are read.
    keys: KeyPlaces,
    /// The plan as text.
    pub shown: Shown,
}

/// A plan as SQL text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Conditions that the join algorithm itself evaluates.
    pub keys: Vec<String>,
    /// Conditions that are evaluated for each pair that it finds.
    pub filter: Vec<String>,
    /// Conditions that drop rows of the left and the right side while they are read.
    pub dropped: Sides<Vec<String>>,
    /// The expressions of the query's list, if it has one.
    pub select: Option<Vec<String>>,
    /// The columns read of the left and the right side.
    pub read: Sides<Vec<String>>,
}

struct KeyPlaces {
    algorithm: Algorithm,
    merge: MergeCondition,
}

impl Bound {
    /// Returns the columns of the result.
    ///
    /// # Errors
    /// If a column does not exist.
    pub fn schema(&self) -> Result<SchemaRef, ClusterError> {
        match &self.projection {
            Some(projection) => Ok(Arc::clone(projection.schema())),
            None => Ok(Arc::clone(Output::try_new(self.output.clone())?.schema())),
        }
    }

    /// Returns the condition of the local join. Hash tables have `partitions` partitions.
    pub fn condition(&self, partitions: Partitions) -> LocalCondition {
        let MergeCondition { equal, nulls_equal, .. } = &self.keys.merge;
        match self.keys.algorithm {
            Algorithm::Hash => LocalCondition::Hash {
                build: equal.iter().map(|keys| keys.build).collect(),
                probe: equal.iter().map(|keys| keys.probe).collect(),
                nulls_equal: *nulls_equal,
                partitions,
            },
            Algorithm::Merge => LocalCondition::Merge(Box::new(self.keys.merge.clone())),
            Algorithm::Loops => LocalCondition::Any,
        }
    }
}

/// Plans what each host runs if `rotate` is the rotating side. The algorithm must fit the
/// condition.
///
/// # Errors
/// If an expression is invalid or cannot be evaluated.
pub fn bind(condition: &Condition, query: &Query, rotate: Side, algorithm: Algorithm) -> Result<Bound, ClusterError> {
    let selection = Selection::new(&condition.sql, query)?;
    let binder = Binder::new(condition, query, selection.as_ref(), rotate.other(), algorithm);
    let columns = Sides::from_fn(|side| binder.out(side));
    let mut bound = binder.bind().map_err(|error| ClusterError::Condition {
        text: query.condition.clone().unwrap_or_default(),
        reason: reason(&error),
    })?;
    if let Some(selection) = selection {
        bound.projection = Some(selection.bind(&bound.output, columns)?);
        bound.shown.select = Some(selection.shown());
    }
    Ok(bound)
}

struct Binder<'a> {
    sql: &'a Sql,
    query: &'a Query,
    selection: Option<&'a Selection>,
    build: Side,
    algorithm: Algorithm,
    /// Pairs of keys that are equal, left and right.
    equal: Vec<&'a Sides<Expr>>,
    nulls_equal: bool,
    band: Option<&'a super::band::BandParts>,
    /// Conditions that drop rows of a side while they are read.
    dropped: Sides<Vec<Expr>>,
    /// Conditions that are evaluated for each pair.
    filter: Vec<Expr>,
    /// Conditions that the join algorithm itself evaluates.
    keys: Vec<String>,
}

impl<'a> Binder<'a> {
    fn new(
        condition: &'a Condition,
        query: &'a Query,
        selection: Option<&'a Selection>,
        build: Side,
        algorithm: Algorithm,
    ) -> Self {
        let mut binder = Self {
            sql: &condition.sql,
            query,
            selection,
            build,
            algorithm,
            equal: Vec::new(),
            nulls_equal: condition.nulls_equal,
            band: None,
            dropped: Sides::default(),
            filter: condition.rest.clone(),
            keys: Vec::new(),
        };
        binder.place_keys(condition);
        // Rows that are output without a partner must not be dropped, whatever conditions they
        // fail.
        let emits = query.join.0.emits(Side::Left);
        for (side, alone) in Side::BOTH.into_iter().zip([emits.build, emits.probe]) {
            let conditions = condition.alone[side].iter().cloned();
            let to = if alone == Alone::Unmatched { &mut binder.filter } else { &mut binder.dropped[side] };
            to.extend(conditions);
        }
        binder
    }

    /// Decides whether the join algorithm or the filter evaluates the equal keys and the band.
    fn place_keys(&mut self, condition: &'a Condition) {
        let by_join = self.algorithm != Algorithm::Loops;
        for equal in &condition.equal {
            if by_join {
                self.equal.push(&equal.keys);
                let Sides { left, right } = equal.keys.as_ref().map(|key| self.sql.text(key));
                let op = if condition.nulls_equal { "IS NOT DISTINCT FROM" } else { "=" };
                self.keys.push(format!("{left} {op} {right}"));
            } else {
                self.filter.push(equal.whole.clone());
            }
        }
        let Some(band) = &condition.band else { return };
        let usable = band.band(self.build, KeyPair { build: 0, probe: 0 }).is_some();
        if self.algorithm == Algorithm::Merge && usable {
            self.band = Some(band);
            self.keys.extend(band.predicates.iter().map(|part| self.sql.text(part)));
        } else {
            self.filter.extend(band.predicates.iter().cloned());
        }
    }

    fn bind(self) -> Result<Bound, DataFusionError> {
        let pairs: Vec<&Sides<Expr>> = self.equal.iter().copied().chain(self.band.map(|band| &band.keys)).collect();
        let (left, left_keys) = self.scan(Side::Left, pairs.iter().map(|keys| &keys.left))?;
        let (right, right_keys) = self.scan(Side::Right, pairs.iter().map(|keys| &keys.right))?;
        let places = left_keys.into_iter().zip(right_keys).map(|(left, right)| match self.build {
            Side::Left => KeyPair { build: left, probe: right },
            Side::Right => KeyPair { build: right, probe: left },
        });
        let mut equal: Vec<KeyPair> = places.collect();
        let band = self.band.and_then(|band| band.band(self.build, equal.pop()?));
        let filter = self.predicate(Sides { left: &left, right: &right })?;
        // The columns to output are read first.
        let out = |side: Side| (0..self.out(side).len()).collect();
        let schemas = Sides { left: Arc::clone(&left.schema), right: Arc::clone(&right.schema) };
        let output = OutputSpec::new(self.query.join.0, self.build, schemas)
            .with_columns(Sides { left: out(Side::Left), right: out(Side::Right) })
            .with_filter(filter);
        let text = |conditions: &[Expr]| conditions.iter().map(|part| self.sql.text(part)).collect();
        let read = |side: Side, scan: &Scan| {
            let schema = &self.sql.sides[side].1;
            scan.columns.iter().map(|&column| schema.field(column).name().clone()).collect()
        };
        let shown = Shown {
            keys: self.keys.clone(),
            filter: text(&self.filter),
            dropped: self.dropped.as_ref().map(|dropped| text(dropped)),
            select: None,
            read: Sides { left: read(Side::Left, &left), right: read(Side::Right, &right) },
        };
        let merge = MergeCondition { equal, nulls_equal: self.nulls_equal, band, high_key: None, second: None };
        let keys = KeyPlaces { algorithm: self.algorithm, merge };
        let outputs = Sides::from_fn(|side| self.out(side).len());
        Ok(Bound { scans: Sides { left, right }, output, projection: None, outputs, keys, shown })
    }

    /// Returns the columns of a side that the join outputs, in ascending order: those that the
    /// query's list uses, or all of them.
    fn out(&self, side: Side) -> Vec<usize> {
        let all = self.sql.sides[side].1.fields().len();
        match self.selection {
            _ if !self.query.join.0.outputs(side) => Vec::new(),
            None => (0..all).collect(),
            Some(selection) => selection.columns(side),
        }
    }

    /// Plans the scan of a side. Also returns the places of its keys.
    fn scan<'e>(
        &'e self,
        side: Side,
        keys: impl Iterator<Item = &'e Expr> + Clone,
    ) -> Result<(Scan, Vec<usize>), DataFusionError> {
        let schema = &self.sql.sides[side].1;
        let columns_of = |exprs: &mut dyn Iterator<Item = &Expr>| -> BTreeSet<usize> {
            let columns = exprs.flat_map(|expr| self.sql.columns(expr));
            columns.filter(|column| column.0 == side).map(|column| column.1).collect()
        };
        let is_column = |expr: &&Expr| matches!(expr, Expr::Column(_));
        // First the columns to output, then other keys and columns of the filter. Last come the
        // columns that only decide which rows are kept.
        let out = self.out(side);
        let mut kept = out.clone();
        let plain = columns_of(&mut keys.clone().filter(is_column));
        let wanted = columns_of(&mut self.filter.iter());
        kept.extend(plain.union(&wanted).filter(|column| !out.contains(column)));
        let only_read = columns_of(&mut keys.clone().filter(|key| !is_column(key)).chain(&self.dropped[side]));
        let mut columns = kept.clone();
        columns.extend(only_read.into_iter().filter(|column| !kept.contains(column)));

        let named: Vec<(Side, usize)> = columns.iter().map(|&column| (side, column)).collect();
        let (mut computed, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            let column = self.sql.columns(key).first().map(|column| column.1);
            places.push(match kept.iter().position(|&kept| Some(kept) == column).filter(|_| is_column(&key)) {
                Some(place) => place,
                None => {
                    computed.push((self.sql.physical(key, &named)?, self.sql.text(key)));
                    kept.len() + computed.len() - 1
                }
            });
        }
        let filter = conjunction(self.dropped[side].iter().cloned());
        let filter = match filter {
            Some(filter) => Some((self.sql.physical(&filter, &named)?, self.sql.text(&filter))),
            None => None,
        };
        let fields = self.renamed(side, &kept).into_iter();
        let schema = Scan::schema_of(fields, &computed, &schema.project(&columns)?)?;
        Ok((Scan { columns, kept: kept.len(), filter, computed, schema }, places))
    }

    /// Returns the fields of these columns with their names in the output.
    fn renamed(&self, side: Side, columns: &[usize]) -> Vec<Field> {
        let Sides { left, right } = self.sql.sides.as_ref().map(|(_, schema)| schema);
        let join = self.query.join.0;
        if side == Side::Left || !(join.outputs(Side::Left) && join.outputs(Side::Right)) {
            return columns.iter().map(|&column| self.sql.sides[side].1.field(column).clone()).collect();
        }
        let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
        let names = names_beside(&names(left), &names(right), &self.query.suffix);
        columns.iter().map(|&column| right.field(column).clone().with_name(&names[column])).collect()
    }

    /// Compiles the filter over the columns that are read of both sides.
    fn predicate(&self, scans: Sides<&Scan>) -> Result<Option<Arc<dyn PairFilter>>, DataFusionError> {
        let Some(filter) = conjunction(self.filter.iter().cloned()) else { return Ok(None) };
        let named = self.sql.columns(&filter);
        let (expr, text) = (self.sql.physical(&filter, &named)?, self.sql.text(&filter));
        let place = |&(side, column): &(Side, usize)| {
            let columns = &scans[side].columns;
            let index = columns.iter().position(|&read| read == column).unwrap_or_default();
            FilterColumn { side, index }
        };
        Ok(Some(Arc::new(Predicate { columns: named.iter().map(place).collect(), expr, text })))
    }
}

/// Returns the names of the right side's columns beside others. A name that another column has gets
/// the suffix, repeated until it is unique.
pub(super) fn names_beside(others: &[String], right: &[String], suffix: &str) -> Vec<String> {
    let mut taken: HashSet<String> = others.iter().chain(right).cloned().collect();
    let others: HashSet<&String> = others.iter().collect();
    let beside = |name: &String| {
        let mut name = name.clone();
        if others.contains(&name) {
            while !suffix.is_empty() && !taken.insert(name.clone()) {
                name.push_str(suffix);
            }
        }
        name
    };
    right.iter().map(beside).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_columns_have_the_same_name() {
        let owned = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        let (left, right) = (owned(&["id", "x", "x_right"]), owned(&["id", "x", "x_right", "x_right_right", "y"]));
        let names = names_beside(&left, &right, "_right");
        let mut all: Vec<&str> = names.iter().map(String::as_str).chain(["id", "x", "x_right"]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "{names:?}");
        assert_eq!((names[0].as_str(), names[3].as_str(), names[4].as_str()), ("id_right", "x_right_right", "y"));
    }
}
