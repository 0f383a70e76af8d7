//! How large values are, and whether two are the same.

use outlast_expressions::{Value, value};
use outlast_lineage::{Digest, Digester};

/// A writer that only counts.
struct Count(usize);

impl minicbor::encode::Write for Count {
    type Error = std::convert::Infallible;

    fn write_all(&mut self, bytes: &[u8]) -> Result<(), Self::Error> {
        self.0 += bytes.len();
        Ok(())
    }
}

/// How many bytes a value takes in a record.
pub(super) fn bytes_of(value: &Value) -> usize {
    let mut encoder = minicbor::Encoder::new(Count(0));
    value::codec::encode(value, &mut encoder, &mut ()).expect("counting does not fail");
    encoder.into_writer().0
}

/// The digest of a value; the order of an object's members does not matter.
pub(super) fn digest_of(value: &Value) -> Digest {
    fn add(digester: Digester, value: &Value) -> Digester {
        match value {
            Value::Arr(items) => items
                .iter()
                .fold(digester.field(b"array").number(items.len() as u64), |digester, item| {
                    add(digester, item)
                }),
            Value::Obj(members) => {
                let mut sorted: Vec<_> = members.iter().collect();
                sorted.sort_by_key(|(name, _)| *name);
                let digester = digester.field(b"object").number(sorted.len() as u64);
                sorted
                    .into_iter()
                    .fold(digester, |digester, (name, member)| add(add(digester, name), member))
            }
            plain => digester.field(b"plain").field(plain.to_string().as_bytes()),
        }
    }
    add(Digester::new("value"), value).finish()
}

/// A member of an object, if the value is an object and has it.
pub(super) fn member<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Obj(members) => members.get(&value::string(name)),
        _ => None,
    }
}

/// The text of a value that is a text.
pub(super) fn text(value: &Value) -> Option<String> {
    match value {
        Value::TStr(bytes) => Some(String::from_utf8_lossy(bytes).into_owned()),
        _ => None,
    }
}
