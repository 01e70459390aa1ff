//! A page returns the tuples that were written, and damaged bytes give an error.

mod codec_support;

use annulus_pages::{
    PagesError,
    memory::{Heap, PageMemory},
    page::{
        HEADER_BYTES, MIN_PAGE_BYTES, PageBuilder, PageError, PageLayout, PageReader, PageShape, PayloadSize,
        SLOT_BYTES, seal,
    },
};
use codec_support::{Rows, any_page, page_of};
use proptest::{prelude::*, sample::Index};

fn rows_of(page: &PageReader<'_>) -> Rows {
    page.tuples().map(|(key, payload)| (key, payload.to_vec())).collect()
}

/// Checks that a page that a reader accepts can be read to its end, and is consistent.
fn expect_sound(bytes: &[u8]) {
    let Ok(page) = PageReader::new(bytes) else { return };
    let sum: usize = page.tuples().map(|(_, payload)| payload.len()).sum();
    assert_eq!(sum, page.header().payload_bytes as usize);
    assert_eq!(page.tuples().count(), page.len());
    let data = HEADER_BYTES + page.len() * if page.header().layout == 0 { SLOT_BYTES } else { 4 };
    for (i, (key, payload)) in page.tuples().enumerate() {
        assert_eq!((page.key(i), page.payload(i)), (key, payload));
        let offset = payload.as_ptr().addr() - bytes.as_ptr().addr();
        assert!(data <= offset && offset + payload.len() <= bytes.len());
    }
}

/// A damage to bytes.
#[derive(Clone, Debug)]
enum Damage {
    Flip(Index, u8),
    /// A word of the header or the first slots is set to this value.
    Word(usize, u32),
    Truncate(Index),
    Grow(usize),
}

fn any_damage() -> impl Strategy<Value = Damage> {
    let extreme = prop_oneof![Just(0), Just(1), Just(u32::MAX), Just(4096), Just(4095), any::<u32>()];
    prop_oneof![
        3 => (any::<Index>(), 1_u8..).prop_map(|(at, bits)| Damage::Flip(at, bits)),
        5 => (0_usize..40, extreme).prop_map(|(at, value)| Damage::Word(at, value)),
        1 => any::<Index>().prop_map(Damage::Truncate),
        1 => (1_usize..5000).prop_map(Damage::Grow),
    ]
}

