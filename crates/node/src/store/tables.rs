//! The tables of the store, and the seal on their values.
//!
//! The database checks its pages only when it repairs itself, so every value carries a checksum of
//! its own, over the table, the key and the bytes: rot is found before it is used.

use std::mem::size_of;

use redb::{Key, ReadableDatabase, ReadableTable, TableDefinition, TableError};

type Id = &'static [u8; 16];
type Bytes = &'static [u8];
type Text = &'static str;

/// A subject's key → sealed (journal position, snapshot).
pub(super) const SUBJECTS: TableDefinition<'_, Bytes, Bytes> = TableDefinition::new("subjects");
/// Execution and number → sealed happening.
pub(super) const HISTORY: TableDefinition<'_, (Id, u64), Bytes> = TableDefinition::new("history");
/// Name → sealed number.
pub(super) const MARKS: TableDefinition<'_, Text, Bytes> = TableDefinition::new("marks");

/// The mark that says up to which journal position everything is in the store.
pub(super) const CHECKPOINT: &str = "checkpoint";

/// Does something with every table.
pub(super) trait EveryTable {
    /// Does it with one.
    fn table<K: Key + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, Bytes>,
    ) -> Result<(), redb::Error>;

    /// Does it with all, in a fixed order.
    fn every_table(&mut self) -> Result<(), redb::Error> {
        self.table(SUBJECTS)?;
        self.table(HISTORY)?;
        self.table(MARKS)
    }
}

/// Makes every table, so that reading never meets one that is not there.
pub(super) struct MakeTables<'a>(pub(super) &'a redb::WriteTransaction);

impl EveryTable for MakeTables<'_> {
    fn table<K: Key + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, Bytes>,
    ) -> Result<(), redb::Error> {
        self.0.open_table(definition)?;
        Ok(())
    }
}

/// Copies every table, byte for byte, seals included.
pub(super) struct CopyTables<'a> {
    pub(super) from: redb::ReadTransaction,
    pub(super) to: &'a redb::WriteTransaction,
}

impl EveryTable for CopyTables<'_> {
    fn table<K: Key + 'static>(
        &mut self,
        definition: TableDefinition<'static, K, Bytes>,
    ) -> Result<(), redb::Error> {
        let mut to = self.to.open_table(definition)?;
        for entry in self.from.open_table(definition)?.iter()? {
            let (key, value) = entry?;
            to.insert(key.value(), value.value())?;
        }
        Ok(())
    }
}

/// Makes the tables of a new database.
pub(super) fn make(database: &redb::Database) -> Result<(), redb::Error> {
    let transaction = super::begin(database)?;
    MakeTables(&transaction).every_table()?;
    transaction.commit()?;
    Ok(())
}

/// Whether a database has the tables of a store.
pub(super) fn are_there(database: &redb::Database) -> Result<bool, redb::Error> {
    match database.begin_read()?.open_table(MARKS) {
        Ok(_) => Ok(true),
        Err(TableError::TableDoesNotExist(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// A value whose checksum is wrong.
#[derive(Debug)]
pub(super) struct Broken {
    pub(super) table: &'static str,
}

/// Puts a checksum and a number in front of some bytes.
pub(super) fn seal(table: &'static str, key: &[u8], number: u64, bytes: &[u8]) -> Vec<u8> {
    let mut sealed = Vec::with_capacity(size_of::<u32>() + size_of::<u64>() + bytes.len());
    sealed.extend_from_slice(&checksum(table, key, number, bytes).to_le_bytes());
    sealed.extend_from_slice(&number.to_le_bytes());
    sealed.extend_from_slice(bytes);
    sealed
}

/// Takes a sealed value apart if its checksum is right.
pub(super) fn open<'a>(
    table: &'static str,
    key: &[u8],
    sealed: &'a [u8],
) -> Result<(u64, &'a [u8]), Broken> {
    let broken = Broken { table };
    let Some((stored, rest)) = sealed.split_first_chunk::<4>() else { return Err(broken) };
    let Some((number, bytes)) = rest.split_first_chunk::<8>() else { return Err(broken) };
    let number = u64::from_le_bytes(*number);
    if u32::from_le_bytes(*stored) != checksum(table, key, number, bytes) {
        return Err(broken);
    }
    Ok((number, bytes))
}

fn checksum(table: &str, key: &[u8], number: u64, bytes: &[u8]) -> u32 {
    let mut hasher = crc32fast::Hasher::new();
    hasher.update(table.as_bytes());
    hasher.update(&(key.len() as u64).to_le_bytes());
    hasher.update(key);
    hasher.update(&number.to_le_bytes());
    hasher.update(bytes);
    hasher.finalize()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seal_notices_every_flipped_bit_and_a_value_in_the_wrong_place() {
        let sealed = seal("subjects", b"key", 7, b"value");
        assert_eq!(open("subjects", b"key", &sealed).unwrap(), (7, b"value".as_slice()));
        for bit in 0..sealed.len() * 8 {
            let mut flipped = sealed.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(open("subjects", b"key", &flipped).is_err(), "bit {bit}");
        }
        assert!(open("history", b"key", &sealed).is_err());
        assert!(open("subjects", b"other", &sealed).is_err());
        assert!(open("subjects", b"key", &sealed[..3]).is_err());
    }
}
