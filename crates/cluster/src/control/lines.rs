//! JSON objects, one per line.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    marker::PhantomData,
    sync::{Mutex, PoisonError},
};

use serde::{Serialize, de::DeserializeOwned};

use crate::error::ClusterError;

/// The largest size of a line. A longer one does not come from this program.
const MOST_BYTES: u64 = 256 << 20;

/// Reads messages until the other side ends.
pub(crate) struct LineReader<R, M> {
    reader: BufReader<R>,
    message: PhantomData<M>,
}

impl<R: Read, M: DeserializeOwned> LineReader<R, M> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader: BufReader::new(reader), message: PhantomData }
    }

    fn read(&mut self) -> Result<Option<M>, ClusterError> {
        let mut line = Vec::new();
        let read = self.reader.by_ref().take(MOST_BYTES).read_until(b'\n', &mut line)?;
        if read == 0 {
            return Ok(None);
        }
        let broken = |reason: String| ClusterError::Control { reason };
        if line.last() != Some(&b'\n') {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it ended within a message").into());
        }
        serde_json::from_slice(&line).map(Some).map_err(|error| broken(error.to_string()))
    }
}

impl<R: Read, M: DeserializeOwned> Iterator for LineReader<R, M> {
    type Item = Result<M, ClusterError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

/// Writes messages, from any thread.
pub(crate) struct LineWriter<W>(Mutex<W>);

impl<W: Write> LineWriter<W> {
    pub(crate) fn new(writer: W) -> Self {
        Self(Mutex::new(writer))
    }

    pub(crate) fn into_inner(self) -> W {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn write(&self, message: &impl Serialize) -> Result<(), ClusterError> {
        let mut line =
            serde_json::to_vec(message).map_err(|error| ClusterError::Control { reason: error.to_string() })?;
        line.push(b'\n');
        let mut writer = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        writer.write_all(&line)?;
        Ok(writer.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_come_as_they_were_written() {
        let writer = LineWriter::new(Vec::new());
        for message in ["one", "two\nlines"] {
            writer.write(&message).unwrap();
        }
        let bytes = writer.0.into_inner().unwrap();
        let read: Result<Vec<String>, _> = LineReader::new(&bytes[..]).collect();
        assert_eq!(read.unwrap(), ["one", "two\nlines"]);
    }

    #[test]
    fn half_a_message_is_an_error() {
        let mut reader = LineReader::<_, String>::new(&b"\"one\"\n\"tw"[..]);
        assert!(reader.next().unwrap().is_ok());
        assert!(reader.next().unwrap().unwrap_err().to_string().contains("within a message"));
    }
}
