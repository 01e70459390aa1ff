//! Uses that the types forbid: a handle belongs to one thread or task. Each is beside a use that
//! compiles and differs in nothing else.
//!
//! Handles are not shared between threads:
//! ```
//! fn shared<T: Sync>() {}
//! shared::<u32>();
//! # use annulus_exchange::ring::{RingConsumer, RingProducer};
//! # fn sent<T: Send>() {}
//! # sent::<RingProducer<u32>>();
//! # sent::<RingConsumer<u32>>();
//! ```
//! ```compile_fail,E0277
//! fn shared<T: Sync>() {}
//! shared::<annulus_exchange::ring::RingProducer<u32>>();
//! ```
//! ```compile_fail,E0277
//! fn shared<T: Sync>() {}
//! shared::<annulus_exchange::ring::RingConsumer<u32>>();
//! ```
//!
//! There is one of each:
//! ```
//! fn cloned<T: Clone>() {}
//! cloned::<u32>();
//! ```
//! ```compile_fail,E0277
//! fn cloned<T: Clone>() {}
//! cloned::<annulus_exchange::ring::RingProducer<u32>>();
//! ```
//! ```compile_fail,E0277
//! fn cloned<T: Clone>() {}
//! cloned::<annulus_exchange::ring::RingConsumer<u32>>();
//! ```
//!
//! A producer that has finished sends nothing:
//! ```no_run
//! fn at_the_end(mut producer: annulus_exchange::ring::RingProducer<u32>) {
//!     let _ = producer.try_send(1);
//!     producer.finish();
//! }
//! ```
//! ```compile_fail,E0382
//! fn after_the_end(mut producer: annulus_exchange::ring::RingProducer<u32>) {
//!     producer.finish();
//!     let _ = producer.try_send(1);
//! }
//! ```
//!
//! Consumers share the values:
//! ```
//! use annulus_exchange::ring::{RingConfig, ring};
//! ring::<u32>(RingConfig::new(1, 2));
//! ```
//! ```compile_fail,E0277
//! use annulus_exchange::ring::{RingConfig, ring};
//! ring::<std::cell::Cell<u32>>(RingConfig::new(1, 2));
//! ```
