//! What was measured of a machine: the costs of each strategy.

use std::{
    collections::HashMap,
    env, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, LazyLock},
    time::SystemTime,
};

use datafusion::{
    common::{config_err, stats::Precision},
    error::Result,
};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

pub use super::{
    demand::{Demand, Layout, Position, row_bytes},
    machine::{domains, machine},
};
use crate::config::{ExchangeStrategy, Strategy, Variant};

/// The version of the file's format. A profile of another version is not used.
pub const FORMAT: u32 = 2;

const VERSION: &str = env!("CARGO_PKG_VERSION");
/// Whether this program is optimized: builds without optimization have these assertions.
const OPTIMIZED: bool = !cfg!(debug_assertions);

/// The environment variable that names the profile of sessions with `annulus.profile = 'auto'`:
/// a file, or `none`. `auto` counts as not set.
pub const VARIABLE: &str = "ANNULUS_PROFILE";

/// The rows of a batch with which a profile is measured.
pub const BATCH_ROWS: usize = 8192;

/// What was measured of a machine, which `annulus calibrate` writes as JSON.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Profile {
    /// The version of the format, [`FORMAT`].
    pub format: u32,
    /// The version of Annulus that measured. A profile of another minor version is not used.
    pub annulus: String,
    /// Whether the program that measured was optimized. One that differs does not use the profile.
    pub optimized: bool,
    /// The machine, as [`machine`] describes it.
    pub machine: String,
    /// The number of worker threads that measured.
    pub threads: usize,
    /// What was measured of repartitions.
    pub cells: Vec<Cell>,
    /// What was measured of joins. Nothing in profiles of older releases.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joins: Option<JoinCosts>,
}

/// What the two ways to join on equal keys and a band cost, with all threads at work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct JoinCosts {
    /// Nanoseconds of a hash join for each pair of rows with equal keys, which its filter sees.
    pub pair_ns: f64,
    /// Nanoseconds of a band join for each row of both sides, which it reads, sorts and merges.
    pub row_ns: f64,
}

/// What was measured of repartitions of one kind.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// The number of input partitions.
    pub inputs: usize,
    /// The number of output partitions.
    pub outputs: usize,
    /// The layout of the rows.
    pub layout: Layout,
    /// The [bytes of a row](row_bytes).
    pub row_bytes: usize,
    /// Whether the consumers [read the rows](Position::reads).
    pub reads: bool,
    /// The number of rows of each run.
    pub rows: usize,
    /// The number of runs of each strategy, of which the costs are medians.
    pub rounds: usize,
    /// The cost of each strategy. Those of strategies that `auto` cannot choose are not read.
    #[serde(deserialize_with = "costs_of_known_strategies")]
    pub costs: Vec<Cost>,
}

/// What a strategy costs.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// The strategy, and the side that copies the rows.
    #[serde(rename = "way")]
    pub variant: Variant,
    /// Nanoseconds for a repartition of next to no rows.
    pub open_ns: f64,
    /// Further nanoseconds for each row, of elapsed time.
    pub row_ns: f64,
    /// The spread of the runs: the interquartile range of their times / the median.
    pub spread: f64,
    /// The spread of the runs of next to no rows, in the same unit.
    pub open_spread: f64,
}

impl Cost {
    /// Returns the nanoseconds for `rows`, or for a row if their number is not known.
    pub fn ns(&self, rows: Precision<usize>) -> f64 {
        match rows.get_value() {
            Some(&rows) => self.open_ns + rows as f64 * self.row_ns,
            None => self.row_ns,
        }
    }

    /// Returns the share of these nanoseconds by which runs differ: of runs of next to no rows
    /// where opening takes at least half of the time.
    pub(crate) fn noise(&self, rows: Precision<usize>) -> f64 {
        match rows.get_value() {
            Some(_) if self.open_ns * 2.0 >= self.ns(rows) => self.open_spread,
            _ => self.spread,
        }
    }
}

/// A cost as it is stored, whose strategy may be one that only older releases have.
#[derive(Deserialize)]
struct StoredCost {
    way: String,
    open_ns: f64,
    row_ns: f64,
    spread: f64,
    open_spread: f64,
}

fn costs_of_known_strategies<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Vec<Cost>, D::Error> {
    let known = |stored: StoredCost| {
        let StoredCost { way, open_ns, row_ns, spread, open_spread } = stored;
        let variant: Variant = way.parse().ok()?;
        let is_known = match variant.strategy {
            Strategy::Stock => true,
            Strategy::Exchange(strategy) => ExchangeStrategy::OWN.contains(&strategy),
        };
        is_known.then_some(Cost { variant, open_ns, row_ns, spread, open_spread })
    };
    Ok(Vec::<StoredCost>::deserialize(deserializer)?.into_iter().filter_map(known).collect())
}

/// The part of a profile that is the same in every format.
#[derive(Deserialize)]
struct Format {
    format: u32,
}

impl Profile {
    /// Creates a profile of this machine and version, for runs on `threads` worker threads.
    pub fn new(threads: usize, cells: Vec<Cell>) -> Self {
        let annulus = VERSION.to_owned();
        let (machine, joins) = (machine().to_owned(), None);
        Self { format: FORMAT, annulus, optimized: OPTIMIZED, machine, threads, cells, joins }
    }

    /// Adds what was measured of joins.
    #[must_use]
    pub fn with_joins(self, joins: JoinCosts) -> Self {
        Self { joins: Some(joins), ..self }
    }

