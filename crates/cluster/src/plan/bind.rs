//! From a condition and a choice to what a host runs.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use annulus_cyclo::Condition as LocalCondition;
use annulus_join::{
    Alone, FilterColumn, JoinType, KeyPair, MergeCondition, OutputSpec, PairFilter, Partitions, Side, Sides,
};
use arrow::datatypes::{Field, Schema};
use datafusion::{
    error::DataFusionError,
    logical_expr::{Expr, utils::conjunction},
};

use super::{
    Condition, Scan,
    filter::Predicate,
    sql::{Sql, index},
};
use crate::{
    error::ClusterError,
    job::{Algorithm, Query},
};

/// What a host runs.
pub struct Bound {
    /// What is read of the left and the right side.
    pub scans: [Scan; 2],
    /// What comes out.
    pub output: OutputSpec,
    /// Equal keys and band, at their places in what is read.
    keys: KeyPlaces,
    /// What is said of it: keys, band, filters.
    pub shown: Shown,
}

/// A plan in words.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Shown {
    /// Conditions that the join itself looks for.
    pub keys: Vec<String>,
    /// Conditions that are evaluated for each pair that it finds.
    pub filter: Vec<String>,
    /// Conditions by which rows of the left and the right side are dropped when they are read.
    pub dropped: [Vec<String>; 2],
}

struct KeyPlaces {
    algorithm: Algorithm,
    merge: MergeCondition,
}

impl Bound {
    /// The local join, whose hash tables have so many partitions.
    pub fn condition(&self, partitions: Partitions) -> LocalCondition {
        let MergeCondition { equal, nulls_equal, .. } = &self.keys.merge;
        match self.keys.algorithm {
            Algorithm::Hash => LocalCondition::Hash {
                build: equal.iter().map(|keys| keys.build).collect(),
                probe: equal.iter().map(|keys| keys.probe).collect(),
                nulls_equal: *nulls_equal,
                partitions,
            },
            Algorithm::Merge => LocalCondition::Merge(self.keys.merge.clone()),
            Algorithm::Loops => LocalCondition::Any,
        }
    }
}

/// Plans what hosts do if `rotate` goes around and they find pairs by `algorithm`, which must go
/// with the condition.
///
/// # Errors
/// If an expression cannot be evaluated.
pub fn bind(condition: &Condition, query: &Query, rotate: Side, algorithm: Algorithm) -> Result<Bound, ClusterError> {
    Binder::new(condition, query, rotate.other(), algorithm).bind().map_err(|error| ClusterError::Condition {
        text: query.condition.clone().unwrap_or_default(),
        reason: error.strip_backtrace(),
    })
}

struct Binder<'a> {
    sql: &'a Sql,
    query: &'a Query,
    build: Side,
    algorithm: Algorithm,
    /// Pairs of keys that are equal, left and right.
    equal: Vec<&'a [Expr; 2]>,
    nulls_equal: bool,
    band: Option<&'a super::band::BandParts>,
    /// By which rows of a side are dropped when they are read.
    dropped: [Vec<Expr>; 2],
    /// What is evaluated for each pair.
    filter: Vec<Expr>,
    /// What the join itself looks for.
    keys: Vec<String>,
}

impl<'a> Binder<'a> {
    fn new(condition: &'a Condition, query: &'a Query, build: Side, algorithm: Algorithm) -> Self {
        let mut binder = Self {
            sql: &condition.sql,
            query,
            build,
            algorithm,
            equal: Vec::new(),
            nulls_equal: condition.nulls_equal,
            band: None,
            dropped: [Vec::new(), Vec::new()],
            filter: condition.rest.clone(),
            keys: Vec::new(),
        };
        binder.place_keys(condition);
        // Rows that come out without a partner must be there, whatever else is said of them.
        let emits = query.join.0.emits(Side::Left);
        for (side, alone) in [Side::Left, Side::Right].into_iter().zip([emits.build, emits.probe]) {
            let conditions = condition.alone[index(side)].iter().cloned();
            let to = if alone == Alone::Unmatched { &mut binder.filter } else { &mut binder.dropped[index(side)] };
            to.extend(conditions);
        }
        binder
    }

