//! A dataset of several hosts, in a folder that already holds files, or with a host that is lost
//! and has not noticed it.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use annulus_dataset::{
    CancelToken, Collection, Dataset, DatasetError, ExistingPolicy, InputOptions, Job, Manifest, NoProgress,
    OutputError, OutputFormat, OutputOptions, Placement, PlacementSpec, Settings, WholeDataset, split,
};
use arrow::{
    array::{Int64Array, RecordBatch},
    datatypes::{DataType, Field, Schema},
};

static SESSION: AtomicU64 = AtomicU64::new(0);

/// Returns the dataset of a member, which is not visible yet.
fn member(dir: &Path, number: usize) -> WholeDataset {
    let schema = Arc::new(Schema::new(vec![Field::new("x", DataType::Int64, false)]));
    let rows = RecordBatch::try_new(schema.clone(), vec![Arc::new(Int64Array::from(vec![number as i64; 3]))]).unwrap();
    let options = OutputOptions::new(Collection::member_dir(dir, number), OutputFormat::Parquet);
    let settings = Collection::member_settings(number, SESSION.fetch_add(1, Relaxed));
    let files = WholeDataset::create(&options, settings, schema, 1, 1 << 20, &|_| true).unwrap();
    files.write(0, &rows).unwrap();
    files
}

/// Writes a dataset of two members.
fn two(dir: &Path, existing: ExistingPolicy) -> Result<Manifest, OutputError> {
    let all = Collection::begin(dir, vec![0, 1], SESSION.fetch_add(1, Relaxed), existing)?;
    let manifest = all.complete(Settings::default(), &[publish(dir, 0), publish(dir, 1)])?;
    all.keep().map(|()| manifest)
}

fn publish(dir: &Path, number: usize) -> Manifest {
    member(dir, number).seal().unwrap().publish().unwrap()
}

#[test]
fn others_start_over_beside_a_member_that_is_lost() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let first = Collection::begin(&dir, vec![0, 1], 0, ExistingPolicy::Refuse).unwrap();
    let lost = member(&dir, 1);
    drop(first);
    // The lost member holds the lock of its folder.
    let refused = Collection::begin(&dir, vec![0, 1], 0, ExistingPolicy::Refuse).err();
    assert!(matches!(refused, Some(OutputError::InUse(_))), "{refused:?}");
    let again = Collection::begin(&dir, vec![0, 2], 0, ExistingPolicy::Refuse).unwrap();
    let members = [publish(&dir, 0), publish(&dir, 2)];
    let whole = again.complete(Settings::default(), &members).unwrap();
    assert_eq!(whole.file_names().collect::<Vec<_>>(), ["host-00/part-00000.parquet", "host-02/part-00000.parquet"]);
    again.keep().unwrap();
    // The lost member finds a complete dataset that does not contain its part.
    let late = lost.seal().unwrap().publish().unwrap();
    for (number, manifest) in [(0, &members[0]), (1, &late), (2, &members[1])] {
        Collection::remove_unless_in(&dir, number, manifest).unwrap();
    }
    let files = ["", "host-00/", "host-02/"].map(|folder| format!("{folder}.annulus/manifest"));
    let files = files.into_iter().chain(["host-00", "host-02"].map(|host| format!("{host}/part-00000.parquet")));
    assert_eq!(tree(&dir), files.map(|name| dir.join(name)).collect());
}

#[test]
fn a_dataset_is_not_removed_if_other_files_are_in_the_way() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    two(&dir, ExistingPolicy::Refuse).unwrap();
    for other in
        ["notes.txt", "host-01/notes.txt", "host-05/notes.txt", "host-backup/notes.txt"].map(|name| dir.join(name))
    {
        fs::create_dir_all(other.parent().unwrap()).unwrap();
        fs::write(&other, "mine").unwrap();
        let before = tree(&dir);
        let refused = two(&dir, ExistingPolicy::Overwrite).err();
        assert!(matches!(refused, Some(OutputError::Foreign { .. })), "{refused:?}");
        assert_eq!(tree(&dir), before);
        fs::remove_file(&other).unwrap();
        // This removes only an empty folder.
        fs::remove_dir(other.parent().unwrap()).ok();
    }
    two(&dir, ExistingPolicy::Overwrite).unwrap();
}

#[test]
fn a_member_that_is_late_does_not_remove_what_another_run_has_written() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let late = {
        let _given_up = Collection::begin(&dir, vec![0], 0, ExistingPolicy::Refuse).unwrap();
        publish(&dir, 1)
    };
    two(&dir, ExistingPolicy::Overwrite).unwrap();
    let before = tree(&dir);
    Collection::remove_unless_in(&dir, 1, &late).unwrap();
    assert_eq!(tree(&dir), before);
}

#[test]
fn a_dataset_that_is_not_kept_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let all = Collection::begin(&dir, vec![0, 1], 0, ExistingPolicy::Refuse).unwrap();
    all.complete(Settings::default(), &[publish(&dir, 0), publish(&dir, 1)]).unwrap();
    drop(all);
    assert!(!dir.exists());
}

/// Leaves the work folder of a run of `session` that was killed.
fn killed(dir: &Path, session: u64) {
    fs::create_dir_all(dir.join(".annulus/work")).unwrap();
    fs::write(dir.join(".annulus/work/session"), session.to_string()).unwrap();
}

