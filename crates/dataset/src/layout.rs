//! How the files of a dataset are partitioned by key, according to its manifest.

use std::{collections::HashMap, path::Path, sync::Arc};

use arrow::{
    array::ArrayRef,
    datatypes::{DataType, Field, FieldRef, Schema, SchemaRef},
};
use thiserror::Error;

use crate::{
    column_types::view_of,
    manifest::{KeyType, Manifest, PartitionSettings, PlacementRule, list_text},
    placement::{is_our_hash, points_from_text},
};

/// The partitioning of a dataset by key: which files have the rows of each partition.
///
/// ```
/// use annulus_dataset::{
///     CancelToken, Dataset, InputOptions, JobSpec, KeyRule, OutputFormat, OutputOptions, NoProgress, split,
/// };
///
/// # let folder = tempfile::tempdir()?;
/// # let path = |name: &str| folder.path().join(name).to_str().expect("a UTF-8 path").to_owned();
/// # std::fs::write(path("orders.csv"), "id,amount\n1,10\n2,20\n3,30\n")?;
/// let output = OutputOptions::new(path("parts"), OutputFormat::Parquet);
/// let mut spec = JobSpec::new(vec![path("orders.csv")], output);
/// spec.by = vec!["id".to_owned()];
/// spec.into = Some(4);
/// split(&spec.plan()?, &NoProgress, &CancelToken::new())?;
///
/// let dataset = Dataset::open(&[path("parts")], &InputOptions::default())?;
/// let layout = dataset.layout?;
/// assert_eq!((layout.keys, layout.partitions.len()), (vec!["id".to_owned()], 4));
/// assert!(matches!(layout.rule, KeyRule::Hash { .. }));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct KeyLayout {
    /// The key columns.
    pub keys: Vec<String>,
    /// The rule by which rows were placed.
    pub rule: KeyRule,
    /// The files of each partition, as positions in [`Dataset::files`](crate::Dataset::files). A
    /// partition without rows has none.
    pub partitions: Vec<Vec<usize>>,
}

/// The rule by which the rows of a partitioned dataset were placed.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum KeyRule {
    /// By `hash % N`, with the row hash of DataFusion's `RepartitionExec`.
    Hash {
        /// The type of each key when it was hashed. Equal values of another type may hash
        /// differently.
        types: Vec<DataType>,
    },
    /// By split points; see [`PlacementSpec::Splits`](crate::PlacementSpec::Splits).
    Ranges {
        /// A column of split points for each key, of the type of its column.
        points: Vec<ArrayRef>,
    },
}

/// The reason why no partitioning by key is known for a dataset.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum NoLayout {
    /// The input is not one folder that a run has written.
    #[error("it is not one folder with a manifest")]
    NoManifest,
    /// The manifest has another version, or does not say how rows were placed.
    #[error("its manifest does not say how rows were placed, or is of another version")]
    Unknown,
    /// Rows were placed by a rule that is neither a hash nor ranges of the key.
    #[error("its rows were placed {0}")]
    Rule(&'static str),
    /// Rows were placed by a hash that this version does not compute.
    #[error("its rows were placed by the row hash of another version of DataFusion; partition them again")]
    OtherHash,
    /// Key columns are stored with a different type than they were hashed with.
    #[error("key columns are stored with a different type than they were hashed with ({0})")]
    KeyTypes(String),
    /// A key column is not in the files, or has another type than the manifest says.
    #[error("its key column '{0}' is not in the files as the manifest says")]
    Column(String),
    /// The names of the key columns are ambiguous: the manifest is of version 1, which separates them by
    /// commas.
    #[error("a column has a comma in its name, so the key '{0}' is ambiguous")]
    Ambiguous(String),
    /// Appended rows were placed by another rule than the rows before them.
    #[error("its appended rows were placed by another rule than its first rows")]
    Append,
    /// The files in the folder differ from the files that the manifest lists.
    #[error("its files differ from the files of the partitions in its manifest")]
    Files,
}

