//! The 105 columns, in order, and how each is computed. `DATA.md` says the same in words.

use arrow::datatypes::DataType;

use crate::{hit::Hit, text};

/// A column.
pub struct Column {
    pub name: &'static str,
    pub fill: Fill,
}

/// The type of a column and the function that computes its value.
pub enum Fill {
    I16(fn(&Hit) -> i64),
    I32(fn(&Hit) -> i64),
    I64(fn(&Hit) -> i64),
    U16(fn(&Hit) -> i64),
    Text(fn(&Hit, &mut String)),
}

impl Fill {
    pub fn data_type(&self) -> DataType {
        match self {
            Self::I16(_) => DataType::Int16,
            Self::I32(_) => DataType::Int32,
            Self::I64(_) => DataType::Int64,
            Self::U16(_) => DataType::UInt16,
            Self::Text(_) => DataType::Utf8,
        }
    }
}

const LANGUAGES: [&str; 4] = ["ru", "en", "uk", "tr"];
const COUNTRIES: [&str; 5] = ["RU", "UA", "US", "KZ", "BY"];
const COLOURS: [&str; 4] = ["F", "5", "D", "T"];

macro_rules! columns {
    ($($name:literal $kind:ident $fill:expr;)*) => { [$(Column { name: $name, fill: Fill::$kind($fill) }),*] };
}