    /// Reads the profile in the file at `path`.
    ///
    /// # Errors
    /// If the file cannot be read, or does not hold a profile of this format.
    pub fn read(path: &Path) -> Result<Self> {
        let shown = path.display();
        let remedy = || format!("write one with annulus calibrate, to '{shown}', or SET annulus.profile = 'none'");
        let text = match fs::read(path) {
            Ok(text) => text,
            Err(error) => return config_err!("annulus: cannot read profile '{shown}': {error}: {}", remedy()),
        };
        match serde_json::from_slice(&text) {
            // It may have other fields, too.
            Ok(Format { format }) if format != FORMAT => {
                config_err!("annulus: profile '{shown}' has format {format}, not {FORMAT}: {}", remedy())
            }
            found => found
                .and_then(|_| serde_json::from_slice(&text))
                .or_else(|error| config_err!("annulus: '{shown}' is not a profile: {error}: {}", remedy())),
        }
    }

    /// Returns why the costs do not hold for this program on this machine, if they do not.
    fn unusable(&self) -> Option<&'static str> {
        let minor = |version: &str| version.rsplit_once('.').map(|(minor, _)| minor.to_owned());
        if self.machine != machine() {
            Some("the profile is of another machine")
        } else if minor(&self.annulus) != minor(VERSION) {
            Some("the profile is of another version")
        } else if self.optimized != OPTIMIZED {
            Some("the profile is of a build with other optimization")
        } else {
            None
        }
    }

    /// Returns the measured kind of repartition that is most like `demand`: of the same layout and
    /// the same operator above, the one whose partitions and row bytes differ by the least factor.
    /// `None` if one of them differs by a factor of more than 4 in all kinds.
    pub fn nearest(&self, demand: &Demand) -> Option<&Cell> {
        let sizes = |cell: &Cell| {
            [(cell.inputs, demand.inputs), (cell.outputs, demand.outputs), (cell.row_bytes, demand.row_bytes)]
        };
        let distance = |cell: &Cell| {
            let factor = |(cell, demand): (usize, usize)| cell.max(1) as f64 / demand.max(1) as f64;
            sizes(cell).map(|sizes| factor(sizes).ln().abs()).iter().sum::<f64>()
        };
        let alike = |cell: &&Cell| {
            (cell.layout, cell.reads) == (demand.layout, demand.position.reads)
                && sizes(cell).into_iter().all(|(cell, demand)| are_close(cell, demand))
        };
        self.cells.iter().filter(alike).min_by(|one, other| distance(one).total_cmp(&distance(other)))
    }
}

/// Returns whether what was measured with one size holds for another: they differ by a factor of at
/// most 4.
pub(crate) fn are_close(one: usize, other: usize) -> bool {
    let (least, most) = (one.min(other).max(1), one.max(other));
    most <= least.saturating_mul(4)
}

/// Returns the file that `annulus calibrate` writes, in the user's folder for configuration, if
/// the user has one.
pub fn usual_path() -> Option<PathBuf> {
    Some(dirs::config_dir()?.join("annulus").join("profile.json"))
}

/// What a session knows of its machine.
#[derive(Clone, Debug)]
pub(crate) enum Known {
    /// This.
    Profile(Arc<Profile>),
    /// Nothing, and nothing was expected.
    Nothing,
    /// Nothing, because of this.
    Unusable(&'static str),
}

/// Returns what the value of `annulus.profile` names.
///
/// # Errors
/// If the option or the environment variable names a file that cannot be read as a profile. A file
/// at the usual path that cannot be read is reported as [`Known::Unusable`].
pub(crate) fn known(option: &str) -> Result<Known> {
    let named = named(option, env::var(VARIABLE).ok());
    let path = match named.as_deref() {
        Some("none") => return Ok(Known::Nothing),
        Some(path) => PathBuf::from(path),
        None => match usual_path() {
            Some(path) => path,
            None => return Ok(Known::Nothing),
        },
    };
    match cached(&path) {
        Ok(profile) => Ok(profile.unusable().map_or(Known::Profile(profile), Known::Unusable)),
        Err(error) if named.is_some() => Err(error),
        Err(_) if matches!(path.try_exists(), Ok(false)) => Ok(Known::Nothing),
        Err(_) => Ok(Known::Unusable("the profile cannot be read")),
    }
}

/// Returns the file that the option names, or else the environment variable.
pub(super) fn named(option: &str, variable: Option<String>) -> Option<String> {
    [Some(option.to_owned()), variable].into_iter().flatten().find(|value| !matches!(&value[..], "" | "auto"))
}

/// What differs when a file has changed.
#[derive(PartialEq)]
struct Stamp {
    changed: Option<SystemTime>,
    bytes: u64,
    /// A complete file that takes the place of another has another number.
    inode: u64,
}

impl Stamp {
    fn from_file(path: &Path) -> io::Result<Self> {
        let data = fs::metadata(path)?;
        #[cfg(unix)]
        let inode = std::os::unix::fs::MetadataExt::ino(&data);
        #[cfg(not(unix))]
        let inode = 0;
        Ok(Self { changed: data.modified().ok(), bytes: data.len(), inode })
    }
}

/// Reads a profile, unless it was read before and has not changed.
fn cached(path: &Path) -> Result<Arc<Profile>> {
    type Read = HashMap<PathBuf, (Stamp, Arc<Profile>)>;
    static READ: LazyLock<Mutex<Read>> = LazyLock::new(Mutex::default);

    let Ok(stamp) = Stamp::from_file(path) else { return Profile::read(path).map(Arc::new) };
    if let Some((then, profile)) = READ.lock().get(path)
        && *then == stamp
    {
        return Ok(Arc::clone(profile));
    }
    let profile = Arc::new(Profile::read(path)?);
    READ.lock().insert(path.to_owned(), (stamp, Arc::clone(&profile)));
    Ok(profile)
}

impl Serialize for Variant {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
