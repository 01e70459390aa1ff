use annulus_simulate::*;
fn main() {
    let t = std::time::Instant::now();
    for row in published().unwrap() {
        let w = Workload { rows: 8192, row_bytes: row.row_bytes, sizes: row.sizes };
        print!("{:22} ", row.place);
        for (s, v) in &row.gb_s {
            let t0 = std::time::Instant::now();
            let o = simulate(&row.machine, row.threads, *s, w, &Fitted::STORED, 1).unwrap();
            print!(" {s} {v:.2}/{:.2} ({} ms, {:.1} w)", o.gb_s, t0.elapsed().as_millis(), o.wakes_a_batch);
        }
        println!();
    }
    println!("{:?}", t.elapsed());
}
