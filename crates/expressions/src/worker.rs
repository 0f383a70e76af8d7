//! What a node and a worker process say to each other, and what the worker answers.
//!
//! The node sends one [`Budget`], then requests; the worker answers each with one reply. Each is a
//! frame: its length in four bytes, then CBOR. Both sides check the length before they make room.
//! The worker is killed when it spends too much, so its answer may also be its end.

use std::collections::VecDeque;

use minicbor::decode::{Decoder, Error as DecodeError};
use minicbor::encode::Encoder;
use minicbor::{Decode, Encode};

use crate::value::codec;
use crate::{Filter, Value, value};

/// How long a frame may be. With its copies it must fit several times into a worker's memory.
pub const FRAME_BYTES_MAX: usize = 16 * 1024 * 1024;

/// How many compiled filters a worker keeps.
const CACHE_MAX: usize = 64;

/// How much a worker may spend; sent once, before the first request.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Encode, Decode)]
pub struct Budget {
    /// Bytes of address space.
    #[n(0)]
    pub memory_bytes: u64,
    /// Seconds of processor time for each request.
    #[n(1)]
    pub processor_seconds: u64,
}

/// An expression to evaluate.
#[derive(Clone, PartialEq, Debug)]
pub struct Request {
    /// The source text of the filter.
    pub source: String,
    /// What `.` is.
    pub input: Value,
    /// The variables it mentions, without `$`, and their values.
    pub bindings: Vec<(String, Value)>,
}

/// What became of a request.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    /// The value of the expression.
    Value(Value),
    /// It has none; says why.
    Failure(String),
}

/// The other side says something that is no frame.
#[derive(Debug, thiserror::Error)]
pub enum FrameError {
    /// Longer than [`FRAME_BYTES_MAX`].
    #[error("a frame of {0} bytes is too long")]
    TooLong(usize),
    /// Not what was expected.
    #[error("a frame that makes no sense: {0}")]
    Malformed(#[from] DecodeError),
}

/// How many bytes follow the first four.
pub fn frame_length(prefix: [u8; 4]) -> Result<usize, FrameError> {
    let length = u32::from_be_bytes(prefix) as usize;
    if length > FRAME_BYTES_MAX { Err(FrameError::TooLong(length)) } else { Ok(length) }
}

impl Budget {
    /// The frame that says it.
    pub fn to_frame(self) -> Vec<u8> {
        frame(|encoder| {
            encoder.encode(self).expect("writing to memory cannot fail");
        })
        .expect("a budget is short")
    }

    /// Reads what a frame holds.
    pub fn from_frame(body: &[u8]) -> Result<Self, FrameError> {
        Ok(minicbor::decode(body)?)
    }
}

impl Request {
    /// The frame that asks for it.
    pub fn to_frame(&self) -> Result<Vec<u8>, FrameError> {
        let values = std::iter::once(&self.input).chain(self.bindings.iter().map(|(_, it)| it));
        check_weight(values)?;
        frame(|encoder| {
            let written = (|| {
                encoder.array(3)?.str(&self.source)?;
                codec::encode(&self.input, encoder, &mut ())?;
                encoder.map(self.bindings.len() as u64)?;
                self.bindings.iter().try_for_each(|(name, value)| {
                    encoder.str(name)?;
                    codec::encode(value, encoder, &mut ())
                })
            })();
            written.expect("a value keeps its depth, and writing to memory cannot fail");
        })
    }

    /// Reads what a frame holds.
    pub fn from_frame(body: &[u8]) -> Result<Self, FrameError> {
        let mut decoder = Decoder::new(body);
        if decoder.array()? != Some(3) {
            return Err(DecodeError::message("expected a request").into());
        }
        let source = decoder.str()?.to_owned();
        let input = codec::decode(&mut decoder, &mut ())?;
        let count = decoder.map()?.ok_or_else(|| DecodeError::message("expected bindings"))?;
        let mut bindings = Vec::new();
        for _ in 0..count {
            let name = decoder.str()?.to_owned();
            bindings.push((name, codec::decode(&mut decoder, &mut ())?));
        }
        Ok(Self { source, input, bindings })
    }
}

impl Reply {
    /// The frame that gives it. A value that is too large for a frame becomes a failure.
    pub fn to_frame(&self) -> Vec<u8> {
        let sent = match self {
            Self::Value(value) => check_weight(std::iter::once(value)).and_then(|()| {
                frame(|encoder| {
                    encoder.array(2).and_then(|it| it.bool(true)).expect("memory takes it");
                    codec::encode(value, encoder, &mut ()).expect("evaluation checked its depth");
                })
            }),
            Self::Failure(message) => frame(|encoder| {
                let written = encoder.array(2).and_then(|it| it.bool(false)?.str(message));
                written.expect("writing to memory cannot fail");
            }),
        };
        sent.unwrap_or_else(|_| {
            let limit = FRAME_BYTES_MAX / (1024 * 1024);
            Self::Failure(format!("the value is larger than {limit} MiB")).to_frame()
        })
    }

