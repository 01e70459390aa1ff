//! The way in which texts of each length are found.

use std::{collections::BTreeMap, ops::RangeInclusive};

use super::{
    edit::{EditTexts, SMALL_GROUP},
    entries::Entries,
    segments::{MOST_SHARED, Scheme},
};

/// Longer texts are compared one by one with those of nearly the same length.
const LONGEST: usize = 4096;
/// The texts of a length of which a sample is made to choose a scheme.
const SAMPLE: usize = 1 << 13;
/// The slots of a table of hashes of the sample.
const SLOTS: usize = 1 << 16;
/// The time of a lookup that finds nothing, in nanoseconds.
const LOOKUP_NS: f64 = 7.0;

/// The scheme for texts of each length, chosen by an estimate of the time that a probe takes: segments
/// that are frequent are looked up in larger numbers together.
#[derive(Debug, Default)]
pub(super) struct Schemes {
    schemes: Vec<Scheme>,
    /// The lengths of texts, ascending, each with the number of a scheme. `None` stands for
    /// comparing all texts of the length.
    lengths: Vec<(usize, Option<usize>)>,
    /// The same for each length up to the longest text with a scheme.
    by_length: Vec<Option<u8>>,
    /// The number of all postings.
    pub(super) postings: u64,
}

/// The entries of a length that have keys with many entries.
#[derive(Default)]
struct Run {
    /// The ranges of entries.
    ranges: Vec<(u32, u32)>,
    entries: usize,
    /// The entries that an average entry has beside it, itself included.
    beside: f64,
}

impl Schemes {
    pub(super) fn choose(texts: &EditTexts, entries: &Entries, most: usize) -> Self {
        let schemes: Vec<Scheme> = (1..=MOST_SHARED).filter_map(|shared| Scheme::new(most, shared)).collect();
        let mut chosen = Self { schemes, ..Self::default() };
        for (length, run) in runs(texts, entries) {
            let scheme = if length <= LONGEST { chosen.cheapest(texts, entries, &run, most) } else { None };
            chosen.lengths.push((length, scheme));
            let Some(scheme) = scheme else { continue };
            chosen.postings += (run.entries * chosen.schemes[scheme].choices.len()) as u64;
            chosen.by_length.resize(length + 1, None);
            chosen.by_length[length] = Some(scheme as u8);
        }
        chosen
    }

    fn cheapest(&self, texts: &EditTexts, entries: &Entries, run: &Run, most: usize) -> Option<usize> {
        // The farther texts may be, the more of those with other characters have to be compared.
        let text_ns = 1.5 + 40.0 * (most as f64 / 8.0).min(1.0).powi(2);
        let lengths = (2 * most + 1) as f64;
        let mut best = (run.beside * text_ns, None);
        for (number, scheme) in self.schemes.iter().enumerate() {
            let lookups_ns = scheme.all_lookups() as f64 / lengths * LOOKUP_NS;
            if lookups_ns >= best.0 {
                continue;
            }
            let postings = postings_of_probe(texts, entries, run, scheme) / lengths;
            let cost = lookups_ns + postings * text_ns;
            if cost < best.0 {
                best = (cost, Some(number));
            }
        }
        best.1
    }

    pub(super) fn scheme(&self, number: usize) -> &Scheme {
        &self.schemes[number]
    }

    /// Returns the scheme for texts of a length, if they are in an index.
    #[inline]
    pub(super) fn with_length(&self, length: usize) -> Option<&Scheme> {
        let number = self.by_length.get(length).copied().flatten()?;
        Some(&self.schemes[number as usize])
    }

    /// Returns the lengths of the texts in a range.
    pub(super) fn with_lengths(&self, lengths: RangeInclusive<usize>) -> &[(usize, Option<usize>)] {
        let start = self.lengths.partition_point(|(length, _)| length < lengths.start());
        let end = self.lengths.partition_point(|(length, _)| length <= lengths.end());
        &self.lengths[start..end]
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let lookups = self.schemes.iter().map(|scheme| 12 * scheme.all_lookups()).sum::<usize>();
        lookups + 24 * self.lengths.capacity() + 2 * self.by_length.capacity()
    }
}

/// Returns the entries of each length that have keys with many entries.
fn runs(texts: &EditTexts, entries: &Entries) -> BTreeMap<usize, Run> {
    let mut runs = BTreeMap::<usize, Run>::new();
    let large =
        (0..entries.groups()).map(|group| entries.group(group)).filter(|group| group.len() > SMALL_GROUP as usize);
    for group in large {
        let mut start = group.start;
        while start < group.end {
            let length = texts.length(start);
            let end = (start..group.end).find(|&entry| texts.length(entry) != length).unwrap_or(group.end);
            let run = runs.entry(length).or_default();
            run.ranges.push((start, end));
            run.entries += (end - start) as usize;
            run.beside += f64::from(end - start).powi(2);
            start = end;
        }
    }
    runs.values_mut().for_each(|run| run.beside /= run.entries as f64);
    runs
}

/// Estimates the postings that a text reads among texts of a run, for all differences of length
/// together, if both sides are alike.
fn postings_of_probe(texts: &EditTexts, entries: &Entries, run: &Run, scheme: &Scheme) -> f64 {
    let step = run.entries.div_ceil(SAMPLE);
    let sample = run.ranges.iter().flat_map(|&(start, end)| start..end).step_by(step);
    let (mut counts, mut hashes) = (vec![0_u32; SLOTS], Vec::new());
    let mut lookups = vec![0_u32; scheme.choices.len()];
    let all = scheme.lookups.iter().flatten();
    all.for_each(|lookup| lookups[lookup.choice as usize] += 1);
    let sample: Vec<(u32, u64)> = sample.map(|entry| (entry, entries.key(entries.group_of(entry)))).collect();
    let mut postings = 0.0;
    let mut choices = vec![Vec::with_capacity(sample.len()); scheme.choices.len()];
    for &(entry, key) in &sample {
        texts.hashes(entry, scheme, key, &mut hashes);
        choices.iter_mut().zip(&hashes).for_each(|(choice, hash)| choice.push((hash >> 48) as usize % SLOTS));
    }
    for (slots, lookups) in choices.iter().zip(lookups) {
        slots.iter().for_each(|&slot| counts[slot] += 1);
        let met: f64 = slots.iter().map(|&slot| f64::from(counts[slot] - 1)).sum();
        slots.iter().for_each(|&slot| counts[slot] = 0);
        let sampled = sample.len() as f64;
        let by_chance = sampled * sampled / SLOTS as f64;
        postings += f64::from(lookups) * (met - by_chance).max(0.0) / sampled * step as f64;
    }
    postings
}
