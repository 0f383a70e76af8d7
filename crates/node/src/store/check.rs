//! Reading every page and every value of a store, without changing the file.

use std::fs::File;
use std::path::Path;

use redb::{
    Database, Key, ReadTransaction, ReadableDatabase, ReadableTable, TableDefinition, TableHandle,
};

use super::error::{Failure, StoreError};
use super::overlay::Overlay;
use super::read::{self, Census};
use super::tables;
use super::{builder, guarded};

/// Checks a whole store: the database's own structure, and the seal of every value.
pub(crate) fn check(path: &Path) -> Result<Census, StoreError> {
    guarded(|| examine(path)).map_err(|failure| failure.at(path))
}

fn examine(path: &Path) -> Result<Census, Failure> {
    let corrupted = |what: &str| Failure::Database(redb::Error::Corrupted(what.to_owned()));
    let file = File::open(path).map_err(redb::Error::from)?;
    if file.metadata().map_err(redb::Error::from)?.len() == 0 {
        return Err(corrupted("it is empty"));
    }
    let overlay = Overlay::new(file).map_err(redb::Error::from)?;
    let mut database = builder().create_with_backend(overlay)?;
    if !database.check_integrity()? {
        return Err(corrupted("its pages do not fit together"));
    }
    read_everything(&database)
}

fn read_everything(database: &Database) -> Result<Census, Failure> {
    let transaction = database.begin_read()?;
    every_value(&transaction, tables::SUBJECTS, |key, sealed| {
        tables::open("subjects", key, sealed).is_ok()
    })?;
    every_value(&transaction, tables::HISTORY, |(id, number), sealed| {
        tables::open("history", id, sealed).is_ok_and(|(sealed, _)| sealed == number)
    })?;
    read::census(&transaction)
}

/// Looks at every value of a table and stops at the first that is not right.
fn every_value<K: Key + 'static>(
    transaction: &ReadTransaction,
    definition: TableDefinition<'static, K, &'static [u8]>,
    is_right: impl for<'a> Fn(K::SelfType<'a>, &'a [u8]) -> bool,
) -> Result<(), Failure> {
    for entry in transaction.open_table(definition)?.iter()? {
        let (key, value) = entry?;
        if !is_right(key.value(), value.value()) {
            let what = format!("a value in table `{}` has a wrong checksum", definition.name());
            return Err(Failure::Database(redb::Error::Corrupted(what)));
        }
    }
    Ok(())
}