fn damage(bytes: &mut Vec<u8>, damage: &Damage) {
    match *damage {
        Damage::Flip(at, bits) if !bytes.is_empty() => {
            let at = at.index(bytes.len());
            bytes[at] ^= bits;
        }
        Damage::Word(at, value) if bytes.len() >= 4 * at + 4 => {
            bytes[4 * at..4 * at + 4].copy_from_slice(&value.to_le_bytes());
        }
        Damage::Truncate(at) if !bytes.is_empty() => bytes.truncate(at.index(bytes.len())),
        Damage::Grow(by) => bytes.resize(bytes.len() + by, 0),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn a_page_gives_its_tuples((shape, rows) in any_page()) {
        let page = page_of(&shape, &rows, 0xEE);
        let reader = page.reader().unwrap();
        prop_assert_eq!(reader.len(), rows.len());
        prop_assert_eq!(rows_of(&reader), rows.clone());
        prop_assert_eq!(*reader.header(), page.header());
        let mut rest = reader.tuples();
        let mut found: Rows = rest.by_ref().take(3).map(|(key, payload)| (key, payload.to_vec())).collect();
        rest.for_each(|(key, payload)| found.push((key, payload.to_vec())));
        prop_assert_eq!(found, rows);
    }

    #[test]
    fn damaged_bytes_are_refused_or_sound(
        (shape, rows) in any_page(),
        damages in prop::collection::vec(any_damage(), 1..4),
    ) {
        let mut bytes = page_of(&shape, &rows, 0).bytes().to_vec();
        for d in &damages {
            damage(&mut bytes, d);
        }
        expect_sound(&bytes);
    }

    #[test]
    fn arbitrary_bytes_are_refused_or_sound(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        expect_sound(&bytes);
    }
}

proptest! {
    // Without optimisation the checksum is slow.
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_sealed_page_hides_what_was_there_and_shows_every_damage(
        (shape, rows) in any_page(),
        at in any::<Index>(),
        bits in 1_u8..,
    ) {
        let mut page = page_of(&shape, &rows, 0xEE);
        prop_assert_eq!(PageReader::sealed(page.bytes()).unwrap_err(), PageError::Unsealed);
        seal(&mut page, 99).unwrap();
        let reader = PageReader::sealed(page.bytes()).unwrap();
        prop_assert_eq!(reader.header().schema_id, 99);
        prop_assert_eq!(rows_of(&reader), rows.clone());
        // The sealed page does not depend on the earlier contents of its memory.
        let mut other = page_of(&shape, &rows, 0x11);
        seal(&mut other, 5).unwrap();
        seal(&mut other, 99).unwrap();
        prop_assert_eq!(page.bytes(), other.bytes());

        let mut bytes = page.bytes().to_vec();
        let at = at.index(bytes.len());
        bytes[at] ^= bits;
        prop_assert!(PageReader::sealed(&bytes).is_err());
    }
}

/// Reads a page of three tuples with this word set to `value`.
fn with_word(at: usize, value: u32) -> Result<(), PageError> {
    let shape = PageShape::new(MIN_PAGE_BYTES, PageLayout::Slotted, PayloadSize::Variable).unwrap();
    let rows = [(1, vec![1; 5]), (2, vec![]), (3, vec![3; 9])];
    let mut bytes = page_of(&shape, &rows, 0).bytes().to_vec();
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
    PageReader::new(&bytes).map(|_| ())
}

#[test]
fn each_field_is_checked() {
    let unchanged = with_word(64, 1);
    assert_eq!(unchanged, Ok(()));
    let field = |field, value| Err(PageError::Field { field, value });
    assert_eq!(with_word(0, 17), Err(PageError::Magic(17)));
    assert_eq!(with_word(4, 2), Err(PageError::Version(2)));
    assert_eq!(with_word(4, 0x0002_0001), field("layout", 2));
    assert_eq!(with_word(8, 8192), Err(PageError::Length { bytes: 4096, expected: 8192 }));
    assert_eq!(with_word(20, 4), Err(PageError::Incomplete { claimed: 4, completed: 3 }));
    assert_eq!(with_word(28, 4096), Err(PageError::TooManyTuples { tuples: 3, payload_bytes: 4096 }));
    assert_eq!(with_word(28, 15), Err(PageError::Sum { sum: 14, payload_bytes: 15 }));
    assert_eq!(with_word(32, 5), Err(PageError::TooManyTuples { tuples: 3, payload_bytes: 14 }));
    assert_eq!(with_word(36, 1), field("flags", 1));
    assert_eq!(with_word(56, 9), field("reserved", 9));
    // The second slot: just below the data, after its end, and so long that the sum overflows.
    assert_eq!(with_word(80, 4081), Err(PageError::Slot { tuple: 1, offset: 4081, length: 0 }));
    assert_eq!(with_word(80, 4097), Err(PageError::Slot { tuple: 1, offset: 4097, length: 0 }));
    assert_eq!(with_word(84, u32::MAX), Err(PageError::Slot { tuple: 1, offset: 4091, length: u32::MAX }));
}

#[test]
fn tuples_of_one_size_lie_where_their_numbers_say() {
    let shape = PageShape::new(MIN_PAGE_BYTES, PageLayout::Slotted, PayloadSize::Fixed(8)).unwrap();
    let mut bytes = page_of(&shape, &[(1, vec![1; 8]), (2, vec![2; 8])], 0).bytes().to_vec();
    bytes[68..72].copy_from_slice(&4080_u32.to_le_bytes());
    assert_eq!(PageReader::new(&bytes).unwrap_err(), PageError::Slot { tuple: 0, offset: 4080, length: 8 });
}

proptest! {
    #[test]
    fn a_page_built_row_by_row_is_the_one_written_the_plain_way((shape, rows) in any_page()) {
        let mut builder = PageBuilder::new(Heap::new(shape.page_bytes()).take().unwrap(), shape).unwrap();
        for (key, payload) in &rows {
            prop_assert!(builder.push(*key, payload).unwrap());
        }
        let (built, plain) = (builder.complete(7, 3), page_of(&shape, &rows, 0));
        prop_assert_eq!(built.bytes(), plain.bytes());
    }
}

#[test]
fn a_built_page_takes_what_fits_and_refuses_what_never_will() {
    let block = || Heap::new(MIN_PAGE_BYTES).take().unwrap();
    let shape = PageShape::new(MIN_PAGE_BYTES, PageLayout::Slotted, PayloadSize::Variable).unwrap();
    let mut builder = PageBuilder::new(block(), shape).unwrap();
    let most = shape.most_payload();
    let too_large = PagesError::TupleTooLarge { payload_bytes: most + 1, most };
    assert_eq!(builder.push(1, &vec![0; most + 1]), Err(too_large));
    assert_eq!(builder.push(2, &vec![1; most]), Ok(true));
    assert_eq!(builder.push(3, &[]), Ok(false));
    let page = builder.complete(0, 0);
    assert_eq!(rows_of(&PageReader::new(page.bytes()).unwrap()), [(2, vec![1; most])]);

    let shape = PageShape::new(MIN_PAGE_BYTES, PageLayout::Compact, PayloadSize::Fixed(4)).unwrap();
    let mut builder = PageBuilder::new(block(), shape).unwrap();
    assert!(matches!(builder.push(1, &[0; 3]), Err(PagesError::Batch { .. })));
    assert_eq!((0..shape.capacity() + 1).filter(|_| builder.push(1, &[0; 4]).unwrap()).count(), shape.capacity());
    let larger = PageShape::new(2 * MIN_PAGE_BYTES, PageLayout::Compact, PayloadSize::Fixed(4)).unwrap();
    assert!(matches!(PageBuilder::new(block(), larger), Err(PagesError::Shape { .. })));
}
