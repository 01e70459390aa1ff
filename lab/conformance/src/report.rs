//! The output of the program.

use std::{fmt, path::Path};

use serde_json::json;

use crate::verdict::Verdict;

/// Counts of files by verdict.
#[derive(Default)]
pub struct Report {
    same: usize,
    passed: usize,
    /// The number of files with failures on stock only.
    better: usize,
    differing: usize,
}

impl Report {
    /// Counts a file, and prints it if its verdicts differ. JSON is always printed.
    pub fn add(&mut self, file: &Path, stock: &Verdict, annulus: &Verdict, as_json: bool) {
        let same = stock == annulus;
        let better = annulus.is_better_than(stock);
        self.same += usize::from(same);
        self.passed += usize::from(same && *stock == Verdict::Passed);
        self.better += usize::from(better);
        self.differing += usize::from(!same && !better);
        if as_json {
            let line = json!({
                "file": file.display().to_string(),
                "same": same,
                "verdict": annulus.word(),
                "stock": stock.beside(annulus),
                "annulus": annulus.beside(stock),
            });
            println!("{line}");
        } else if !same {
            let (theirs, ours) = (stock.beside(annulus), annulus.beside(stock));
            println!("{}\n  stock:   {theirs}\n  annulus: {ours}", file.display());
        }
    }

    /// Returns the number of files whose verdicts differ, except those with failures on stock only.
    pub fn differing(&self) -> usize {
        self.differing
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { same, passed, better, differing } = self;
        let files = same + better + differing;
        write!(f, "{files} files: {same} with the same verdict ({passed} passed), {differing} differ")?;
        if *better > 0 {
            write!(f, ", and in {better} stock alone failed")?;
        }
        Ok(())
    }
}
