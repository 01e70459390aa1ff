//! A hit: what its columns have in common.

use crate::{
    Hits,
    random::{Draw, Random},
};

/// The site, the visitor, the page and the referrer that the queries name.
pub const PINNED_SITE: i32 = 62;
pub const PINNED_VISITOR: i64 = 435_090_932_899_640_449;
pub const PINNED_URL_HASH: i64 = 2_868_770_270_353_813_622;
pub const PINNED_REFERER_HASH: i64 = 3_594_120_000_172_545_465;

/// Midnight of 2 July 2013 in Moscow, whose day `EventDate` means, in seconds since 1970 (UTC).
const FIRST_SECOND: i64 = 1_372_708_800;
const DAYS: u64 = 30;
const DAY: i64 = 86_400;
/// The main day of the pinned site, 15 July: queries 37 to 43 read it.
const PINNED_DAY: u64 = 13;
/// The hours by which the clocks of Moscow were ahead of UTC in 2013.
const MOSCOW: i64 = 4 * 3600;
/// The number of sites. A guess.
const SITES: f64 = 6_500.0;
/// The key of the pinned visitor. No rank has it: as a float it is not a number.
const PINNED_VISITOR_KEY: u64 = u64::MAX;

/// The origin of a hit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    Internal,
    Direct,
    Link,
    Search,
    Ad,
    Outside,
}

/// The name of a search company, if it is part of the page's address or title.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Google {
    No,
    InUrl,
    InTitle,
}

/// A row of the table, before its columns are computed.
#[derive(Clone, Copy, Debug)]
pub struct Hit {
    pub random: Random,
    pub row: u64,
    /// The key of the visitor, of whom many columns are properties.
    pub visitor: u64,
    /// The number of the site, `CounterID`.
    pub site: i32,
    /// The key of the page.
    pub page: u64,
    pub google: Google,
    pub source: Source,
    /// The key of the page that the hit came from, and its site.
    pub referer: u64,
    pub referer_site: i32,
    /// The key of the search phrase, if there is one.
    pub phrase: Option<u64>,
    /// Seconds since 1970, in UTC.
    pub time: i64,
}

impl Hit {
    /// Computes the row with a number from 0.
    pub fn new(hits: &Hits, row: u64) -> Self {
        let random = hits.random;
        let visitor = match random.happens(Draw::PinnedVisitor, row, hits.rates.visitor) {
            true => PINNED_VISITOR_KEY,
            false => random.rank(Draw::Visitor, row, 0.23, 790.0).to_bits(),
        };
        let site = match random.happens(Draw::OwnSite, row, hits.rates.site) {
            true => PINNED_SITE,
            false => site(random, Draw::Site, row),
        };
        let google = match random.unit(Draw::Google, row) {
            place if place <= hits.rates.google_url => Google::InUrl,
            place if place <= hits.rates.google_url + hits.rates.google_title => Google::InTitle,
            _ => Google::No,
        };
        let source = source(random, row);
        let referer_site = match source {
            Source::Internal => site,
            _ => self::site(random, Draw::RefererPage, row ^ (1 << 63)),
        };
        Self {
            random,
            row,
            visitor,
            site,
            page: page(random, Draw::Page, row, site, google),
            google,
            source,
            referer: page(random, Draw::RefererPage, row, referer_site, Google::No),
            referer_site,
            phrase: (source == Source::Search).then(|| random.rank(Draw::Phrase, row, 0.08, 15.0).to_bits()),
            time: time(random, row, site),
        }
    }

    /// Returns the main page of a site, the most popular one.
    pub fn main_page(random: Random, site: i32) -> u64 {
        page_key(random, site, 0.0, Google::No)
    }

    /// Returns the day in Moscow, in days since 1970.
    pub fn date(&self) -> i64 {
        (self.time + MOSCOW) / DAY
    }

    pub fn user_id(&self) -> i64 {
        match self.visitor {
            PINNED_VISITOR_KEY => PINNED_VISITOR,
            visitor => {
                let bits = self.random.bits(Draw::VisitorId, visitor);
                // Most are positive: the mean of the real ones is 2.5 * 10^18.
                if bits % 100 < 45 { bits as i64 } else { (bits >> 1) as i64 }
            }
        }
    }

    pub fn url_hash(&self) -> i64 {
        match self.is_main_page_of_pinned(self.page) {
            true => PINNED_URL_HASH,
            false => self.random.bits(Draw::UrlHash, self.page) as i64,
        }
    }

    pub fn referer_hash(&self) -> i64 {
        match self.source {
            Source::Direct => 0,
            Source::Search => self.random.bits(Draw::RefererHash, self.phrase.unwrap_or_default()) as i64,
            _ if self.is_main_page_of_pinned(self.referer) => PINNED_REFERER_HASH,
            _ => self.random.bits(Draw::RefererHash, self.referer) as i64,
        }
    }

    fn is_main_page_of_pinned(&self, page: u64) -> bool {
        page == Self::main_page(self.random, PINNED_SITE)
    }
}

/// Returns the number of a site, by popularity.
fn site(random: Random, draw: Draw, row: u64) -> i32 {
    let rank = random.rank(draw, row, 0.8, 9.0) % SITES;
    let id = 38 + random.below(Draw::SiteId, rank.to_bits(), 262_000) as i32;
    if id == PINNED_SITE { id + 1 } else { id }
}

fn source(random: Random, row: u64) -> Source {
    const SOURCES: [(Source, u32); 6] = [
        (Source::Internal, 430),
        (Source::Direct, 190),
        (Source::Link, 150),
        (Source::Search, 130),
        (Source::Ad, 20),
        (Source::Outside, 80),
    ];
    random.weighted(Draw::Source, row, &SOURCES)
}

/// Returns the key of a page of `site`. Its main page has a third of the hits.
fn page(random: Random, draw: Draw, row: u64, site: i32, google: Google) -> u64 {
    page_key(random, site, random.rank(draw, row, 0.15, 0.05), google)
}

fn page_key(random: Random, site: i32, rank: f64, google: Google) -> u64 {
    let space = ((site as u64) << 8) | google as u64;
    random.bits(Draw::PageKey, rank.to_bits() ^ random.bits(Draw::PageKey, space))
}

/// Returns the time of a hit: most hits of a site are on its main day, and more in the afternoon
/// than at night.
fn time(random: Random, row: u64, site: i32) -> i64 {
    let day = match random.happens(Draw::MainDay, row, 0.6) {
        true if site == PINNED_SITE => PINNED_DAY,
        true => random.below(Draw::MainDay, site as u64 | (1 << 63), DAYS),
        false => random.below(Draw::Day, row, DAYS),
    };
    let even = random.unit(Draw::Second, row) - 0.5;
    let second = match random.happens(Draw::Curve, row, 0.5) {
        true => 43_200.0 + 86_399.0 * even,
        // A triangle around four in the afternoon.
        false => 57_600.0 + 36_000.0 * (even + random.unit(Draw::SecondAgain, row) - 0.5),
    };
    FIRST_SECOND + day as i64 * DAY + (second as i64).rem_euclid(DAY)
}