    /// Decides who looks for equal keys and the band: the join, or the filter.
    fn place_keys(&mut self, condition: &'a Condition) {
        let by_join = self.algorithm != Algorithm::Loops;
        for equal in &condition.equal {
            if by_join {
                self.equal.push(&equal.keys);
                self.keys.push(equal.whole.to_string());
            } else {
                self.filter.push(equal.whole.clone());
            }
        }
        let Some(band) = &condition.band else { return };
        let usable = band.band(self.build, KeyPair { build: 0, probe: 0 }).is_some();
        if self.algorithm == Algorithm::Merge && usable {
            self.band = Some(band);
            self.keys.extend(band.whole.iter().map(Expr::to_string));
        } else {
            self.filter.extend(band.whole.iter().cloned());
        }
    }

    fn bind(self) -> Result<Bound, DataFusionError> {
        let pairs: Vec<&[Expr; 2]> = self.equal.iter().copied().chain(self.band.map(|band| &band.keys)).collect();
        let (left, left_keys) = self.scan(Side::Left, pairs.iter().map(|keys| &keys[0]))?;
        let (right, right_keys) = self.scan(Side::Right, pairs.iter().map(|keys| &keys[1]))?;
        let places = left_keys.into_iter().zip(right_keys).map(|(left, right)| match self.build {
            Side::Left => KeyPair { build: left, probe: right },
            Side::Right => KeyPair { build: right, probe: left },
        });
        let mut equal: Vec<KeyPair> = places.collect();
        let band = self.band.and_then(|band| band.band(self.build, equal.pop()?));
        let filter = self.predicate([&left, &right])?;
        let out = |side: Side, scan: &Scan| (0..self.out(side).min(scan.kept)).collect();
        let schemas = Sides { left: Arc::clone(&left.schema), right: Arc::clone(&right.schema) };
        let output = OutputSpec::new(self.query.join.0, self.build, schemas)
            .with_columns(Sides { left: out(Side::Left, &left), right: out(Side::Right, &right) })
            .with_filter(filter);
        let text = |conditions: &[Expr]| conditions.iter().map(Expr::to_string).collect();
        let shown = Shown {
            keys: self.keys.clone(),
            filter: text(&self.filter),
            dropped: [text(&self.dropped[0]), text(&self.dropped[1])],
        };
        let merge = MergeCondition { equal, nulls_equal: self.nulls_equal, band };
        Ok(Bound { scans: [left, right], output, keys: KeyPlaces { algorithm: self.algorithm, merge }, shown })
    }

    /// Columns of a side that come out: all, or none.
    fn out(&self, side: Side) -> usize {
        use JoinType::{LeftAnti, LeftSemi, RightAnti, RightSemi};
        let comes_out = match self.query.join.0 {
            LeftSemi | LeftAnti => side == Side::Left,
            RightSemi | RightAnti => side == Side::Right,
            _ => true,
        };
        if comes_out { self.sql.sides[index(side)].1.fields().len() } else { 0 }
    }

