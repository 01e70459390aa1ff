use annulus_exchange::partition::Modulo;
use annulus_pages::{memory::Pool, page::*, ranges::*, tuples::*};
use std::{sync::Mutex, time::Instant};
struct Collect(Vec<Mutex<Vec<Page>>>);
impl PageSink for Collect {
    fn take(&self, p: usize, page: Page) {
        self.0[p].lock().unwrap().push(page)
    }
}
fn mix(i: u64) -> u32 {
    let mut z = i.wrapping_mul(0x9E3779B97F4A7C15);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58476D1CE4E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D049BB133111EB);
    ((z ^ (z >> 31)) >> 32) as u32
}
fn main() {
    let a: Vec<usize> = std::env::args().skip(1).map(|s| s.parse().unwrap()).collect();
    let (tb, parts, threads, n, page) = (a[0], a[1], a[2], a[3], a[4]);
    let nt = a.get(5).copied().unwrap_or(1) == 1;
    let layout = if a.get(6).copied().unwrap_or(0) == 1 { Layout::Compact } else { Layout::Slotted };
    let size = tb - 4;
    let shape = PageShape::new(page, layout, PayloadSize::Fixed(size as u32)).unwrap();
    let pages = shape.pages_for(n) + parts * 2 + 64;
    const B: usize = 1024;
    let mut out = vec![];
    for _ in 0..5 {
        let pool = Pool::new(page, pages * page).unwrap();
        pool.warm(pages);
        let sink = Collect((0..parts).map(|_| Mutex::default()).collect());
        let writers = shuffle(
            Modulo::new(parts),
            threads,
            shape,
            pool,
            if nt { Stores::PastCache } else { Stores::Cached },
            sink,
        )
        .unwrap();
        let start = Instant::now();
        let gens: Vec<f64> = std::thread::scope(|s| {
            let hs: Vec<_> = writers
                .into_iter()
                .enumerate()
                .map(|(t, mut w)| {
                    s.spawn(move || {
                        let mut g = 0.0;
                        let mut keys = vec![0u32; B];
                        let mut bytes = vec![0u8; B * size];
                        let per = n / threads;
                        for b in 0..per / B {
                            let s = Instant::now();
                            let base = (t * per + b * B) as u64;
                            for (i, k) in keys.iter_mut().enumerate() {
                                *k = mix(base + i as u64);
                            }
                            let w32 = size / 4;
                            if w32 > 0 {
                                for (i, c) in bytes.chunks_exact_mut(size).enumerate() {
                                    let x = (base + i as u64) as u32;
                                    for (w, d) in c.chunks_exact_mut(4).enumerate() {
                                        d.copy_from_slice(
                                            &(x.wrapping_add((w as u32).wrapping_mul(0x9E3779B9))).to_le_bytes(),
                                        );
                                    }
                                }
                            }
                            g += s.elapsed().as_secs_f64();
                            w.write(&Tuples::new(&keys, Payloads::Fixed { bytes: &bytes, size }).unwrap()).unwrap();
                        }
                        w.finish().unwrap();
                        g
                    })
                })
                .collect();
            hs.into_iter().map(|h| h.join().unwrap()).collect()
        });
        let total = start.elapsed().as_secs_f64();
        let g = gens.iter().sum::<f64>() / threads as f64;
        out.push((n as f64 / (total - g) / 1e6, g, total));
    }
    out.sort_by(|a, b| a.0.total_cmp(&b.0));
    let m = out[2];
    let on_page = n as f64 * (size + shape.slot_bytes()) as f64;
    println!(
        "{tb} B P={parts} T={threads} page={page}: {:.0} M/s  gen {:.3} total {:.3}  {:.1} GB/s",
        m.0,
        m.1,
        m.2,
        on_page / (m.2 - m.1) / 1e9
    );
}
