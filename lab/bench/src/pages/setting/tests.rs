use super::*;

fn setting(memory_bytes: u64) -> Setting {
    Setting {
        page_sizes: vec![5 << 20],
        our_page_bytes: None,
        layout: PageLayout::Slotted,
        sizes: TupleSizes::Fixed,
        keys: Keys::Uniform,
        rounds: 1,
        buffer_bytes: 1 << 20,
        batch_tuples: None,
        memory_bytes,
        limit_bytes: 1,
        clock: Clock::Wall,
        counters: false,
        stream_bytes: None,
    }
}

fn cell(partitions: usize, threads: usize) -> Cell {
    Cell { tuple_bytes: 16, partitions, threads, tuples: 1_000_000 }
}

fn skipped(setting: &Setting, cell: Cell) -> Vec<&'static str> {
    let (fitting, skipped) = setting.fitting(&cell, &Variant::all()).unwrap();
    let fits = |variant: &Variant| fitting.iter().any(|(fitting, _)| fitting == variant);
    let missing = Variant::all().into_iter().filter(|variant| !fits(variant)).map(Variant::name);
    let missing: Vec<_> = missing.collect();
    assert_eq!(skipped.len(), missing.len());
    assert!(missing.iter().all(|name| skipped.iter().any(|line| line.contains(name))), "{skipped:?}");
    missing
}

#[test]
fn variants_with_a_page_for_each_partition_and_thread_are_skipped_first() {
    let gib = 1 << 30;
    assert_eq!(skipped(&setting(20 * gib), cell(1024, 2)), Vec::<&str>::new());
    assert_eq!(skipped(&setting(8 * gib), cell(1024, 2)), ["OnDemandLocalPages", "LocalPagesAndMerge", "BestCase"]);
    assert_eq!(skipped(&setting(8 * gib), cell(1024, 1)), Vec::<&str>::new());
    assert_eq!(skipped(&setting(2 * gib), cell(1024, 2)).len(), Variant::all().len() - 1, "ours fits");
    assert_eq!(skipped(&setting(1 << 20), cell(2, 1)).len(), Variant::all().len());
}

#[test]
fn the_tuples_of_the_paper_are_scaled_down_to_the_memory() {
    let all = Variant::all();
    assert_eq!(setting(u64::MAX).default_tuples(100, &all), PAPER_TUPLES);
    let memory = 12 << 30;
    let tuples = setting(memory).default_tuples(100, &all);
    assert!(tuples < PAPER_TUPLES && tuples.is_multiple_of(100_000), "{tuples}");
    assert!(tuples * (108 + 108 + 100) < memory / 6 * 5 + (1 << 30), "{tuples}");
    assert!(setting(memory).default_tuples(16, &all) == PAPER_TUPLES);
    assert!(setting(1).default_tuples(16, &all) > 0);
}

#[test]
fn memory_is_bounded_by_the_machine_and_by_what_is_free() {
    assert_eq!(default_memory_bytes(Some(1000), None), 600);
    assert_eq!(default_memory_bytes(Some(1000), Some(900)), 600);
    assert_eq!(default_memory_bytes(Some(1000), Some(100)), 90);
    assert_eq!(default_memory_bytes(None, None), u64::MAX);
}

#[test]
fn an_invalid_page_size_is_an_error() {
    let setting = Setting { page_sizes: vec![5000], ..setting(1 << 30) };
    assert!(setting.fitting(&cell(2, 1), &Variant::all()).is_err());
}

#[test]
fn page_sizes_that_fit_and_may_pay_are_tried() {
    let sizes = vec![5 << 20, 64 << 10, 1 << 20, 64 << 10];
    let setting = |memory_bytes| Setting { page_sizes: sizes.clone(), ..setting(memory_bytes) };
    let tried = |setting: Setting, partitions, name: &str| {
        let (fitting, _) = setting.fitting(&cell(partitions, 2), &Variant::all()).unwrap();
        fitting.into_iter().find(|(variant, _)| variant.name() == name).map(|(_, sizes)| sizes)
    };
    assert_eq!(tried(setting(8 << 30), 2, "Smb"), Some(vec![64 << 10, 1 << 20, 5 << 20]));
    // A million tuples take 23 MiB.
    assert_eq!(tried(setting(8 << 30), 64, "Smb"), Some(vec![64 << 10, 1 << 20]), "64 pages of 5 MiB are too many");
    assert_eq!(tried(setting(8 << 30), 64, "LocalPagesAndMerge"), Some(vec![64 << 10]));
    assert_eq!(tried(setting(8 << 30), 4096, "LocalPagesAndMerge"), Some(vec![64 << 10]), "the smallest is tried");
    assert_eq!(tried(setting(150 << 20), 64, "Smb"), Some(vec![64 << 10]), "others do not fit");
    assert_eq!(tried(setting(8 << 30), 64, "Ranges"), Some(vec![512 << 10]));
}

#[test]
fn a_stream_needs_memory_for_the_pages_on_their_way() {
    let stream = Setting { stream_bytes: Some(4 << 20), ..setting(1 << 30) };
    let cell = Cell { tuples: 1 << 30, ..cell(4, 2) };
    let (fitting, skipped) = stream.fitting(&cell, &Variant::all()).unwrap();
    assert_eq!(fitting.len(), Variant::all().len() - 3);
    assert!(skipped.iter().any(|line| line.starts_with("skipped: Radix does not stream: it keeps all")), "{skipped:?}");
}