/// The columns. Their names, order and types are those of `hits.parquet`.
pub static COLUMNS: [Column; 105] = columns! {
    "WatchID" I64 |h| h.watch();
    "JavaEnable" I16 |h| h.visitor_flag(1, 0.7);
    "Title" Text text::title;
    "GoodEvent" I16 |_| 1;
    "EventTime" I64 |h| h.time;
    "EventDate" U16 Hit::date;
    "CounterID" I32 |h| h.site.into();
    "ClientIP" I32 Hit::address;
    "RegionID" I32 Hit::region;
    "UserID" I64 Hit::user_id;
    "CounterClass" I16 |h| i64::from(h.site % 3) - 1;
    "OS" I16 |h| h.visitor_rank(11, 1.2, 3.0, 90.0);
    "UserAgent" I16 |h| h.visitor_rank(12, 1.5, 4.0, 80.0);
    "URL" Text text::url;
    "Referer" Text text::referer;
    "IsRefresh" I16 |h| h.flag(15, 0.08);
    "RefererCategoryID" I16 |h| h.rare(16, 0.3, 300);
    "RefererRegionID" I32 |h| h.rare(17, 0.5, 5_000);
    "URLCategoryID" I16 |h| h.rare(18, 0.4, 300);
    "URLRegionID" I32 |h| i64::from(h.site % 250);
    "ResolutionWidth" I16 |h| h.screen().0;
    "ResolutionHeight" I16 |h| h.screen().1;
    "ResolutionDepth" I16 |h| if h.visitor_flag(22, 0.9) == 1 { 32 } else { 24 };
    "FlashMajor" I16 |h| h.visitor_flag(23, 0.85) * 11;
    "FlashMinor" I16 |h| h.visitor_flag(23, 0.85) * h.visitor_number(24, 9);
    "FlashMinor2" Text |h, out| if h.visitor_flag(23, 0.85) == 1 { out.push_str("700") };
    "NetMajor" I16 |h| h.visitor_flag(26, 0.4) * 3;
    "NetMinor" I16 |h| h.visitor_flag(26, 0.4) * h.visitor_flag(27, 0.5) * 5;
    "UserAgentMajor" I16 |h| 5 + h.visitor_rank(28, 0.8, 10.0, 25.0);
    "UserAgentMinor" Text |h, out| out.push(char::from(b'0' + h.visitor_number(29, 10) as u8));
    "CookieEnable" I16 |h| h.visitor_flag(30, 0.97);
    "JavascriptEnable" I16 |h| h.visitor_flag(31, 0.98);
    "IsMobile" I16 |h| i64::from(h.phone().is_some());
    "MobilePhone" I16 |h| h.phone().map_or(0, |phone| phone.0);
    "MobilePhoneModel" Text Hit::phone_model;
    "Params" Text |h, out| h.rare_word(35, 0.05, 5_000, out);
    "IPNetworkID" I32 |h| h.visitor_rank(36, 0.5, 500.0, 4_000_000.0);
    "TraficSourceID" I16 Hit::traffic_source;
    "SearchEngineID" I16 Hit::search_engine;
    "SearchPhrase" Text text::phrase;
    "AdvEngineID" I16 Hit::ad_engine;
    "IsArtifical" I16 |h| h.flag(41, 0.06);
    "WindowClientWidth" I16 |h| h.window().0;
    "WindowClientHeight" I16 |h| h.window().1;
    "ClientTimeZone" I16 |h| 60 * (1 + h.visitor_rank(44, 1.0, 2.0, 11.0));
    "ClientEventTime" I64 |h| h.time + h.number(45, 41) - 20;
    "SilverlightVersion1" I16 |h| h.visitor_flag(46, 0.3) * 5;
    "SilverlightVersion2" I16 |h| h.visitor_flag(46, 0.3);
    "SilverlightVersion3" I32 |h| h.visitor_flag(46, 0.3) * (10_411 + h.visitor_number(48, 9_714));
    "SilverlightVersion4" I16 |_| 0;
    "PageCharset" Text |h, out| out.push_str(if h.site % 3 == 0 { "windows-1251" } else { "utf-8" });
    "CodeVersion" I32 |h| 300 + i64::from(h.site % 90);
    "IsLink" I16 |h| h.flag(52, h.link_share());
    "IsDownload" I16 |h| h.flag(53, 0.005);
    "IsNotBounce" I16 |h| h.flag(54, 0.3);
    "FUniqID" I64 |h| h.visitor_flag(55, 0.6) * h.visitor_number(55, 1 << 62);
    "OriginalURL" Text |h, out| if h.flag(56, 0.1) == 1 { text::referer(h, out) };
    "HID" I32 |h| h.number(57, 1 << 30);
    "IsOldCounter" I16 |_| 0;
    "IsEvent" I16 |_| 0;
    "IsParameter" I16 |_| 0;
    "DontCountHits" I16 |h| h.flag(61, 0.1);
    "WithHash" I16 |h| h.flag(62, 0.02);
    "HitColor" Text |h, out| out.push_str(COLOURS[h.visitor_rank(63, 1.5, 2.0, 4.0) as usize]);
    "LocalEventTime" I64 |h| h.time + 4 * 3600 + h.number(64, 5);
    "Age" I16 |h| h.visitor_flag(65, 0.6) * [16, 22, 31, 39, 50, 55][h.visitor_number(65, 6) as usize];
    "Sex" I16 |h| h.visitor_flag(65, 0.6) * (1 + h.visitor_number(66, 2));
    "Income" I16 |h| h.visitor_flag(65, 0.6) * (1 + h.visitor_number(67, 4));
    "Interests" I16 |h| h.visitor_flag(68, 0.7) * h.visitor_number(68, 16_384);
    "Robotness" I16 |h| h.visitor_flag(69, 0.05) * (1 + h.visitor_number(69, 60));
    "RemoteIP" I32 Hit::address;
    "WindowName" I32 |h| h.rare(71, 0.2, 1 << 30);
    "OpenerName" I32 |h| h.rare(72, 0.05, 1 << 30);
    "HistoryLength" I16 |h| 1 + h.rank(73, 1.2, 4.0, 50.0);
    "BrowserLanguage" Text |h, out| out.push_str(LANGUAGES[h.visitor_rank(74, 2.0, 1.0, 4.0) as usize]);
    "BrowserCountry" Text |h, out| out.push_str(COUNTRIES[h.visitor_rank(75, 2.0, 1.5, 5.0) as usize]);
    "SocialNetwork" Text |h, out| h.rare_word(76, 0.002, 8, out);
    "SocialAction" Text |h, out| h.rare_word(76, 0.002, 3, out);
    "HTTPError" I16 |h| h.flag(78, 0.004) * 404;
    "SendTiming" I32 |h| h.timing(79, 60.0);
    "DNSTiming" I32 |h| h.timing(80, 15.0);
    "ConnectTiming" I32 |h| h.timing(81, 40.0);
    "ResponseStartTiming" I32 |h| h.timing(82, 250.0);
    "ResponseEndTiming" I32 |h| h.timing(83, 150.0);
    "FetchTiming" I32 |h| h.timing(84, 500.0);
    "SocialSourceNetworkID" I16 |h| h.rare(85, 0.02, 12);
    "SocialSourcePage" Text |h, out| h.rare_word(86, 0.005, 4_000, out);
    "ParamPrice" I64 |h| h.rare(87, 0.001, 100_000);
    "ParamOrderID" Text |h, out| h.rare_word(88, 0.001, 1 << 30, out);
    "ParamCurrency" Text |_, out| out.push_str("RUB");
    "ParamCurrencyID" I16 |h| h.flag(87, 0.001) * 643;
    "OpenstatServiceName" Text |h, out| h.rare_word(91, 0.01, 12, out);
    "OpenstatCampaignID" Text |h, out| h.rare_word(91, 0.01, 6_000, out);
    "OpenstatAdID" Text |h, out| h.rare_word(91, 0.01, 20_000, out);
    "OpenstatSourceID" Text |h, out| h.rare_word(91, 0.01, 3_000, out);
    "UTMSource" Text |h, out| h.rare_word(95, 0.03, 300, out);
    "UTMMedium" Text |h, out| h.rare_word(95, 0.03, 20, out);
    "UTMCampaign" Text |h, out| h.rare_word(95, 0.03, 3_000, out);
    "UTMContent" Text |h, out| h.rare_word(98, 0.01, 5_000, out);
    "UTMTerm" Text |h, out| h.rare_word(99, 0.01, 5_000, out);
    "FromTag" Text |h, out| h.rare_word(100, 0.01, 200, out);
    "HasGCLID" I16 |h| h.flag(101, 0.002);
    "RefererHash" I64 Hit::referer_hash;
    "URLHash" I64 Hit::url_hash;
    "CLID" I32 |h| h.rare(104, 0.01, 2_000_000);
};
