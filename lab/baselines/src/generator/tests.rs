use annulus_pages::tuples::Tuples;

use super::*;

fn all(generator: &Generator) -> TupleBatch {
    let (mut all, mut batch) = (TupleBatch { offsets: vec![0], ..TupleBatch::default() }, TupleBatch::default());
    let mut reader = generator.reader(0, 1);
    while reader.fill(&mut batch) {
        let tuples: Tuples<'_> = batch.tuples(generator.payload()).unwrap();
        all.keys.extend(tuples.keys());
        for index in 0..tuples.len() {
            all.bytes.extend(tuples.payload(index));
            all.offsets.push(all.bytes.len() as u32);
        }
    }
    all
}

#[test]
fn splitmix64_is_vignas() {
    let outputs = [0, 1, 1_234_567].map(splitmix64);
    assert_eq!(outputs, [0xE220_A839_7B1D_CDAF, 0x910A_2DEC_8902_5CC1, 0x599E_D017_FB08_FC85]);
}

#[test]
fn tuples_are_the_formulas() {
    let generator = Generator::new(5, 42, Keys::Uniform, Payload::Fixed(10), 2).unwrap();
    let batch = all(&generator);
    assert_eq!(batch.keys, [3184996902, 3127504016, 4215613714, 4159304696, 3136182003]);
    assert_eq!(batch.bytes[40..], [4, 0, 0, 0, 0xBD, 0x79, 0x37, 0x9E, 0x76, 0xF3]);
    for (index, number) in (0..5_u32).enumerate() {
        let payload = &batch.bytes[index * 10..][..10];
        let words = [number, number.wrapping_add(0x9E37_79B9), number.wrapping_add(0x3C6E_F372)];
        assert_eq!(payload, &words.map(u32::to_le_bytes).concat()[..10]);
    }
}

#[test]
fn all_sizes_and_batches_give_the_same_tuples() {
    for payload in [0, 1, 3, 4, 12, 13, 96]
        .map(Payload::Fixed)
        .into_iter()
        .chain([0, 2, 50].map(Payload::UpTo))
        .chain([0, 48].map(Payload::Near))
    {
        let make = |batch| all(&Generator::new(1000, 7, Keys::Zipf(0.9), payload, batch).unwrap());
        let (one, many) = (make(1), make(333));
        assert_eq!((one.keys, one.bytes, one.offsets), (many.keys, many.bytes, many.offsets), "{payload:?}");
    }
}

#[test]
fn zipf_keys_are_as_frequent_as_their_ranks() {
    let draws = 1 << 20;
    let batch = all(&Generator::new(draws, 3, Keys::Zipf(1.0), Payload::Fixed(0), 4096).unwrap());
    let mut counts = std::collections::HashMap::new();
    batch.keys.iter().for_each(|key| *counts.entry(key).or_insert(0_u32) += 1);
    let mut counts: Vec<_> = counts.into_values().collect();
    counts.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    // The harmonic number of 2^20.
    let harmonic = 14.44;
    for (rank, count) in (1..=20).zip(counts) {
        let expected = draws as f64 / harmonic / f64::from(rank);
        // A rank's share is a multiple of 2^-12, so its error is up to half of that.
        let error = draws as f64 / 4096.0 * 0.6 + 4.0 * expected.sqrt();
        assert!((f64::from(count) - expected).abs() < error, "rank {rank}: {count}, expected {expected}");
    }
}

#[test]
fn near_sizes_have_their_mean_and_spread() {
    let generator = Generator::new(1 << 16, 3, Keys::Uniform, Payload::Near(96), 1).unwrap();
    let sizes: Vec<f64> = (0..1 << 16).map(|number| generator.payload_bytes(number) as f64).collect();
    let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
    let spread = (sizes.iter().map(|size| (size - mean).powi(2)).sum::<f64>() / sizes.len() as f64).sqrt();
    assert!((95.0..97.0).contains(&mean) && (0.28..0.30).contains(&(spread / 96.0)), "{mean} and {spread}");
    let within = sizes.iter().filter(|size| (*size - mean).abs() < spread).count() as f64 / sizes.len() as f64;
    assert!((0.63..0.71).contains(&within), "{within} within one deviation");
    assert!(sizes.iter().all(|&size| size <= 192.0));
}

#[test]
fn zipf_of_exponent_0_is_even() {
    let batch = all(&Generator::new(1 << 18, 3, Keys::Zipf(0.0), Payload::Fixed(0), 4096).unwrap());
    let mut counts = [0; 16];
    batch.keys.iter().for_each(|key| counts[(key % 16) as usize] += 1);
    assert!(counts.iter().all(|count| (15_700..17_100).contains(count)), "{counts:?}");
}

#[test]
fn what_cannot_be_generated_is_refused() {
    let new = |tuples, keys, payload, batch| Generator::new(tuples, 0, keys, payload, batch).err();
    assert!(new(u64::from(u32::MAX), Keys::Uniform, Payload::Fixed(4), 1).is_none());
    assert!(new(1 << 32, Keys::Uniform, Payload::Fixed(4), 1).is_some());
    assert!(new(1, Keys::Uniform, Payload::Fixed(4), 0).is_some());
    assert!(new(1, Keys::Uniform, Payload::UpTo(1 << 20), 1 << 12).is_some());
    assert!(new(1, Keys::Zipf(f64::NAN), Payload::Fixed(4), 1).is_some());
    assert!(new(1, Keys::Zipf(-1.0), Payload::Fixed(4), 1).is_some());
}
