//! Tables of the numbers in the thesis's text, each beside the same from this machine.

use annulus_charts::page::table;

use annulus_terminal::{statistics::TOO_SHORT, units::counted};

use super::{
    figures::{FLINK_PARTITIONS, FLINK_TUPLE_BYTES, Figure, lines_of},
    paper::{self, CLAIMS, Claim, FIRST_PAGES, Group, Quantity},
    results::Results,
};
use crate::{
    pages::{Line, OURS},
    reproduce::range,
};

impl Quantity {
    fn words(self) -> String {
        match self {
            Self::Throughput => "tuples per second".to_owned(),
            Self::Event(name) => name.replace('_', " "),
            Self::InstructionsPerCycle => "instructions per cycle".to_owned(),
        }
    }

    /// Returns its value in a line. `None` if it was not counted.
    fn value(self, line: &Line) -> Option<f64> {
        let event = |name: &str| line.counts.get(&format!("{name}_per_tuple")).copied().filter(|count| *count > 0.0);
        match self {
            Self::Throughput => Some(line.mtuples_per_s),
            Self::Event(name) => event(name),
            Self::InstructionsPerCycle => Some(event("instructions")? / event("cycles")?),
        }
    }
}

/// Lists the numbers that the text has for a figure of throughput.
pub(super) fn claims(results: &Results, figure: &Figure) -> String {
    let row = |claim: &Claim| {
        let Claim { partitions, quantity, of, others, published, .. } = claim;
        let partitions: Vec<_> = partitions.iter().map(usize::to_string).collect();
        vec![
            format!("{}: {} / {}", quantity.words(), of.name, others.name),
            partitions.join(", "),
            (*published).to_owned(),
            measured(&results.cells, results.cores, figure.tuple_bytes, claim),
        ]
    };
    let mut rows: Vec<_> = CLAIMS.iter().filter(|claim| claim.figure == figure.number).map(row).collect();
    if figure.number == FIRST_PAGES.figure {
        rows.extend(first_pages(results, figure));
    }
    if rows.is_empty() {
        return "<p>The thesis's text has no number for this figure.</p>".to_owned();
    }
    format!(
        "<p>Published in the text of section 4.2.2, on other hardware, with up to {}. Here: the least and the most \
         with {}.</p>\n{}",
        counted(paper::THREADS, "thread"),
        counted(results.cores as u64, "thread"),
        table(&["", "partitions", "published", "here"], &rows)
    )
}

/// Returns what the text has as a number, from the cells with `threads` threads.
fn measured(cells: &[Line], threads: usize, tuple_bytes: u32, claim: &Claim) -> String {
    let &Claim { partitions, quantity, of: group, others, .. } = claim;
    let (mut ratios, mut found) = (Vec::new(), Vec::new());
    for &partitions in partitions {
        let same = || lines_of(cells, tuple_bytes, partitions).filter(move |line| line.cell.threads == threads);
        let lines = |group: Group| same().filter(move |line| group.variants.contains(&line.variant.name()));
        let values = |group| lines(group).filter(|line| !line.too_short).filter_map(move |line| quantity.value(line));
        let mut rivals: Vec<_> = values(others).collect();
        if quantity == Quantity::Throughput {
            rivals = rivals.into_iter().reduce(f64::max).into_iter().collect();
        }
        ratios.extend(values(group).flat_map(|value| rivals.iter().map(move |rival| value / rival)));
        found.extend(lines(group).chain(lines(others)));
    }
    range(&ratios, |ratio| format!("{ratio:.2}")).unwrap_or_else(|| {
        let reason = match &found[..] {
            [] => "-",
            found if found.iter().all(|line| quantity.value(line).is_none()) => "not counted",
            found if found.iter().any(|line| line.too_short) => TOO_SHORT,
            _ => "-",
        };
        reason.to_owned()
    })
}

/// Returns the memory with which many partitions begin, by the pages of this machine's cells.
fn first_pages(results: &Results, figure: &Figure) -> [Vec<String>; 2] {
    let partitions = FIRST_PAGES.partitions;
    let of_variant = |name: &str, threads: usize| {
        let mut lines = lines_of(&results.cells, figure.tuple_bytes, partitions);
        let line = lines.find(|line| line.variant.name() == name && line.cell.threads == results.cores);
        gib(line.map(|line| (line.page_bytes * partitions * threads) as f64 / f64::from(1 << 20)))
    };
    let row = |what: &str, published: f64, here: String| {
        vec![format!("first pages: {what}"), partitions.to_string(), format!("{published} GiB"), here]
    };
    let shared = of_variant(paper::AGAINST_FLINK, 1);
    let local = of_variant("LocalPagesAndMerge", results.cores);
    [
        row("one for each partition", FIRST_PAGES.shared_gib, shared),
        row("one for each partition and thread", FIRST_PAGES.local_gib, local),
    ]
}

fn gib(mb: Option<f64>) -> String {
    mb.map_or("-".to_owned(), |mb| format!("{:.2} GiB", mb / 1024.0))
}

