//! Any bytes as a journal record, an execution, a delta, or a word to or from a worker.
//!
//! Bytes with a right checksum may still be those of a release with a mistake. They are refused or
//! read; what is read is written again as the same.

use std::fmt::Debug;

use minicbor::{Decode, Encode};
use outlast_engine::{Record, RecordKind};
use outlast_expressions::worker;
use outlast_workflow::{Delta, Execution};

pub(crate) fn hold(bytes: &[u8]) {
    is_read_or_refused_as_a_record(bytes);
    survives_writing::<Execution>(bytes);
    survives_writing::<Delta>(bytes);
    is_read_or_refused_as_a_frame(bytes);
}

fn is_read_or_refused_as_a_record(bytes: &[u8]) {
    let Ok(record) = Record::decode(bytes) else { return };
    let written = record.encode();
    let again = Record::decode(&written).expect("what we write we can read");
    assert_eq!(again.encode(), written);
    assert_eq!(format!("{again:?}"), format!("{record:?}"));
    if let RecordKind::Started(started) = &record.kind {
        survives_writing::<Execution>(&started.state);
    }
}

/// Compared as they are written, because numbers that are none differ from themselves.
fn survives_writing<T>(bytes: &[u8])
where
    T: Debug + Encode<()> + for<'bytes> Decode<'bytes, ()>,
{
    let Ok(read) = minicbor::decode::<T>(bytes) else { return };
    let written = minicbor::to_vec(&read).expect("what was read keeps its depth");
    let again = minicbor::decode::<T>(&written).expect("what we write we can read");
    assert_eq!(minicbor::to_vec(&again).expect("it was written before"), written);
    assert_eq!(format!("{again:?}"), format!("{read:?}"));
}

fn is_read_or_refused_as_a_frame(bytes: &[u8]) {
    if let Ok(budget) = worker::Budget::from_frame(bytes) {
        assert_eq!(worker::Budget::from_frame(&budget.to_frame()[4..]).unwrap(), budget);
    }
    if let Ok(request) = worker::Request::from_frame(bytes) {
        let frame = request.to_frame().expect("it is not larger than what it was read from");
        let again = worker::Request::from_frame(&frame[4..]).expect("what we write we can read");
        assert_eq!(format!("{again:?}"), format!("{request:?}"));
    }
    if let Ok(reply) = worker::Reply::from_frame(bytes) {
        let again = worker::Reply::from_frame(&reply.to_frame()[4..]);
        assert_eq!(
            format!("{:?}", again.expect("what we write we can read")),
            format!("{reply:?}")
        );
    }
}