    /// What is read of a side, and where its keys are.
    fn scan<'e>(
        &'e self,
        side: Side,
        keys: impl Iterator<Item = &'e Expr> + Clone,
    ) -> Result<(Scan, Vec<usize>), DataFusionError> {
        let schema = &self.sql.sides[index(side)].1;
        let columns_of = |exprs: &mut dyn Iterator<Item = &Expr>| -> BTreeSet<usize> {
            let columns = exprs.flat_map(|expr| self.sql.columns(expr));
            columns.filter(|column| column.0 == side).map(|column| column.1).collect()
        };
        let is_column = |expr: &&Expr| matches!(expr, Expr::Column(_));
        // All columns come out in their order; what else is needed follows, and last what only decides
        // which rows there are.
        let mut kept: Vec<usize> = (0..self.out(side)).collect();
        let plain = columns_of(&mut keys.clone().filter(is_column));
        let wanted = columns_of(&mut self.filter.iter());
        kept.extend(plain.union(&wanted).filter(|column| **column >= self.out(side)));
        let only_read = columns_of(&mut keys.clone().filter(|key| !is_column(key)).chain(&self.dropped[index(side)]));
        let mut columns = kept.clone();
        columns.extend(only_read.into_iter().filter(|column| !kept.contains(column)));

        let named: Vec<(Side, usize)> = columns.iter().map(|&column| (side, column)).collect();
        let (mut computed, mut places) = (Vec::new(), Vec::new());
        for key in keys {
            let column = self.sql.columns(key).first().map(|column| column.1);
            places.push(match kept.iter().position(|&kept| Some(kept) == column).filter(|_| is_column(&key)) {
                Some(place) => place,
                None => {
                    computed.push(self.sql.physical(key, &named)?);
                    kept.len() + computed.len() - 1
                }
            });
        }
        let filter = conjunction(self.dropped[index(side)].iter().cloned());
        let filter = filter.map(|filter| self.sql.physical(&filter, &named)).transpose()?;
        let fields = kept.iter().map(|&column| self.renamed(side, column));
        let schema = Scan::schema_of(fields, &computed, &schema.project(&columns)?)?;
        Ok((Scan { columns, kept: kept.len(), filter, computed, schema }, places))
    }

    /// A column as it comes out.
    fn renamed(&self, side: Side, column: usize) -> Field {
        let [left, right] = [0, 1].map(|side| &self.sql.sides[side].1);
        if side == Side::Left {
            return left.field(column).clone();
        }
        let both_come_out = self.out(Side::Left) > 0 && self.out(Side::Right) > 0;
        let field = right.field(column).clone();
        if both_come_out {
            field.with_name(names_beside(left, right, &self.query.suffix).swap_remove(column))
        } else {
            field
        }
    }

    /// The filter over what is read of both sides.
    fn predicate(&self, scans: [&Scan; 2]) -> Result<Option<Arc<dyn PairFilter>>, DataFusionError> {
        let Some(filter) = conjunction(self.filter.iter().cloned()) else { return Ok(None) };
        let named = self.sql.columns(&filter);
        let expr = self.sql.physical(&filter, &named)?;
        let place = |&(side, column): &(Side, usize)| {
            let columns = &scans[index(side)].columns;
            let index = columns.iter().position(|&read| read == column).unwrap_or_default();
            FilterColumn { side, index }
        };
        Ok(Some(Arc::new(Predicate { columns: named.iter().map(place).collect(), expr })))
    }
}

/// What the columns of the right side are called beside those of the left one: a name that the left
/// one has gets the suffix, as often as it takes until no other column has it.
fn names_beside(left: &Schema, right: &Schema, suffix: &str) -> Vec<String> {
    let names = |schema: &Schema| schema.fields().iter().map(|field| field.name().clone()).collect::<Vec<_>>();
    let mut taken: HashSet<String> = names(left).into_iter().chain(names(right)).collect();
    let beside = |mut name: String| {
        if left.column_with_name(&name).is_some() {
            while !suffix.is_empty() && !taken.insert(name.clone()) {
                name.push_str(suffix);
            }
        }
        name
    };
    names(right).into_iter().map(beside).collect()
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::DataType;

    use super::*;

    #[test]
    fn no_two_columns_have_the_same_name() {
        let schema = |names: &[&str]| {
            Schema::new(names.iter().map(|name| Field::new(*name, DataType::Int64, true)).collect::<Vec<_>>())
        };
        let (left, right) = (schema(&["id", "x", "x_right"]), schema(&["id", "x", "x_right", "x_right_right", "y"]));
        let names = names_beside(&left, &right, "_right");
        let mut all: Vec<&str> = names.iter().map(String::as_str).chain(["id", "x", "x_right"]).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), 8, "{names:?}");
        assert_eq!((names[0].as_str(), names[3].as_str(), names[4].as_str()), ("id_right", "x_right_right", "y"));
    }
}
