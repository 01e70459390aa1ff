//! `annulus-lab reproduce`: the figures of papers, measured on this machine.

pub mod cyclo;
mod origin;
pub mod pages;
pub mod ring;
mod store;

use annulus_charts::page::{self, escape, note};

use annulus_terminal::unfinished::Files;

/// Returns a page. For a quick run of the size `quick`, its title and a note say that it was one.
fn page(title: &str, lead: &str, quick: Option<String>, mut sections: Vec<String>) -> String {
    let Some(size) = quick else { return page::page(title, lead, &sections) };
    sections.insert(
        0,
        note(&format!("This was a quick run: {size}. It shows that everything works. Its figures mean nothing.")),
    );
    page::page(&format!("{title} (quick run)"), lead, &sections)
}

/// Returns the section of what was not measured, and why. `None` if all was.
fn not_measured<'a>(absent: impl IntoIterator<Item = &'a String>) -> Option<String> {
    let lines: String = absent.into_iter().map(|line| format!("<li>{}</li>\n", escape(line))).collect();
    (!lines.is_empty()).then(|| format!("<h2>Not measured</h2>\n<ul>\n{lines}</ul>"))
}

/// Returns the least and the most of some values, as `least to most`; once if both read the same.
/// `None` without values.
fn range(values: &[f64], shown: impl Fn(f64) -> String) -> Option<String> {
    let least = values.iter().copied().reduce(f64::min)?;
    let most = values.iter().copied().fold(least, f64::max);
    let (least, most) = (shown(least), shown(most));
    Some(if least == most { least } else { format!("{least} to {most}") })
}

#[cfg(test)]
mod tests {
    use super::{page, range};

    #[test]
    fn a_range_names_its_ends() {
        let shown = |value: f64| format!("{value:.1}");
        assert_eq!(range(&[2.0, 1.0, 3.0], shown).as_deref(), Some("1.0 to 3.0"));
        assert_eq!(range(&[2.01, 2.0], shown).as_deref(), Some("2.0"));
        assert_eq!(range(&[], shown), None);
    }

    #[test]
    fn a_quick_page_says_so_in_its_title_and_in_a_note() {
        let sections = || vec!["<h2>A</h2>".to_owned()];
        let (usual, quick) = (page("T", "L", None, sections()), page("T", "L", Some("1 round".to_owned()), sections()));
        assert!(usual.contains("<title>T</title>") && !usual.contains("quick"), "{usual}");
        assert!(quick.contains("<title>T (quick run)</title>") && quick.contains("<h1>T (quick run)</h1>"), "{quick}");
        let note = quick.find("This was a quick run: 1 round.").unwrap();
        assert!(quick.find("<p>L</p>").unwrap() < note && note < quick.find("<h2>A</h2>").unwrap(), "{quick}");
    }
}
