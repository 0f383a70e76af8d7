//! Values that were written down and are read when somebody looks at them.
//!
//! Whoever holds a copy of an execution takes in thousands of values, and hands them on or drops them:
//! hardly any is looked at there. To make an object costs ten times what it costs to see that it could
//! be made, so an array or an object is only read over, and its bytes are kept.
//!
//! Invariant: bytes that are kept have passed [`codec::skip`], so reading them does not fail.

use std::fmt;
use std::sync::{Arc, OnceLock};

use minicbor::data::Type;
use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write};
use minicbor::{Decode, Encode};

use super::{Value, codec, same};

/// A value, or the bytes that it is read from when somebody looks at it for the first time.
#[derive(Clone)]
pub struct Deferred(Form);

#[derive(Clone)]
enum Form {
    Made(Value),
    Written(Arc<Written>),
}

struct Written {
    bytes: Box<[u8]>,
    value: OnceLock<Value>,
}

impl Written {
    fn value(&self) -> &Value {
        self.value.get_or_init(|| {
            let read = codec::decode(&mut Decoder::new(&self.bytes), &mut ());
            read.expect("bytes that are kept can be read")
        })
    }
}

impl Deferred {
    /// A value that hardly anybody will look at, as its bytes, which need a tenth of the room.
    pub fn put_away(value: Value) -> Self {
        let mut bytes = Vec::new();
        match codec::encode(&value, &mut Encoder::new(&mut bytes), &mut ()) {
            Ok(()) if codec::skip(&mut Decoder::new(&bytes)).is_ok() => {
                let (bytes, value) = (bytes.into(), OnceLock::new());
                Self(Form::Written(Arc::new(Written { bytes, value })))
            }
            // It is nested too deeply to be written down.
            _ => value.into(),
        }
    }

    /// The value.
    pub fn value(&self) -> &Value {
        match &self.0 {
            Form::Made(value) => value,
            Form::Written(written) => written.value(),
        }
    }

    /// Whether it is `null`.
    pub const fn is_null(&self) -> bool {
        matches!(self.0, Form::Made(Value::Null))
    }

    /// Whether another is known to be the same, digit by digit and in the same order, without a look
    /// into what they hold.
    pub fn is_same(&self, other: &Self) -> bool {
        match (&self.0, &other.0) {
            (Form::Made(one), Form::Made(other)) => same(one, other),
            (Form::Written(one), Form::Written(other)) => one.bytes == other.bytes,
            _ => false,
        }
    }
}

impl From<Value> for Deferred {
    fn from(value: Value) -> Self {
        Self(Form::Made(value))
    }
}

impl From<Deferred> for Value {
    fn from(deferred: Deferred) -> Self {
        match deferred.0 {
            Form::Made(value) => value,
            Form::Written(written) => written.value().clone(),
        }
    }
}

impl PartialEq for Deferred {
    fn eq(&self, other: &Self) -> bool {
        self.is_same(other) || self.value() == other.value()
    }
}

/// As the value: whether somebody has looked at it does not show.
impl fmt::Debug for Deferred {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.value().fmt(formatter)
    }
}

impl<C> Encode<C> for Deferred {
    fn encode<W: Write>(
        &self,
        encoder: &mut Encoder<W>,
        context: &mut C,
    ) -> Result<(), EncodeError<W::Error>> {
        match &self.0 {
            Form::Made(value) => codec::encode(value, encoder, context),
            Form::Written(written) => {
                encoder.writer_mut().write_all(&written.bytes).map_err(EncodeError::write)
            }
        }
    }
}

impl<'b, C> Decode<'b, C> for Deferred {
    fn decode(decoder: &mut Decoder<'b>, context: &mut C) -> Result<Self, DecodeError> {
        if !matches!(decoder.datatype()?, Type::Array | Type::Map) {
            return codec::decode(decoder, context).map(Self::from);
        }
        let start = decoder.position();
        codec::skip(decoder)?;
        let bytes = decoder.input()[start..decoder.position()].into();
        Ok(Self(Form::Written(Arc::new(Written { bytes, value: OnceLock::new() }))))
    }
}
