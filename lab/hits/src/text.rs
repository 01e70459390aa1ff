//! Words, addresses and titles. The text of a page is a function of its key.

use crate::{
    hit::{Google, Hit, Source},
    random::{Draw, Random},
};

/// Syllables without two vowels in a row: no word of them contains the name of a search engine.
const LATIN: [&str; 32] = [
    "ba", "be", "bi", "da", "de", "di", "fa", "ga", "go", "ka", "ki", "ko", "la", "le", "li", "ma", "me", "mi", "na",
    "ne", "no", "pa", "pe", "ra", "ri", "ro", "sa", "se", "ta", "to", "va", "vi",
];
const CYRILLIC: [&str; 32] = [
    "ба", "бе", "ве", "во", "га", "го", "да", "до", "жи", "за", "ка", "ки", "ко", "ла", "ле", "ло", "ма", "ми", "мо",
    "на", "не", "но", "па", "по", "ра", "ре", "ро", "са", "со", "та", "то", "ши",
];
/// The share of sites with a long address for each page, of 100: search results, and filters.
const VERBOSE: u64 = 8;

/// Appends words for `key`, separated by `between`.
fn words(random: Random, key: u64, count: u64, syllables: &[&str; 32], between: &str, out: &mut String) {
    for word in 0..count {
        if word > 0 {
            out.push_str(between);
        }
        // The two lowest bits say how long the word is, and each five above name a syllable.
        let mut bits = random.bits(Draw::Words, key.wrapping_add(word));
        let length = 2 + (bits & 3) as usize;
        for _ in 0..length {
            bits >>= 5;
            out.push_str(syllables[(bits & 31) as usize]);
        }
    }
}

/// Appends a few Latin words.
pub fn latin(random: Random, key: u64, count: u64, out: &mut String) {
    words(random, key, count, &LATIN, "-", out);
}

/// Appends the name of a site, such as `www.kibalo.ru`.
fn domain(random: Random, site: i32, out: &mut String) {
    let key = site as u64;
    if random.below(Draw::Text, key, 4) == 0 {
        out.push_str("www.");
    }
    words(random, key, 1, &LATIN, "", out);
    // Different sites of one name would be one site.
    push_number(u64::from(site.unsigned_abs()), out);
    out.push_str(random.weighted(
        Draw::Text,
        key.wrapping_add(1),
        &[(".ru", 70), (".com", 15), (".ua", 10), (".net", 5)],
    ));
}

fn push_number(number: u64, out: &mut String) {
    use std::fmt::Write;
    // Writing to a String cannot fail.
    write!(out, "{number}").ok();
}

/// Returns whether the page is one of `pages` that lacks something. Main pages lack nothing.
fn is_bare(hit: &Hit, pages: u64) -> bool {
    let is_special = hit.google != Google::No || hit.page == Hit::main_page(hit.random, hit.site);
    !is_special && hit.random.below(Draw::Length, hit.page ^ pages, pages) == 0
}

/// Appends the address of a page. Some pages have none.
pub fn url(hit: &Hit, out: &mut String) {
    if is_bare(hit, 2_000) {
        return;
    }
    address(hit.random, hit.page, hit.site, out);
    match hit.google {
        Google::InUrl => out.push_str("&from=google"),
        // One in ten: query 23 leaves these out.
        Google::InTitle if hit.random.below(Draw::Text, hit.page, 10) == 0 => out.push_str("&to=www.google.ru"),
        _ => {}
    }
}

fn address(random: Random, page: u64, site: i32, out: &mut String) {
    out.push_str(if random.below(Draw::Length, site as u64, 20) == 0 { "https://" } else { "http://" });
    domain(random, site, out);
    out.push('/');
    if page == Hit::main_page(random, site) {
        return;
    }
    words(random, page, 2 + random.below(Draw::Length, page, 5), &LATIN, "/", out);
    let verbose = random.below(Draw::Text, site as u64 | (1 << 32), 100) < VERBOSE;
    let parameters = random.below(Draw::Text, page, 6) + if verbose { 12 } else { 0 };
    for parameter in 0..parameters {
        out.push(if parameter == 0 { '?' } else { '&' });
        words(random, page.wrapping_add(100 + parameter), 1, &LATIN, "", out);
        out.push('=');
        push_number(random.bits(Draw::Length, page.wrapping_add(parameter)) >> 40, out);
    }
}

/// Appends the title of a page.
pub fn title(hit: &Hit, out: &mut String) {
    if is_bare(hit, 12) {
        return;
    }
    let count = 2 + hit.random.below(Draw::Length, hit.page.wrapping_add(2), 9);
    words(hit.random, hit.page, count, &CYRILLIC, " ", out);
    if hit.google == Google::InTitle {
        out.push_str(" Google");
    }
    out.push_str(" - ");
    words(hit.random, hit.site as u64, 2, &CYRILLIC, " ", out);
}

/// Appends the address that the hit came from, if any.
pub fn referer(hit: &Hit, out: &mut String) {
    let random = hit.random;
    match hit.source {
        Source::Direct => {}
        Source::Search => {
            // Search engines are referrers, not pages: the address of the page has their names in
            // no more rows than the table needs.
            const ENGINES: [(&str, u32); 3] = [
                ("http://yandex.ru/yandsearch?text=", 65),
                ("http://www.google.ru/search?q=", 27),
                ("http://go.mail.ru/search?q=", 8),
            ];
            out.push_str(random.weighted(Draw::SearchEngine, hit.row, &ENGINES));
            latin(random, hit.phrase.unwrap_or_default(), 2, out);
        }
        _ => address(random, hit.referer, hit.referer_site, out),
    }
}

/// Appends the phrase that was searched for, if the hit came from a search engine.
pub fn phrase(hit: &Hit, out: &mut String) {
    if let Some(key) = hit.phrase {
        words(hit.random, key, 1 + hit.random.below(Draw::Length, key, 5), &CYRILLIC, " ", out);
    }
}
