//! Seals slots before they are sent, and opens them in place, for networks without encryption.

use aws_lc_rs::{
    aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey},
    error::Unspecified,
    hkdf::{HKDF_SHA256, Prk},
};

use crate::wire::MESSAGE_BYTES;

/// The offset of the tag in a message, after its fields. The fields are not encrypted, but the tag
/// authenticates them.
const TAG: usize = MESSAGE_BYTES - 16;
/// The number of bytes sealed with one key. AES-GCM's margin shrinks with the square of this
/// number.
const KEY_BYTES: u64 = 64 << 30;

/// The state of sealing or opening the slots of one direction, in order.
pub(super) struct Seals {
    /// The secret from which this key and the next are derived.
    secret: [u8; 32],
    key: LessSafeKey,
    /// The number of slots sealed or opened, which gives each its own nonce.
    slots: u64,
    /// The number of bytes that may still be sealed with the key.
    left: u64,
}

impl Seals {
    /// Creates the state from a secret that only both ends know.
    pub(super) fn new(secret: [u8; 32]) -> Result<Self, Unspecified> {
        Ok(Self { key: key(&secret)?, secret, slots: 0, left: KEY_BYTES })
    }

    /// Seals a slot: a message and the bytes after it.
    pub(super) fn seal(&mut self, slot: &mut [u8]) -> Result<(), Unspecified> {
        let nonce = self.next(slot.len())?;
        let (message, data) = slot.split_at_mut(MESSAGE_BYTES);
        let (proved, tag) = message.split_at_mut(TAG);
        tag.copy_from_slice(self.key.seal_in_place_separate_tag(nonce, Aad::from(proved), data)?.as_ref());
        Ok(())
    }

    /// Opens the next slot. Fails unless the other end sealed exactly this one.
    pub(super) fn open(&mut self, slot: &mut [u8]) -> Result<(), Unspecified> {
        let nonce = self.next(slot.len())?;
        let (message, data) = slot.split_at_mut_checked(MESSAGE_BYTES).ok_or(Unspecified)?;
        let (proved, tag) = message.split_at_mut(TAG);
        self.key.open_in_place_separate_tag(nonce, Aad::from(proved), tag, data)?;
        tag.fill(0);
        Ok(())
    }

    fn next(&mut self, bytes: usize) -> Result<Nonce, Unspecified> {
        if self.left < bytes as u64 {
            self.secret = expand(&self.secret, b"next")?;
            (self.key, self.left) = (key(&self.secret)?, KEY_BYTES);
        }
        self.left -= bytes as u64;
        self.slots += 1;
        let mut nonce = [0; 12];
        nonce[4..].copy_from_slice(&self.slots.to_be_bytes());
        Ok(Nonce::assume_unique_for_key(nonce))
    }
}

fn key(secret: &[u8; 32]) -> Result<LessSafeKey, Unspecified> {
    Ok(LessSafeKey::new(UnboundKey::new(&AES_256_GCM, &expand(secret, b"key")?)?))
}

fn expand(secret: &[u8; 32], label: &[u8]) -> Result<[u8; 32], Unspecified> {
    let mut expanded = [0; 32];
    Prk::new_less_safe(HKDF_SHA256, secret).expand(&[label], HKDF_SHA256)?.fill(&mut expanded)?;
    Ok(expanded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slots_are_opened_in_their_order_as_they_were_sealed() {
        let (mut sender, mut receiver) = (Seals::new([7; 32]).unwrap(), Seals::new([7; 32]).unwrap());
        let slot = |number: u8, bytes: usize| {
            let mut slot = vec![number; MESSAGE_BYTES + bytes];
            slot[TAG..MESSAGE_BYTES].fill(0);
            slot
        };
        for number in 0..20 {
            // The key changes now and then.
            if number % 7 == 6 {
                (sender.left, receiver.left) = (50, 50);
            }
            let before = sender.secret;
            let clear = slot(number, usize::from(number) * 11);
            let mut sealed = clear.clone();
            sender.seal(&mut sealed).unwrap();
            assert_eq!(sealed[..TAG], clear[..TAG]);
            assert!(number < 2 || sealed[MESSAGE_BYTES..] != clear[MESSAGE_BYTES..]);
            assert_eq!(sender.secret != before, number % 7 == 6);
            receiver.open(&mut sealed).unwrap();
            assert_eq!(sealed, clear);
        }
    }

    #[test]
    fn what_was_changed_or_comes_again_is_refused() {
        let seals = || Seals::new([1; 32]).unwrap();
        let sealed = |slots| {
            let mut sender = seals();
            let mut slot = vec![0; MESSAGE_BYTES + 100];
            (0..slots).for_each(|_| sender.seal(&mut slot).unwrap());
            slot
        };
        for at in [0, TAG - 1, TAG, MESSAGE_BYTES, MESSAGE_BYTES + 99] {
            let mut slot = sealed(1);
            slot[at] ^= 1;
            assert!(seals().open(&mut slot).is_err(), "byte {at}");
        }
        assert!(seals().open(&mut sealed(1)).is_ok());
        assert!(seals().open(&mut sealed(2)).is_err());
        assert!(seals().open(&mut [0; MESSAGE_BYTES - 1]).is_err());
        assert!(Seals::new([2; 32]).unwrap().open(&mut sealed(1)).is_err());
    }
}
