//! Hosts that take no orders, and the order in which hosts are entered.

use std::{
    io::{self, PipeWriter, Read, Write},
    path::PathBuf,
    sync::{Arc, Condvar, Mutex, mpsc},
};

use super::*;
use crate::{
    control::{HostProgress, LineWriter, Neighbours},
    coordinator::{HostHandle, HostProcess},
};

/// A host that accepts no orders and reports nothing until it is ended.
#[derive(Clone, Default)]
struct Stuck(Arc<(Mutex<bool>, Condvar)>);

impl Stuck {
    fn wait(&self) {
        let (ended, changed) = &*self.0;
        drop(changed.wait_while(ended.lock().unwrap(), |ended| !*ended).unwrap());
    }
}

impl Read for Stuck {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.wait();
        Ok(0)
    }
}

impl Write for Stuck {
    fn write(&mut self, _: &[u8]) -> io::Result<usize> {
        self.wait();
        Err(io::ErrorKind::BrokenPipe.into())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl HostHandle for Stuck {
    fn end(&mut self, _: bool) -> Option<String> {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
        None
    }
}

impl Launch for Stuck {
    fn hosts(&self) -> usize {
        1
    }

    fn start(&self, _: usize) -> Result<HostProcess, ClusterError> {
        let [orders, reports, handle] = [(); 3].map(|()| Box::new(self.clone()));
        Ok(HostProcess { orders, reports, handle })
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::Folder(PathBuf::new())
    }
}

impl Observe for Stuck {
    fn host(&self, _: usize, _: HostProgress) {}
}

#[test]
fn a_host_that_takes_no_orders_does_not_block_the_join() {
    let stuck = Stuck::default();
    let mut ring = Ring::start(mpsc::channel(), Duration::from_millis(100), &stuck, &stuck).unwrap();
    ring.order_all(&Order::Turn);
    let failed = ring.collect(|_| Some(())).unwrap_err();
    assert!(matches!(failed, ClusterError::Host { host: 0, lost: true, .. }), "{failed}");
    ring.end(true);
    assert!(*stuck.0.0.lock().unwrap());
}

/// Free hosts with these names. Records the order in which they are entered.
struct Free {
    names: Vec<&'static str>,
    entered: Arc<Mutex<Vec<&'static str>>>,
}

struct Orders {
    name: &'static str,
    entered: Arc<Mutex<Vec<&'static str>>>,
    reports: PipeWriter,
}

impl Write for Orders {
    fn write(&mut self, order: &[u8]) -> io::Result<usize> {
        self.entered.lock().unwrap().push(self.name);
        LineWriter::new(&self.reports).write(&Report::Entered).map_err(io::Error::other)?;
        Ok(order.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

struct Handle;

impl HostHandle for Handle {
    fn end(&mut self, _: bool) -> Option<String> {
        None
    }
}

impl Launch for Free {
    fn hosts(&self) -> usize {
        self.names.len()
    }

    fn entry_key(&self, host: usize) -> String {
        self.names[host].to_owned()
    }

    fn start(&self, host: usize) -> Result<HostProcess, ClusterError> {
        let (reader, reports) = io::pipe()?;
        let orders = Orders { name: self.names[host], entered: Arc::clone(&self.entered), reports };
        Ok(HostProcess { orders: Box::new(orders), reports: Box::new(reader), handle: Box::new(Handle) })
    }

    fn neighbours(&self) -> Neighbours {
        Neighbours::Folder(PathBuf::new())
    }
}

/// Otherwise two joins could each enter a host that the other one waits for.
#[test]
fn hosts_are_entered_in_one_order_whatever_the_ring_file_says() {
    for names in [["alpha", "beta", "gamma"], ["gamma", "alpha", "beta"]] {
        let free = Free { names: names.to_vec(), entered: Arc::default() };
        let observe = Stuck::default();
        let mut ring = Ring::start(mpsc::channel(), Duration::from_secs(60), &free, &observe).unwrap();
        ring.enter(Duration::from_secs(60)).unwrap();
        assert_eq!(*free.entered.lock().unwrap(), ["alpha", "beta", "gamma"]);
        ring.end(false);
    }
}
