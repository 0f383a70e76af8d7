//! Values inside journal records and messages: `#[cbor(with = "value::codec")]`.
//!
//! Plain CBOR wherever CBOR has the kind of value. Three kinds have a tag of their own so that nothing
//! is rounded: integers beyond 64 bits and decimals, both as their digits, and texts that are not
//! UTF-8, as their bytes. The order of members is kept.
//!
//! Reading is bounded before it allocates: the depth by [`DEPTH_MAX`], and lists by what is left of
//! the input, whatever length they claim.

use jaq_json::{Map, Num};
use minicbor::data::{Tag, Type};
use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::{Encoder, Error as EncodeError, Write};

use super::{DEPTH_MAX, Value};

/// A whole number beyond 64 bits, as its decimal digits.
const BIG_INTEGER: u64 = 80_001;
/// A decimal number, as it was written.
const DECIMAL: u64 = 80_002;
/// A text that is not UTF-8, as its bytes.
const DAMAGED_TEXT: u64 = 80_003;

/// Writes a value.
pub fn encode<C, W: Write>(
    value: &Value,
    encoder: &mut Encoder<W>,
    _context: &mut C,
) -> Result<(), EncodeError<W::Error>> {
    write(value, encoder, 0)
}

/// Reads a value.
pub fn decode<C>(decoder: &mut Decoder<'_>, _context: &mut C) -> Result<Value, DecodeError> {
    read(decoder, 0)
}

/// Reads over a value. What passes can be decoded; nothing is made of it.
pub fn skip(decoder: &mut Decoder<'_>) -> Result<(), DecodeError> {
    pass(decoder, 0)
}

fn write<W: Write>(
    value: &Value,
    encoder: &mut Encoder<W>,
    depth: usize,
) -> Result<(), EncodeError<W::Error>> {
    if depth > DEPTH_MAX {
        return Err(EncodeError::message("the value is nested too deeply"));
    }
    match value {
        Value::Null => encoder.null()?.ok(),
        Value::Bool(truth) => encoder.bool(*truth)?.ok(),
        Value::Num(number) => write_number(number, encoder),
        Value::BStr(bytes) => encoder.bytes(bytes)?.ok(),
        Value::TStr(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => encoder.str(text)?.ok(),
            Err(_) => encoder.tag(Tag::new(DAMAGED_TEXT))?.bytes(bytes)?.ok(),
        },
        Value::Arr(elements) => {
            encoder.array(elements.len() as u64)?;
            elements.iter().try_for_each(|value| write(value, encoder, depth + 1))
        }
        Value::Obj(members) => {
            encoder.map(members.len() as u64)?;
            members.iter().try_for_each(|(name, value)| {
                write(name, encoder, depth + 1)?;
                write(value, encoder, depth + 1)
            })
        }
    }
}

fn write_number<W: Write>(
    number: &Num,
    encoder: &mut Encoder<W>,
) -> Result<(), EncodeError<W::Error>> {
    match number {
        Num::Int(whole) => encoder.i64(*whole as i64)?.ok(),
        Num::Float(float) => encoder.f64(*float)?.ok(),
        Num::BigInt(whole) => encoder.tag(Tag::new(BIG_INTEGER))?.str(&whole.to_string())?.ok(),
        Num::Dec(digits) => encoder.tag(Tag::new(DECIMAL))?.str(digits)?.ok(),
    }
}