    /// Reads what a frame holds.
    pub fn from_frame(body: &[u8]) -> Result<Self, FrameError> {
        let mut decoder = Decoder::new(body);
        if decoder.array()? != Some(2) {
            return Err(DecodeError::message("expected a reply").into());
        }
        if decoder.bool()? {
            Ok(Self::Value(codec::decode(&mut decoder, &mut ())?))
        } else {
            Ok(Self::Failure(decoder.str()?.to_owned()))
        }
    }
}

/// Refuses values that are too large before room is made for their bytes.
fn check_weight<'a>(values: impl Iterator<Item = &'a Value>) -> Result<(), FrameError> {
    let mut weight = 0;
    for value in values {
        weight += value::weight(value, FRAME_BYTES_MAX);
        if weight > FRAME_BYTES_MAX {
            return Err(FrameError::TooLong(weight));
        }
    }
    Ok(())
}

fn frame(write: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) -> Result<Vec<u8>, FrameError> {
    let mut bytes = vec![0; 4];
    write(&mut Encoder::new(&mut bytes));
    let length = bytes.len() - 4;
    if length > FRAME_BYTES_MAX {
        return Err(FrameError::TooLong(length));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Answers requests, and remembers the filters it compiled last.
#[derive(Default)]
pub struct Evaluator {
    compiled: VecDeque<Filter>,
}

impl Evaluator {
    /// Evaluates one expression, bounded or not.
    pub fn answer(&mut self, request: &Request) -> Reply {
        match self.evaluate(request) {
            Ok(value) => Reply::Value(value),
            Err(message) => Reply::Failure(message),
        }
    }

    fn evaluate(&mut self, request: &Request) -> Result<Value, String> {
        let filter = self.filter(request)?;
        let binding = |name: &str| {
            let bound = request.bindings.iter().find(|(bound, _)| bound == name);
            bound.map_or(Value::Null, |(_, value)| value.clone())
        };
        filter.evaluate(&request.input, &binding).map_err(|error| error.message)
    }

    fn filter(&mut self, request: &Request) -> Result<Filter, String> {
        let known = self.compiled.iter().position(|filter| filter.source() == request.source);
        if let Some(filter) = known.and_then(|position| self.compiled.remove(position)) {
            self.compiled.push_back(filter.clone());
            return Ok(filter);
        }
        let names: Vec<&str> = request.bindings.iter().map(|(name, _)| name.as_str()).collect();
        let filter = Filter::compile(&request.source, &names).map_err(|error| error.message)?;
        if self.compiled.len() == CACHE_MAX {
            self.compiled.pop_front();
        }
        self.compiled.push_back(filter.clone());
        Ok(filter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(source: &str) -> Request {
        let bindings = vec![("a".to_owned(), value::integer(3))];
        Request { source: source.to_owned(), input: value::parse("[1,2]").unwrap(), bindings }
    }

    #[test]
    fn frames_round_trip() {
        let budget = Budget { memory_bytes: 1 << 28, processor_seconds: 2 };
        assert_eq!(Budget::from_frame(&budget.to_frame()[4..]).unwrap(), budget);
        let request = request(".[0] + $a");
        let frame = request.to_frame().unwrap();
        assert_eq!(frame_length(frame[..4].try_into().unwrap()).unwrap(), frame.len() - 4);
        assert_eq!(Request::from_frame(&frame[4..]).unwrap(), request);
        for reply in [Reply::Value(value::string("é")), Reply::Failure("no".to_owned())] {
            assert_eq!(Reply::from_frame(&reply.to_frame()[4..]).unwrap(), reply);
        }
    }

    #[test]
    fn refuses_long_and_senseless_frames() {
        assert!(matches!(frame_length([255; 4]), Err(FrameError::TooLong(_))));
        for body in [&b""[..], b"\x83", b"\xf6", b"\x83\x61a\xf6\xbf", &[0x9b; 9]] {
            assert!(Request::from_frame(body).is_err());
            assert!(Reply::from_frame(body).is_err());
        }
        let large = value::string(&"x".repeat(FRAME_BYTES_MAX));
        let too_large = Request { input: large.clone(), ..request(".") };
        assert!(matches!(too_large.to_frame(), Err(FrameError::TooLong(_))));
        let reply = Reply::from_frame(&Reply::Value(large).to_frame()[4..]).unwrap();
        assert_eq!(reply, Reply::Failure("the value is larger than 16 MiB".to_owned()));
    }

    #[test]
    fn answers_and_remembers_what_it_compiled() {
        let mut evaluator = Evaluator::default();
        let sum = request("[range($a)] | add + length");
        assert_eq!(evaluator.answer(&sum), Reply::Value(value::integer(6)));
        assert_eq!(evaluator.answer(&sum), Reply::Value(value::integer(6)));
        assert_eq!(evaluator.compiled.len(), 1);
        for number in 0..100 {
            evaluator.answer(&request(&format!("{number}")));
        }
        assert_eq!(evaluator.compiled.len(), CACHE_MAX);
        let missing = evaluator.answer(&request("$b"));
        assert_eq!(
            missing,
            Reply::Failure("there is no variable `$b`; did you mean `$a`?".to_owned())
        );
    }
}
