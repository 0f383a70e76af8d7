//! Lists that mostly have one element or two: `#[cbor(decode_with = "few::decode")]`.
//!
//! A list that grows by itself makes room for four at first. Branches and frames are so large that this
//! is more than a kilobyte, and nearly always for nothing.

use minicbor::decode::{Decode, Decoder, Error};

/// For how many there is room at first, whatever length is claimed.
const ROOM_MAX: u64 = 4;

/// Reads a list, with room for exactly what is claimed if that is little.
pub(super) fn decode<'b, C, T: Decode<'b, C>>(
    decoder: &mut Decoder<'b>,
    context: &mut C,
) -> Result<Vec<T>, Error> {
    let claimed = decoder.probe().array()?.unwrap_or(0).min(ROOM_MAX);
    let mut list = Vec::with_capacity(claimed as usize);
    for element in decoder.array_iter_with(context)? {
        list.push(element?);
    }
    Ok(list)
}
