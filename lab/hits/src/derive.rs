//! What the columns take from a hit: properties of its visitor, and draws for its row.

use crate::{
    hit::{Hit, PINNED_SITE, Source},
    random::Draw::*,
    text,
};

/// Several draws of one kind for a row or a visitor differ by a number: that of the column.
fn of_row(hit: &Hit, column: u64) -> u64 {
    (hit.row << 7) | column
}

fn of_visitor(hit: &Hit, column: u64) -> u64 {
    hit.visitor.wrapping_mul(128).wrapping_add(column)
}

impl Hit {
    /// Returns 1 for `share` of the visitors.
    pub fn visitor_flag(&self, column: u64, share: f64) -> i64 {
        i64::from(self.random.happens(Flag, of_visitor(self, column), share))
    }

    /// Returns a number below `bound` for each visitor.
    pub fn visitor_number(&self, column: u64, bound: u64) -> i64 {
        self.random.below(Number, of_visitor(self, column), bound) as i64
    }

    /// Returns a small number for each visitor, by popularity.
    pub fn visitor_rank(&self, column: u64, tail: f64, shift: f64, bound: f64) -> i64 {
        (self.random.rank(Number, of_visitor(self, column), tail, shift) % bound) as i64
    }

    /// Returns 1 for `share` of the rows.
    pub fn flag(&self, column: u64, share: f64) -> i64 {
        i64::from(self.random.happens(Flag, of_row(self, column), share))
    }

    /// Returns a number below `bound` for each row.
    pub fn number(&self, column: u64, bound: u64) -> i64 {
        self.random.below(Number, of_row(self, column), bound) as i64
    }

    /// Returns a small number for each row, by popularity.
    pub fn rank(&self, column: u64, tail: f64, shift: f64, bound: f64) -> i64 {
        (self.random.rank(Number, of_row(self, column), tail, shift) % bound) as i64
    }

    /// Returns a number from 1 to `most` for `share` of the rows, and 0 for the others.
    pub fn rare(&self, column: u64, share: f64, most: u64) -> i64 {
        if self.flag(column, share) == 1 { 1 + self.number(column, most) } else { 0 }
    }

    /// Appends a word for `share` of the rows, one of `count`.
    pub fn rare_word(&self, column: u64, share: f64, count: u64, out: &mut String) {
        if self.flag(column, share) == 1 {
            text::latin(self.random, (column << 32) + self.number(column, count) as u64, 1, out);
        }
    }

    /// Returns milliseconds, for half of the rows; most are few.
    pub fn timing(&self, column: u64, typical: f64) -> i64 {
        match self.flag(column, 0.5) {
            0 => 0,
            _ => self.random.rank(Number, of_row(self, column), 1.5, typical).min(600_000.0) as i64,
        }
    }

    /// Returns width and height of the visitor's screen. Their mean width is the real one, 1513.
    pub fn screen(&self) -> (i64, i64) {
        const SCREENS: [((i64, i64), u32); 10] = [
            ((1920, 1080), 28),
            ((1366, 768), 25),
            ((1280, 1024), 10),
            ((1280, 800), 7),
            ((1024, 768), 7),
            ((1680, 1050), 6),
            ((1600, 900), 5),
            ((1440, 900), 6),
            ((768, 1024), 4),
            ((2560, 1440), 2),
        ];
        self.random.weighted(Screen, self.visitor, &SCREENS)
    }

    /// Returns the inner size of the browser window, which varies from hit to hit.
    pub fn window(&self) -> (i64, i64) {
        let (width, height) = self.screen();
        let less =
            |most: f64, shift: f64, column| (self.random.rank(Window, of_row(self, column), 0.7, shift) % most) as i64;
        (width - less(700.0, 4.0, 0), height - 60 - less(500.0, 40.0, 1))
    }

    /// Returns the number of the phone's maker and its model, for one visitor in 15.
    pub fn phone(&self) -> Option<(i64, &'static str)> {
        // The models with the most visitors in the real table, and about how many of 10,000 phones.
        const MODELS: [(&str, u32); 10] = [
            ("iPad", 8_600),
            ("iPhone", 360),
            ("A500", 126),
            ("N8-00", 44),
            ("iPho", 26),
            ("ONE TOUCH 6030A", 22),
            ("GT-P7300B", 15),
            ("3110000", 15),
            ("GT-I9500", 13),
            ("", 779),
        ];
        const MAKERS: [(i64, u32); 8] = [(1, 854), (5, 44), (6, 40), (7, 26), (118, 15), (26, 12), (10, 10), (32, 9)];
        let phone = self.random.happens(Phone, self.visitor, 1.0 / 15.0);
        phone.then(|| {
            let maker = self.random.weighted(PhoneMaker, self.visitor, &MAKERS);
            (maker, self.random.weighted(PhoneModel, self.visitor, &MODELS))
        })
    }

    pub fn phone_model(&self, out: &mut String) {
        match self.phone() {
            // The other models: a few hundred.
            Some((_, "")) => {
                text::latin(self.random, (34 << 32) + self.visitor_rank(34, 0.5, 20.0, 300.0) as u64, 1, out)
            }
            Some((_, model)) => out.push_str(model),
            None => {}
        }
    }

    /// Returns the engine of an advertisement, with the real table's weights, or 0 without one.
    pub fn ad_engine(&self) -> i64 {
        const ENGINES: [(i64, u32); 18] = [
            (2, 404_620),
            (27, 113_167),
            (13, 45_633),
            (45, 38_974),
            (44, 9_731),
            (3, 6_896),
            (62, 5_266),
            (52, 3_554),
            (50, 938),
            (28, 836),
            (53, 350),
            (25, 343),
            (61, 158),
            (21, 38),
            (42, 20),
            (16, 7),
            (7, 3),
            (22, 1),
        ];
        // Of all rows, 0.63 % have one; of all rows, 2 % come from an advertisement.
        let has_engine = self.source == Source::Ad && self.random.happens(Ad, self.row, 0.315);
        if has_engine { self.random.weighted(AdEngine, self.row, &ENGINES) } else { 0 }
    }

    pub fn search_engine(&self) -> i64 {
        // As the addresses of the referrers: 2 and 3 are the most frequent in the real table.
        const ENGINES: [(i64, u32); 3] = [(2, 65), (3, 27), (4, 8)];
        if self.phrase.is_some() { self.random.weighted(SearchEngine, self.row, &ENGINES) } else { 0 }
    }

    pub fn traffic_source(&self) -> i64 {
        match self.source {
            Source::Internal => -1,
            Source::Direct => 0,
            Source::Link => 1,
            Source::Search => 2,
            Source::Ad => 3,
            Source::Outside => 6,
        }
    }

    /// Returns the visitor's region. The number of regions is the real one.
    pub fn region(&self) -> i64 {
        1 + (self.random.rank(Region, self.visitor, 0.7, 4.0) % 9_040.0) as i64
    }

    /// Returns the visitor's address. A fifth of the visitors share addresses.
    pub fn address(&self) -> i64 {
        let key = match self.random.happens(SharedAddress, self.visitor, 0.2) {
            true => self.random.rank(SharedAddress, self.visitor.rotate_left(1), 0.3, 300.0).to_bits(),
            false => self.visitor.rotate_left(17),
        };
        i64::from(self.random.bits(Address, key) as i32)
    }

    /// Returns a share of the rows of the pinned site, and another of those of other sites.
    pub fn link_share(&self) -> f64 {
        if self.site == PINNED_SITE { 0.6 } else { 0.05 }
    }

    pub fn watch(&self) -> i64 {
        (self.random.bits(Watch, self.row) >> 1) as i64
    }
}
