//! The generated table: its types, that it depends on the seed alone, and how its values are
//! distributed.

use std::{collections::HashSet, ops::Range, thread};

use annulus_hits::{BATCH_ROWS_MAX, Hits, schema};
use arrow::{
    array::{AsArray, RecordBatch},
    compute::{cast, concat_batches},
    datatypes::{DataType, Int64Type},
};
use proptest::prelude::*;

/// The columns of ClickBench's table, as its `create.sql` lists them.
const NAMES: &str = "WatchID JavaEnable Title GoodEvent EventTime EventDate CounterID ClientIP RegionID UserID \
    CounterClass OS UserAgent URL Referer IsRefresh RefererCategoryID RefererRegionID URLCategoryID URLRegionID \
    ResolutionWidth ResolutionHeight ResolutionDepth FlashMajor FlashMinor FlashMinor2 NetMajor NetMinor \
    UserAgentMajor UserAgentMinor CookieEnable JavascriptEnable IsMobile MobilePhone MobilePhoneModel Params \
    IPNetworkID TraficSourceID SearchEngineID SearchPhrase AdvEngineID IsArtifical WindowClientWidth \
    WindowClientHeight ClientTimeZone ClientEventTime SilverlightVersion1 SilverlightVersion2 SilverlightVersion3 \
    SilverlightVersion4 PageCharset CodeVersion IsLink IsDownload IsNotBounce FUniqID OriginalURL HID IsOldCounter \
    IsEvent IsParameter DontCountHits WithHash HitColor LocalEventTime Age Sex Income Interests Robotness RemoteIP \
    WindowName OpenerName HistoryLength BrowserLanguage BrowserCountry SocialNetwork SocialAction HTTPError \
    SendTiming DNSTiming ConnectTiming ResponseStartTiming ResponseEndTiming FetchTiming SocialSourceNetworkID \
    SocialSourcePage ParamPrice ParamOrderID ParamCurrency ParamCurrencyID OpenstatServiceName OpenstatCampaignID \
    OpenstatAdID OpenstatSourceID UTMSource UTMMedium UTMCampaign UTMContent UTMTerm FromTag HasGCLID RefererHash \
    URLHash CLID";

/// Those of type BIGINT or TIMESTAMP, INTEGER, and TEXT or CHAR; all others but the date are
/// SMALLINT.
const LONG: &str = "WatchID EventTime UserID ClientEventTime FUniqID LocalEventTime ParamPrice RefererHash URLHash";
const INTEGER: &str = "CounterID ClientIP RegionID RefererRegionID URLRegionID IPNetworkID SilverlightVersion3 \
    CodeVersion HID RemoteIP WindowName OpenerName SendTiming DNSTiming ConnectTiming ResponseStartTiming \
    ResponseEndTiming FetchTiming CLID";
const TEXT: &str = "Title URL Referer FlashMinor2 UserAgentMinor MobilePhoneModel Params SearchPhrase PageCharset \
    OriginalURL HitColor BrowserLanguage BrowserCountry SocialNetwork SocialAction SocialSourcePage ParamOrderID \
    ParamCurrency OpenstatServiceName OpenstatCampaignID OpenstatAdID OpenstatSourceID UTMSource UTMMedium \
    UTMCampaign UTMContent UTMTerm FromTag";

fn numbers(batch: &RecordBatch, column: &str) -> Vec<i64> {
    let column = cast(batch.column_by_name(column).expect(column), &DataType::Int64).expect("a number");
    column.as_primitive::<Int64Type>().values().to_vec()
}

fn texts(batch: &RecordBatch, column: &str) -> Vec<String> {
    let column = batch.column_by_name(column).expect(column).as_string::<i32>();
    column.iter().map(|text| text.expect("no null").to_owned()).collect()
}

fn distinct<T: std::hash::Hash + Eq>(values: Vec<T>) -> usize {
    values.into_iter().collect::<HashSet<_>>().len()
}

fn share<T>(values: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    values.iter().filter(|value| holds(value)).count() as f64 / values.len() as f64
}

#[track_caller]
fn expect(what: &str, value: f64, range: Range<f64>) {
    assert!(range.contains(&value), "{what}: {value}");
}

#[test]
fn columns_are_those_of_the_benchmark() {
    let schema = schema();
    let names: Vec<_> = schema.fields().iter().map(|field| field.name().as_str()).collect();
    assert_eq!(names, NAMES.split_whitespace().collect::<Vec<_>>());
    for field in schema.fields() {
        let among = |names: &str| names.split_whitespace().any(|name| name == field.name());
        let expected = match () {
            () if among(LONG) => DataType::Int64,
            () if among(INTEGER) => DataType::Int32,
            () if among(TEXT) => DataType::Utf8,
            () if among("EventDate") => DataType::UInt16,
            () => DataType::Int16,
        };
        assert_eq!((field.data_type(), field.is_nullable()), (&expected, false), "{}", field.name());
    }
}

#[test]
fn batch_sizes_and_threads_do_not_matter() {
    let hits = Hits::new(5_000, 1);
    let whole = hits.batch(0..5_000).expect("a batch");
    for size in [1, 7, 1_000, 4_999] {
        let rows = 200..2_000;
        let parts: Vec<_> = hits.batches(rows, size).collect::<Result<_, _>>().expect("batches");
        assert_eq!(concat_batches(&schema(), &parts).expect("one schema"), whole.slice(200, 1_800), "{size}");
    }
    let parts = thread::scope(|scope| {
        let threads: Vec<_> =
            (0..5u64).rev().map(|part| scope.spawn(move || hits.batch(part * 1_000..(part + 1) * 1_000))).collect();
        threads.into_iter().rev().map(|thread| thread.join().expect("it ends").expect("a batch")).collect::<Vec<_>>()
    });
    assert_eq!(concat_batches(&schema(), &parts).expect("one schema"), whole);
}