/// Lists the numbers that the text has for peak memory.
pub(super) fn memory(results: &Results) -> String {
    let lines = || results.memory.iter().filter(|line| line.cell.threads == paper::MEMORY_THREADS);
    let beyond = |name: &str| gib(lines().find(|line| line.variant.name() == name).map(|line| line.beyond_mb));
    let tuples = lines().next().map_or(0.0, |line| line.cell.tuples as f64 / 1e6);
    let on_pages = gib(lines().next().map(|line| line.peak_mb - line.beyond_mb));
    let row = |what: &str, published: String, here: String| vec![what.to_owned(), published, here];
    let rows = [
        row("tuples on pages", format!("{} GiB", paper::ON_PAGES_GIB), on_pages),
        row("Radix, beyond them", format!("{} GiB", paper::MATERIALISED_GIB), beyond("Radix")),
        row(
            "LocalPagesAndMerge, beyond them",
            format!("several GiB, at most {}", paper::LOCAL_PAGES_GIB),
            beyond("LocalPagesAndMerge"),
        ),
    ];
    format!(
        "<p>Published in the text of section 4.2.2, on other hardware: 67.2 million tuples, {} threads, pages of 5 \
         MiB. Here: {tuples:.1} million tuples, as many threads.</p>\n{}",
        paper::MEMORY_THREADS,
        table(&["", "published", "here"], &rows)
    )
}

/// Lists the number that the text has for Flink.
pub(super) fn flink(results: &Results) -> String {
    let ratio = |name: &str, tuple_bytes: u32| {
        let mut lines = lines_of(&results.cells, tuple_bytes, FLINK_PARTITIONS);
        let line = lines.find(|line| line.variant.name() == name && line.cell.threads == results.cores);
        let flink = results.flink.iter().find(|line| line.tuple_bytes == tuple_bytes);
        let ratio = line.zip(flink).map(|(line, flink)| line.peak_mb / flink.peak_mb);
        ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.2}"))
    };
    let row = |name: &str, published: &str| {
        let here = FLINK_TUPLE_BYTES.map(|tuple_bytes| ratio(name, tuple_bytes));
        [name, published].map(str::to_owned).into_iter().chain(here).collect()
    };
    let header = ["memory / Flink's", "published"].map(str::to_owned).into_iter();
    let header: Vec<_> = header.chain(FLINK_TUPLE_BYTES.map(|bytes| format!("{bytes} B, here"))).collect();
    format!(
        "<p>Published in section 4.3, on other hardware and for all sizes: {} of Flink's memory. Throughput is \
         'significantly faster', without a number.</p>\n{}",
        paper::MEMORY_OF_FLINK,
        table(
            &header.iter().map(String::as_str).collect::<Vec<_>>(),
            &[row(paper::AGAINST_FLINK, paper::MEMORY_OF_FLINK), row(OURS, "-")]
        )
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn line(variant: &str, partitions: usize, mtuples_per_s: f64, branch_misses: f64) -> Line {
        let line = json!({
            "variant": variant, "tuple_bytes": 16, "partitions": partitions, "threads": 2, "tuples": 1000,
            "mtuples_per_s": mtuples_per_s, "generate_s": 0.5, "shuffle_s": 0.5, "total_s": 1.0, "limit_share": 0.5,
            "copy_mtuples_per_s": 9.0, "copy_cached_mtuples_per_s": 9.0, "peak_mb": 1.0, "page_bytes": 65536,
            "page_sizes": [], "spread": 0.0, "too_short": false, "branch_misses_per_tuple": branch_misses,
            "instructions_per_tuple": 30.0, "cycles_per_tuple": 10.0 * mtuples_per_s,
        });
        serde_json::from_value(line).unwrap()
    }

    const SMB: Group = Group { name: "a", variants: &["Smb", "SmbBatched"] };
    const OTHERS: Group = Group { name: "b", variants: &["Radix", "Hybrid"] };

    fn claim(quantity: Quantity) -> Claim {
        Claim { figure: "4.4", partitions: &[32, 1024], quantity, of: SMB, others: OTHERS, published: "2" }
    }

    #[test]
    fn numbers_are_ratios_of_the_variants_that_the_text_names() {
        let branches = Quantity::Event("branch_misses");
        let mut cells = vec![
            line("Smb", 32, 6.0, 2.0),
            line("Radix", 32, 3.0, 1.0),
            line("Hybrid", 32, 4.0, 4.0),
            line("Smb", 1024, 9.0, 0.0),
            line("Hybrid", 1024, 3.0, 1.0),
            // Neither named, nor of this size.
            line("OnDemand", 32, 600.0, 900.0),
            line("Smb", 8, 600.0, 900.0),
        ];
        let here_of = |cells: &[Line], quantity| measured(cells, 2, 16, &claim(quantity));
        assert_eq!(here_of(&cells, Quantity::Throughput), "1.50 to 3.00", "the fastest of the others");
        assert_eq!(here_of(&cells, branches), "0.50 to 2.00", "each of the others, where something was counted");
        assert_eq!(here_of(&cells, Quantity::InstructionsPerCycle), "0.33 to 0.67");
        assert_eq!(here_of(&cells, Quantity::Event("tlb_misses")), "not counted");
        cells.iter_mut().for_each(|line| line.too_short = true);
        assert_eq!(here_of(&cells, Quantity::Throughput), TOO_SHORT);
        assert_eq!(here_of(&cells, branches), TOO_SHORT);
        assert_eq!(measured(&cells, 4, 16, &claim(branches)), "-", "no line");
    }

    #[test]
    fn claims_name_variants_that_there_are() {
        let all: Vec<_> = crate::pages::Variant::all().iter().map(|variant| variant.name()).collect();
        for claim in CLAIMS {
            let named = [claim.of, claim.others].into_iter().flat_map(|group| group.variants);
            assert!(named.clone().all(|name| all.contains(name)), "{claim:?}");
            let figure = super::super::figures::FIGURES.into_iter().find(|figure| figure.number == claim.figure);
            let measured = figure.unwrap().partitions;
            assert!(claim.partitions.iter().all(|partitions| measured.contains(partitions)), "{claim:?}");
        }
    }
}
