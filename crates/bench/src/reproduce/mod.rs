//! `annulus reproduce`: the figures of papers, measured on this machine.

pub mod cyclo;
mod origin;
pub mod pages;
pub mod ring;
mod store;

use annulus_terminal::{
    report::page::{self, note},
    unfinished::Files,
};

/// Returns a page. For a quick run of the size `quick`, its title and a note say that it was one.
fn page(title: &str, lead: &str, quick: Option<String>, mut sections: Vec<String>) -> String {
    let Some(size) = quick else { return page::page(title, lead, &sections) };
    sections.insert(
        0,
        note(&format!("This was a quick run: {size}. It shows that everything works. Its figures mean nothing.")),
    );
    page::page(&format!("{title} (quick run)"), lead, &sections)
}

#[cfg(test)]
mod tests {
    use super::page;

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