#[test]
fn a_range_beyond_the_table_ends_with_it() {
    let hits = Hits::new(100, 1);
    assert_eq!(hits.batch(90..200).expect("a batch").num_rows(), 10);
    assert_eq!(hits.batch(200..300).expect("a batch").num_rows(), 0);
    assert_eq!(hits.batches(300..400, 10).count(), 0);
    assert_eq!(hits.batches(0..100, 0).count(), 100, "batches of one row");
    assert_eq!(Hits::new(0, 1).batch(0..10).expect("a batch").num_rows(), 0);
    let error = Hits::new(u64::MAX, 1).batch(0..BATCH_ROWS_MAX + 1).expect_err("too many");
    assert!(error.to_string().contains("at most 1048576"), "{error}");
}

/// A change of any value is a new version of the generator: tables in a cache must not be reused.
#[test]
fn values_stay_those_of_version_1() {
    assert_eq!(annulus_hits::VERSION, 1);
    let batch = Hits::new(100_000, 42).batch(0..3).expect("a batch");
    assert_eq!(numbers(&batch, "UserID"), [1963828713859702138, -5195761831027071080, 2482994906085631041]);
    assert_eq!(texts(&batch, "URL")[0], "http://deto226702.ru/raroda/mese/dabekafari/laba");
}

#[test]
fn distinct_counts_grow_with_the_rows() {
    // What the formulas give; the real counts at 100 million rows are 17.6 and 6.0 million.
    let hits = Hits::new(400_000, 3);
    let counts = [25_000, 100_000, 400_000].map(|rows| {
        let batch = hits.batch(0..rows).expect("a batch");
        let of = |column| distinct(texts(&batch, column)) as f64 / rows as f64;
        (distinct(numbers(&batch, "UserID")) as f64 / rows as f64, of("SearchPhrase"), of("URL"))
    });
    for pair in counts.windows(2) {
        // Four times the rows have more than twice the distinct values, but fewer than four times.
        for (fewer, more) in [(pair[0].0, pair[1].0), (pair[0].1, pair[1].1), (pair[0].2, pair[1].2)] {
            expect("growth", more / fewer, 0.5..0.999);
        }
    }
    expect("visitors", counts[2].0, 0.3..0.6);
    expect("phrases", counts[2].1, 0.06..0.12);
    expect("pages", counts[2].2, 0.2..0.6);
}

#[test]
fn a_phrase_has_one_text_and_a_page_one_address() {
    let batch = Hits::new(50_000, 9).batch(0..50_000).expect("a batch");
    let pairs: HashSet<_> = numbers(&batch, "URLHash").into_iter().zip(texts(&batch, "URL")).collect();
    assert_eq!(pairs.len(), distinct(numbers(&batch, "URLHash")));
    let users: HashSet<_> = numbers(&batch, "UserID").into_iter().zip(numbers(&batch, "RegionID")).collect();
    assert_eq!(users.len(), distinct(numbers(&batch, "UserID")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(6))]

    #[test]
    fn shares_are_as_documented(seed: u64) {
        let rows = 100_000;
        let batch = Hits::new(rows, seed).batch(0..rows).expect("a batch");
        let sites = numbers(&batch, "CounterID");
        expect("site 62", share(&sites, |site| *site == 62), 0.07..0.09);
        let users = numbers(&batch, "UserID");
        let pinned = users.iter().filter(|user| **user == 435_090_932_899_640_449).count();
        prop_assert!((1..40).contains(&pinned), "{pinned}");
        let urls = texts(&batch, "URL");
        expect("google", share(&urls, |url| url.contains("google")), 0.0012..0.003);
        // Of 300 seeds, half have 0.00024, but four have 0.002 to 0.0048: an empty address can be popular.
        expect("empty URLs", share(&urls, String::is_empty), 0.00002..0.02);
        let length = urls.iter().map(String::len).sum::<usize>() as f64 / rows as f64;
        expect("mean length of a URL", length, 65.0..105.0);
        let titles = texts(&batch, "Title");
        expect("Google", share(&titles, |title| title.contains("Google")), 0.0012..0.003);
        expect("phrases", share(&texts(&batch, "SearchPhrase"), |phrase| !phrase.is_empty()), 0.12..0.14);
        expect("advertisements", share(&numbers(&batch, "AdvEngineID"), |ad| *ad != 0), 0.0045..0.0085);
        expect("phones", share(&texts(&batch, "MobilePhoneModel"), |model| !model.is_empty()), 0.04..0.1);
        let widths = numbers(&batch, "ResolutionWidth");
        expect("mean width", widths.iter().sum::<i64>() as f64 / rows as f64, 1_480.0..1_560.0);
        let dates = numbers(&batch, "EventDate");
        prop_assert_eq!((dates.iter().min(), dates.iter().max()), (Some(&15_888), Some(&15_917)));
        expect("refreshed", share(&numbers(&batch, "IsRefresh"), |flag| *flag == 1), 0.07..0.09);
        expect("regions", distinct(numbers(&batch, "RegionID")) as f64, 1_000.0..9_041.0);
        prop_assert_eq!(distinct(numbers(&batch, "WatchID")), rows as usize);
        let pinned = numbers(&batch, "RefererHash").iter().filter(|hash| **hash == 3_594_120_000_172_545_465).count();
        prop_assert!(pinned > 300, "{pinned}");
    }
}