fn read(decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, DecodeError> {
    check_depth(decoder, depth)?;
    Ok(match decoder.datatype()? {
        Type::Null => decoder.null().map(|()| Value::Null)?,
        Type::Bool => Value::Bool(decoder.bool()?),
        Type::F64 => Value::from(decoder.f64()?),
        Type::String => Value::from(decoder.str()?.to_owned()),
        Type::Bytes => Value::byte_str(decoder.bytes()?.to_vec()),
        Type::Tag => read_tagged(decoder)?,
        Type::Array => read_array(decoder, depth)?,
        Type::Map => read_map(decoder, depth)?,
        _ => Value::Num(Num::from_integral(decoder.i64()?)),
    })
}

/// The twin of `read` that makes nothing.
fn pass(decoder: &mut Decoder<'_>, depth: usize) -> Result<(), DecodeError> {
    check_depth(decoder, depth)?;
    match decoder.datatype()? {
        Type::Null => decoder.null(),
        Type::Bool => decoder.bool().map(drop),
        Type::F64 => decoder.f64().map(drop),
        Type::String => decoder.str().map(drop),
        Type::Bytes => decoder.bytes().map(drop),
        Type::Tag => read_tagged(decoder).map(drop),
        Type::Array => {
            let length = decoder.array()?;
            (0..known(length, decoder)?).try_for_each(|_| pass(decoder, depth + 1))
        }
        Type::Map => {
            let length = decoder.map()?;
            (0..known(length, decoder)?).try_for_each(|_| {
                pass_name(decoder, depth + 1)?;
                pass(decoder, depth + 1)
            })
        }
        _ => decoder.i64().map(drop),
    }
}

fn pass_name(decoder: &mut Decoder<'_>, depth: usize) -> Result<(), DecodeError> {
    if decoder.datatype()? == Type::String {
        check_depth(decoder, depth)?;
        return decoder.str().map(drop);
    }
    read_name(decoder, depth).map(drop)
}

fn check_depth(decoder: &Decoder<'_>, depth: usize) -> Result<(), DecodeError> {
    if depth > DEPTH_MAX {
        return Err(DecodeError::message("the value is nested too deeply").at(decoder.position()));
    }
    Ok(())
}

fn read_name(decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, DecodeError> {
    let position = decoder.position();
    let name = read(decoder, depth)?;
    if !matches!(name, Value::TStr(_)) {
        return Err(DecodeError::message("the name of a member is not a text").at(position));
    }
    Ok(name)
}

fn read_tagged(decoder: &mut Decoder<'_>) -> Result<Value, DecodeError> {
    let position = decoder.position();
    let tag = decoder.tag()?.as_u64();
    if tag == DAMAGED_TEXT {
        return Ok(Value::utf8_str(decoder.bytes()?.to_vec()));
    }
    let text = decoder.str()?;
    let number = match tag {
        BIG_INTEGER => Num::from_str_radix(text, 10),
        // `007.5` in an expression is a decimal too, so this is looser than JSON.
        DECIMAL if text.parse::<f64>().is_ok() && text.ends_with(|c: char| c.is_ascii_digit()) => {
            Some(Num::Dec(std::sync::Arc::new(text.to_owned())))
        }
        _ => None,
    };
    let damaged = || DecodeError::message("an unknown or damaged number").at(position);
    number.map(Value::Num).ok_or_else(damaged)
}

/// How many items of at least so many bytes to make room for: never more than there are bytes left to
/// read them from.
fn room(decoder: &Decoder<'_>, claimed: u64, bytes: usize) -> usize {
    let left = decoder.input().len().saturating_sub(decoder.position());
    usize::try_from(claimed).unwrap_or(usize::MAX).min(left / bytes)
}

fn known(length: Option<u64>, decoder: &Decoder<'_>) -> Result<u64, DecodeError> {
    let unknown = || DecodeError::message("a list of unknown length").at(decoder.position());
    length.ok_or_else(unknown)
}

fn read_array(decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, DecodeError> {
    let length = decoder.array()?;
    let length = known(length, decoder)?;
    let mut elements = Vec::with_capacity(room(decoder, length, 1));
    for _ in 0..length {
        elements.push(read(decoder, depth + 1)?);
    }
    Ok(elements.into_iter().collect())
}

fn read_map(decoder: &mut Decoder<'_>, depth: usize) -> Result<Value, DecodeError> {
    let length = decoder.map()?;
    let length = known(length, decoder)?;
    let mut members = Map::default();
    // A member takes at least two bytes.
    members.reserve(room(decoder, length, 2));
    for _ in 0..length {
        let name = read_name(decoder, depth + 1)?;
        members.insert(name, read(decoder, depth + 1)?);
    }
    Ok(Value::obj(members))
}
