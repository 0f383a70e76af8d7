//! A file that can be written to without being changed: what is written stays in memory.
//!
//! Checking a database may make it repair itself. Through this, a check leaves the file as it was.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard, PoisonError};

const BLOCK: u64 = 4096;

/// A file and what would have been written to it.
#[derive(Debug)]
pub(super) struct Overlay {
    file: File,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    length: u64,
    /// Up to where the file still counts: less than its length once it was shortened.
    original: u64,
    blocks: BTreeMap<u64, Vec<u8>>,
}

impl Overlay {
    pub(super) fn new(file: File) -> io::Result<Self> {
        let length = file.metadata()?.len();
        let state = Mutex::new(State { length, original: length, blocks: BTreeMap::new() });
        Ok(Self { file, state })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The block as it is now.
    fn block(&self, state: &State, number: u64) -> io::Result<Vec<u8>> {
        if let Some(block) = state.blocks.get(&number) {
            return Ok(block.clone());
        }
        let mut block = vec![0; BLOCK as usize];
        let there = state.original.saturating_sub(number * BLOCK).min(BLOCK) as usize;
        self.file.read_exact_at(&mut block[..there], number * BLOCK)?;
        Ok(block)
    }

    /// Calls a function with every block that a range touches: its number, the part of the block,
    /// and the part of the range.
    fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, usize, usize)> {
        let mut done = 0;
        std::iter::from_fn(move || {
            let at = offset + done as u64;
            let within = (at % BLOCK) as usize;
            let size = (length - done).min(BLOCK as usize - within);
            let piece = (at / BLOCK, within, done, size);
            done += size;
            (0 < size).then_some(piece)
        })
    }
}

impl redb::StorageBackend for Overlay {
    fn len(&self) -> io::Result<u64> {
        Ok(self.lock().length)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.lock();
        if state.length < offset + out.len() as u64 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for (number, within, done, size) in Self::pieces(offset, out.len()) {
            let block = self.block(&state, number)?;
            out[done..done + size].copy_from_slice(&block[within..within + size]);
        }
        Ok(())
    }

    fn set_len(&self, length: u64) -> io::Result<()> {
        let mut state = self.lock();
        if length < state.length {
            state.original = state.original.min(length);
            state.blocks.retain(|number, _| number * BLOCK < length);
            if let Some(block) = state.blocks.get_mut(&(length / BLOCK)) {
                block[(length % BLOCK) as usize..].fill(0);
            }
        }
        state.length = length;
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.lock();
        state.length = state.length.max(offset + data.len() as u64);
        for (number, within, done, size) in Self::pieces(offset, data.len()) {
            let mut block = self.block(&state, number)?;
            block[within..within + size].copy_from_slice(&data[done..done + size]);
            state.blocks.insert(number, block);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use redb::StorageBackend;

    use super::*;

    #[test]
    fn shows_what_was_written_and_leaves_the_file_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, vec![1; 5000]).unwrap();
        let overlay = Overlay::new(File::open(&path).unwrap()).unwrap();
        overlay.write(4090, &[2; 10]).unwrap();
        overlay.set_len(9000).unwrap();
        let mut seen = [9; 14];
        overlay.read(4088, &mut seen).unwrap();
        assert_eq!(seen, [1, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 1, 1]);
        overlay.read(8986, &mut seen).unwrap();
        assert_eq!(seen, [0; 14]);
        assert!(overlay.read(8990, &mut seen).is_err());
        overlay.set_len(4095).unwrap();
        overlay.set_len(5000).unwrap();
        overlay.read(4090, &mut seen).unwrap();
        assert_eq!(seen, [2, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(std::fs::read(&path).unwrap(), vec![1; 5000]);
    }
}
