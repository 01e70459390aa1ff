//! The variants that are compared.

use std::{fmt, sync::LazyLock};

use annulus_baselines::{
    generator::Placement,
    partitioner::{Partitioner, Ranges, best_cases, paper},
};
use annulus_pages::{memory::Pool, partition::Stores};
use clap::{ValueEnum, builder::PossibleValue};
use serde::{Deserialize, Deserializer, Serialize, de::Error as _};

/// A variant of the shuffle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(into = "String")]
pub struct Variant {
    name: &'static str,
    kind: Kind,
}

/// The origin of a variant. The paper's variants have an index in the lists of `annulus_baselines`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Paper(usize),
    BestCase(usize),
    Ours,
}

/// The name of Annulus's partitioner.
pub const OURS: &str = "Ranges";

impl Variant {
    /// The partitioner of Annulus.
    pub const OURS: Self = Self { name: OURS, kind: Kind::Ours };

    /// Returns the paper's variants, its best cases, and ours.
    pub fn all() -> Vec<Self> {
        let paper = paper().into_iter().enumerate().map(|(i, way)| Self { name: way.name(), kind: Kind::Paper(i) });
        let best =
            best_cases().into_iter().enumerate().map(|(i, way)| Self { name: way.name(), kind: Kind::BestCase(i) });
        paper.chain(best).chain([Self::OURS]).collect()
    }

    /// Returns its name in reports.
    pub fn name(self) -> &'static str {
        self.name
    }

    /// Returns whether it is Annulus's.
    pub fn is_ours(self) -> bool {
        self.kind == Kind::Ours
    }

    /// Returns whether it is one of the paper's designs, neither a best case nor ours.
    pub fn is_paper(self) -> bool {
        self.paper_number().is_some()
    }

    /// Returns its number among the paper's designs, if it is one of them.
    pub fn paper_number(self) -> Option<usize> {
        match self.kind {
            Kind::Paper(number) => Some(number),
            Kind::BestCase(_) | Kind::Ours => None,
        }
    }

    /// Returns the places where it may put tuples.
    pub(super) fn placement(self) -> Placement {
        match self.kind {
            Kind::BestCase(_) => Placement::Any,
            Kind::Paper(_) | Kind::Ours => Placement::ByKey,
        }
    }

    /// Returns whether each thread has its own page for each partition.
    pub(super) fn has_local_pages(self) -> bool {
        matches!(self.name, "OnDemandLocalPages" | "LocalPagesAndMerge" | "BestCase")
    }

    /// Returns whether it keeps all tuples in memory before it places them.
    pub(super) fn materialises(self) -> bool {
        self.name == "Radix"
    }

    /// Returns whether it hands pages on while it reads tuples.
    ///
    /// # Errors
    /// The reason why it does not.
    pub(super) fn streams(self) -> Result<(), &'static str> {
        match self.kind {
            Kind::Paper(index) => paper()[index].streams(),
            Kind::BestCase(index) => best_cases()[index].streams(),
            Kind::Ours => Ok(()),
        }
    }

    /// Returns a new partitioner. Ours takes its pages from `pool`.
    pub(super) fn partitioner(self, pool: &Pool) -> Box<dyn Partitioner> {
        match self.kind {
            Kind::Paper(index) => paper().swap_remove(index),
            Kind::BestCase(index) => best_cases().swap_remove(index),
            Kind::Ours => Box::new(Ranges { pool: pool.clone(), stores: Stores::Auto }),
        }
    }
}

impl From<Variant> for String {
    fn from(variant: Variant) -> Self {
        variant.name.to_owned()
    }
}

impl<'de> Deserialize<'de> for Variant {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let name = String::deserialize(from)?;
        let named = Self::all().into_iter().find(|variant| variant.name == name);
        named.ok_or_else(|| D::Error::custom(format!("unknown variant '{name}'")))
    }
}

impl fmt::Display for Variant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl ValueEnum for Variant {
    fn value_variants<'a>() -> &'a [Self] {
        static ALL: LazyLock<Vec<Variant>> = LazyLock::new(Variant::all);
        &ALL
    }

    fn to_possible_value(&self) -> Option<PossibleValue> {
        Some(PossibleValue::new(self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_the_partitioner_of_that_name() {
        let pool = Pool::new(4096, 1 << 20).unwrap();
        for variant in Variant::all() {
            assert_eq!(variant.partitioner(&pool).name(), variant.name());
            assert_eq!(<Variant as ValueEnum>::from_str(&variant.name().to_lowercase(), true), Ok(variant));
        }
        assert_eq!(Variant::all().iter().filter(|variant| variant.has_local_pages()).count(), 3);
        assert_eq!(Variant::all().iter().filter(|variant| variant.materialises()).count(), 1);
    }
}
