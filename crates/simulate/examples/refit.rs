use annulus_simulate::*;
fn show(f: &Fitted) {
    let rows = published().unwrap();
    let cells = cells(&rows, |r| r.fitted, f, 1, &|| true).unwrap();
    let mut last = usize::MAX;
    for c in &cells {
        if c.row != last {
            print!("\n{:22}", rows[c.row].place);
            last = c.row;
        }
        print!(" {} {:.2}/{:.2}", c.strategy, c.published, c.simulated);
    }
    println!();
    let mut e: Vec<_> = cells.iter().map(|c| c.error()).collect();
    e.sort_by(f64::total_cmp);
    println!("median {:.3} worst {:.3}", e[e.len() / 2], e[e.len() - 1]);
}
fn main() {
    let t = std::time::Instant::now();
    let rows = published().unwrap();
    let f = fit(&rows, &Fitted::START, 1, |n, l| {
        if n % 20 == 0 {
            eprintln!("{n} {l:.4} {:?}", t.elapsed());
        }
        t.elapsed().as_secs() < 400
    })
    .unwrap();
    println!("{f:?}");
    show(&f);
}
