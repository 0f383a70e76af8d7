//! The values that flow through workflows: JSON, shared, cheap to clone.

/// A JSON value whose arrays and objects are shared, so that a clone copies nothing.
pub type Value = jaq_json::Val;

/// A text value.
pub fn string(_text: &str) -> Value {
    todo!()
}

/// A whole number.
pub fn integer(_number: i64) -> Value {
    todo!()
}

/// An object of members in the given order.
pub fn object<'a>(_members: impl IntoIterator<Item = (&'a str, Value)>) -> Value {
    todo!()
}

/// Numbered encoding of values inside journal records: `#[cbor(with = "value::codec")]`.
pub mod codec {
    use minicbor::decode::{Decoder, Error as DecodeError};
    use minicbor::encode::{Encoder, Error as EncodeError, Write};

    use super::Value;

    /// Writes a value.
    pub fn encode<C, W: Write>(
        _value: &Value,
        _encoder: &mut Encoder<W>,
        _context: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        todo!()
    }

    /// Reads a value.
    pub fn decode<C>(_decoder: &mut Decoder<'_>, _context: &mut C) -> Result<Value, DecodeError> {
        todo!()
    }
}