#[test]
fn members_that_a_killed_run_has_published_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let first = publish(&dir, 0);
    let Settings::Member { session, .. } = first.settings else { panic!("{:?}", first.settings) };
    let refuses = |state: &str| {
        let before = tree(&dir.join("host-00"));
        let refused = two(&dir, ExistingPolicy::Refuse).err();
        assert!(matches!(refused, Some(OutputError::Taken { .. })), "{state}: {refused:?}");
        assert_eq!(tree(&dir.join("host-00")), before, "{state}");
    };
    refuses("no run was killed here: its collection is elsewhere");
    killed(&dir, session + 1_000);
    refuses("another run was killed, before this one wrote here");
    killed(&dir, session);
    assert_eq!(two(&dir, ExistingPolicy::Refuse).unwrap().rows, 6);
    killed(&dir, session);
    refuses("all was done but the cleaning");
}

/// The beginning of the settings of a join.
const OTHER: &str = r#""kind": "join", "left": "a", "right": "b", "on": [], "type": "inner""#;

#[test]
fn datasets_of_others_are_not_taken_for_a_members() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, elsewhere) = (folder.path().join("out"), folder.path().join("elsewhere"));
    two(&dir, ExistingPolicy::Refuse).unwrap();
    // A dataset with other settings, and a link to one.
    let other = dir.join("host-07");
    publish(&elsewhere, 7);
    fs::rename(elsewhere.join("host-07"), &other).unwrap();
    let manifest = fs::read_to_string(other.join(".annulus/manifest")).unwrap();
    fs::write(other.join(".annulus/manifest"), manifest.replace("\"kind\": \"member\"", OTHER)).unwrap();
    let before = tree(&dir);
    assert!(matches!(two(&dir, ExistingPolicy::Overwrite).err(), Some(OutputError::Foreign { .. })));
    assert_eq!(tree(&dir), before);
    fs::rename(&other, elsewhere.join("host-07")).unwrap();
    std::os::unix::fs::symlink(elsewhere.join("host-07"), &other).unwrap();
    assert!(matches!(two(&dir, ExistingPolicy::Overwrite).err(), Some(OutputError::Foreign { .. })));
    assert_eq!(tree(&dir), before);
}

/// Runs a job of one partition that replaces what is in `dir`.
fn replaces(dir: &Path, input: &Path) -> Result<(), DatasetError> {
    let dataset = Dataset::open(&[input.display().to_string()], &InputOptions::default())?;
    let by = vec!["x".to_owned()];
    let mut output = OutputOptions::new(dir, OutputFormat::Parquet);
    output.existing = ExistingPolicy::Overwrite;
    let placement = Placement::new(&PlacementSpec::Hash, &dataset.schema, &by, 1)?;
    let mut job = Job::new(dataset, placement, by, output);
    job.memory_limit = 64 << 20;
    split(&job, &NoProgress, &CancelToken::new()).map(drop)
}

/// Writes a dataset of two members, and an input for a job that is to replace it.
fn two_and_an_input(folder: &Path) -> (PathBuf, PathBuf) {
    let (dir, input) = (folder.join("out"), folder.join("x.csv"));
    two(&dir, ExistingPolicy::Refuse).unwrap();
    fs::write(&input, "x\n1\n2\n").unwrap();
    (dir, input)
}

#[test]
fn a_split_replaces_a_dataset_of_members_wholly_or_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, input) = two_and_an_input(folder.path());
    let before = tree(&dir);
    fs::write(dir.join("host-01/notes.txt"), "mine").unwrap();
    let refused = replaces(&dir, &input);
    assert!(matches!(refused, Err(DatasetError::Output(OutputError::Foreign { .. }))), "{refused:?}");
    fs::remove_file(dir.join("host-01/notes.txt")).unwrap();
    assert_eq!(tree(&dir), before);
    let writing = fs::create_dir_all(dir.join("host-01/.annulus"))
        .and_then(|()| fs::File::create(dir.join("host-01/.annulus/lock")))
        .unwrap();
    writing.lock().unwrap();
    let refused = replaces(&dir, &input);
    assert!(matches!(refused, Err(DatasetError::Output(OutputError::InUse(_)))), "{refused:?}");
    drop(writing);
    fs::remove_file(dir.join("host-01/.annulus/lock")).unwrap();
    assert_eq!(tree(&dir), before);
    replaces(&dir, &input).unwrap();
    assert_eq!(tree(&dir), [".annulus/manifest", "part-00000.parquet"].map(|name| dir.join(name)).into());
}

#[test]
fn a_split_does_not_follow_a_link_in_place_of_a_member() {
    let folder = tempfile::tempdir().unwrap();
    let (dir, input) = two_and_an_input(folder.path());
    let elsewhere = folder.path().join("elsewhere");
    fs::rename(dir.join("host-01"), &elsewhere).unwrap();
    std::os::unix::fs::symlink(&elsewhere, dir.join("host-01")).unwrap();
    let before = tree(folder.path());
    for refused in [replaces(&dir, &input), two(&dir, ExistingPolicy::Overwrite).map(drop).map_err(Into::into)] {
        assert!(matches!(refused, Err(DatasetError::Output(OutputError::Foreign { .. }))), "{refused:?}");
        assert_eq!(tree(folder.path()), before);
    }
}

#[test]
fn manifests_of_members_do_not_lead_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path().join("out");
    let all = Collection::begin(&dir, vec![0], 0, ExistingPolicy::Refuse).unwrap();
    let mut member = publish(&dir, 0);
    for name in ["../part.parquet", "other/part.parquet", "/part.parquet"] {
        member.partitions[0].files[0].name = name.to_owned();
        let refused = all.complete(Settings::default(), &[member.clone()]).err();
        assert!(matches!(refused, Some(OutputError::Damaged { .. })), "{refused:?}");
    }
}

/// Returns all files below a folder.
fn tree(dir: &Path) -> BTreeSet<PathBuf> {
    let paths = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    paths.flat_map(|path| if path.is_dir() { tree(&path) } else { BTreeSet::from([path]) }).collect()
}