impl KeyLayout {
    /// Returns the layout of files that a manifest lists: those at `paths`, all of the dataset in
    /// `folder`, with the columns of `schema`.
    pub(crate) fn from_manifest<'a>(
        folder: &Path,
        manifest: &Manifest,
        schema: &SchemaRef,
        paths: impl Iterator<Item = &'a Path>,
    ) -> Result<Self, NoLayout> {
        let settings = settings_of(manifest)?;
        let (keys, rule) = match &settings.placement {
            PlacementRule::Unknown => return Err(NoLayout::Unknown),
            PlacementRule::Hash { hash, .. } if !is_our_hash(hash.as_deref()) => return Err(NoLayout::OtherHash),
            PlacementRule::KeyGroups { .. } => return Err(NoLayout::Rule("by key groups")),
            PlacementRule::Values { .. } => return Err(NoLayout::Rule("by value")),
            PlacementRule::RoundRobin => return Err(NoLayout::Rule("in turn")),
            PlacementRule::Hash { texts_as_views, .. } => {
                let told = hashed_types(settings)?;
                let keys = keys_of(manifest, settings, schema)?;
                let fields = keys.iter().filter_map(|key| schema.field_with_name(key).ok());
                let view = |own: &DataType| view_of(own).filter(|_| *texts_as_views).unwrap_or_else(|| own.clone());
                let hashed = |field: &Field| told.get(field.name().as_str()).cloned();
                let types = fields.map(|field| hashed(field).unwrap_or_else(|| view(field.data_type()))).collect();
                (keys, KeyRule::Hash { types })
            }
            PlacementRule::Ranges { points } => {
                let keys = keys_of(manifest, settings, schema)?;
                let points = points_from_text(schema, &keys, points).map_err(|_| NoLayout::Unknown)?;
                (keys, KeyRule::Ranges { points })
            }
        };
        let partitions = partitions_of(folder, manifest, settings, paths).ok_or(NoLayout::Files)?;
        if let KeyRule::Ranges { points } = &rule {
            // With fewer points than that, the last partitions are empty.
            let used = points[0].len() + 1;
            if used > partitions.len() || partitions[used..].iter().any(|files| !files.is_empty()) {
                return Err(NoLayout::Files);
            }
        }
        Ok(Self { keys, rule, partitions })
    }

    /// Returns the columns with keys of the types that they were hashed as, where these are other
    /// encodings of their values. Plain texts of Parquet files stay: DataFusion itself reads them as
    /// views.
    pub(crate) fn as_hashed(&self, schema: &SchemaRef, is_parquet: bool) -> SchemaRef {
        let KeyRule::Hash { types } = &self.rule else { return Arc::clone(schema) };
        let field = |field: &FieldRef| {
            let (own, key) = (field.data_type(), self.keys.iter().position(|key| key == field.name()));
            match key.map(|key| &types[key]) {
                Some(hashed) if is_encoded(own, hashed) && !(is_parquet && view_of(own).is_some()) => {
                    Arc::new(field.as_ref().clone().with_data_type(hashed.clone()))
                }
                _ => Arc::clone(field),
            }
        };
        let fields: Vec<_> = schema.fields().iter().map(field).collect();
        Arc::new(Schema::new_with_metadata(fields, schema.metadata().clone()))
    }
}

/// Returns whether texts or bytes of type `own` have the type `hashed` in another layout. Dictionaries
/// are left out: users see their type, and Arrow 59 casts nulls among their values to empty views.
fn is_encoded(own: &DataType, hashed: &DataType) -> bool {
    own != hashed && view_of(own).is_some_and(|view| view == *hashed)
}

/// Returns the settings of a split, whose appends have placed their rows as the first run has.
fn settings_of(manifest: &Manifest) -> Result<&PartitionSettings, NoLayout> {
    let Some(first) = manifest.settings.partition().filter(|_| manifest.is_known()) else {
        let is_ambiguous = manifest.columns.iter().any(|column| column.name.contains(','));
        let key = manifest.settings.ambiguous_key().filter(|_| is_ambiguous && manifest.is_known());
        return Err(key.map_or(NoLayout::Unknown, |key| NoLayout::Ambiguous(key.to_owned())));
    };
    let has_texts = first.has_texts(&manifest.columns);
    let is_alike = |append: &PartitionSettings| {
        (&first.by, first.into, &first.key_types) == (&append.by, append.into, &append.key_types)
            && first.placement.is_like(&append.placement, has_texts)
    };
    let mut appends = manifest.appends.iter().map(|append| append.settings.partition());
    if appends.all(|append| append.is_some_and(is_alike)) { Ok(first) } else { Err(NoLayout::Append) }
}

/// Returns the types of keys that were hashed as another type than the files' types tell.
fn hashed_types(settings: &PartitionSettings) -> Result<HashMap<&str, DataType>, NoLayout> {
    fn hashed(key: &KeyType) -> Option<(&str, DataType)> {
        let data_type: DataType = key.data_type.parse().ok()?;
        (!data_type.is_nested()).then_some((&key.column, data_type))
    }
    let hashed = settings.key_types.iter().map(hashed).collect::<Option<_>>();
    hashed.ok_or_else(|| NoLayout::KeyTypes(list_text(&settings.key_types)))
}

/// Returns the names of the key columns, which must have the types that the manifest says.
fn keys_of(manifest: &Manifest, settings: &PartitionSettings, schema: &SchemaRef) -> Result<Vec<String>, NoLayout> {
    let key = |name: &String| {
        let told = manifest.columns.iter().find(|column| column.name == *name);
        let is_as_told = |field: &&Field| told.is_some_and(|column| column.data_type == field.data_type().to_string());
        let field = schema.field_with_name(name).ok().filter(is_as_told);
        field.map(|_| name.clone()).ok_or_else(|| NoLayout::Column(name.clone()))
    };
    settings.by.iter().map(key).collect()
}

/// Returns the positions of each partition's files; `None` unless the manifest lists exactly the
/// files at `paths`, in partitions that are numbered from 0.
fn partitions_of<'a>(
    folder: &Path,
    manifest: &Manifest,
    settings: &PartitionSettings,
    paths: impl Iterator<Item = &'a Path>,
) -> Option<Vec<Vec<usize>>> {
    let is_numbered = manifest.partitions.iter().enumerate().all(|(number, entry)| entry.partition == number);
    if !is_numbered || manifest.partitions.len() != settings.into?.get() {
        return None;
    }
    let mut places: HashMap<&Path, usize> = paths.zip(0..).collect();
    let mut place = |name: &str| places.remove(folder.join(name).as_path());
    let partitions =
        manifest.partitions.iter().map(|entry| entry.files.iter().map(|file| place(&file.name)).collect()).collect();
    places.is_empty().then_some(partitions)?
}
