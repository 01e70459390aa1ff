//! The ways to pass values from M producers to N consumers, behind one contract.
//!
//! Every consumer visits every value by reference, in an order that keeps that of each producer.
//! The traits [`Sender`] and [`Receiver`] are the contract; [`transport`] creates the handles of
//! any way. An exchange publishes indexed batches through them, and a benchmark can send what it
//! likes.
//!
//! ```text
//! ring/                the ring of this crate
//! domains.rs           one ring for each cache domain, read by every consumer
//! queues/              a queue for each consumer
//! ```

mod domains;
pub(crate) mod lease_cell;
mod order;
pub(crate) mod queues;
mod ring;

pub use crate::contract::{Handles, Parcel, Receiver, Relieve, Sender, Shape, Unread};
use crate::{error::ExchangeError, ring::RingConfig, strategy::Strategy};

/// The values visited in a call at most, so that a task that is never short of values yields.
pub const VALUES_AT_ONCE: usize = 256;

impl Shape {
    /// Returns the number of rings: two values of a producer keep their order only within one. Only
    /// [`Strategy::RingPerDomain`] has more than one; any other transport counts as one.
    pub fn rings(&self, strategy: Strategy) -> usize {
        if strategy == Strategy::RingPerDomain { domains::rings(self) } else { 1 }
    }

    /// Returns the shape of a ring with these producers and slots.
    fn ring(&self, producers: usize, slots: usize) -> RingConfig {
        RingConfig::new(producers, self.consumers).with_groups(self.groups + 1).with_slots(slots)
    }
}

/// Creates the handles of a transport. [`Strategy::Auto`] counts as [`Strategy::Ring`].
///
/// ```
/// use std::ops::ControlFlow;
///
/// use annulus_exchange::{
///     Strategy,
///     ring::Next,
///     transport::{Parcel, Shape, transport},
/// };
///
/// struct Number(u32);
/// impl Parcel for Number {}
///
/// for strategy in Strategy::TRANSPORTS {
///     let (mut senders, mut receivers) = transport(strategy, Shape::new(1, 2))?;
///     senders[0].send_blocking(Number(7), &mut |_, _, _| Ok(()))?;
///     senders[0].end();
///     for receiver in &mut receivers {
///         let mut seen = vec![];
///         while receiver.next_blocking(&mut |number: &Number| {
///             seen.push(number.0);
///             ControlFlow::Continue(())
///         })? != Next::Finished
///         {}
///         assert_eq!(seen, [7]);
///     }
/// }
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
///
/// # Errors
/// [`ExchangeError::Config`] for [`Strategy::Reserve`], which copies rows and passes no values on,
/// and for strategies of other crates, which pass indexed batches on.
pub fn transport<T: Parcel>(strategy: Strategy, shape: Shape) -> Result<Handles<T>, ExchangeError> {
    let shape = shape.positive();
    match strategy {
        Strategy::Auto | Strategy::Ring => Ok(ring::handles(shape)),
        Strategy::RingPerDomain => Ok(domains::handles(shape)),
        Strategy::Channel => Ok(queues::handles::<T, queues::LockFree>(shape)),
        Strategy::Reserve => Err(ExchangeError::Config {
            option: "strategy",
            value: strategy.to_string(),
            remedy: "choose one that passes values on, such as ring or channel".into(),
        }),
        #[cfg(feature = "transports")]
        Strategy::Other(other) => Err(ExchangeError::Config {
            option: "strategy",
            value: other.word().to_owned(),
            remedy: "the crate that registered it creates its handles".into(),
        }),
    }
}

/// Creates the handles of [`Strategy::RingPerDomain`] for threads that are pinned: `domains` has
/// the domain of each producer. There is a ring for each number in it.
///
/// ```
/// use annulus_exchange::transport::{Parcel, Shape, rings_in_domains};
///
/// struct Number(u32);
/// impl Parcel for Number {}
///
/// // The first and the last producer share a ring.
/// let (senders, receivers) = rings_in_domains::<Number>(Shape::new(3, 2), &[0, 1, 0])?;
/// assert_eq!((senders.len(), receivers.len()), (3, 2));
/// # Ok::<(), annulus_exchange::ExchangeError>(())
/// ```
///
/// # Errors
/// [`ExchangeError::Config`] if `domains` has another number of producers than `shape`.
pub fn rings_in_domains<T: Parcel>(shape: Shape, domains: &[usize]) -> Result<Handles<T>, ExchangeError> {
    let shape = shape.positive();
    if domains.len() != shape.producers {
        return Err(ExchangeError::Config {
            option: "domains",
            value: format!("{} numbers", domains.len()),
            remedy: "give one for each producer".into(),
        });
    }
    Ok(domains::handles_in(shape, domains))
}
