//! Reading what is on disk: every segment, every record, every damage with its place.
//!
//! Nothing is changed here. Positions must be dense over all segments. A frame that is not right is
//! - the end of a segment, if the next segment begins with the expected position;
//! - a torn tail, if it is in the last segment and no later frame proves that it had been synced;
//! - damage, otherwise.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use super::error::{Damage, DamageKind, TornTail};
use super::frame::{self, Kind};
use super::segment::{self, HEADER_BYTES, Header};

/// What is known about a journal before reading it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expectation {
    /// The life of the node it must belong to; nothing takes any.
    pub(crate) incarnation: Option<u64>,
    /// Up to which position everything is kept elsewhere.
    pub(crate) checkpoint: u64,
    /// Whether there may be no journal yet.
    pub(crate) may_be_new: bool,
}

/// All that is on disk.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    /// The segments whose header is right, in order.
    pub(crate) segments: Vec<Extent>,
    pub(crate) records: u64,
    pub(crate) torn: Option<TornTail>,
    pub(crate) damage: Vec<Damage>,
}

/// A segment and where its records end.
#[derive(Clone, Debug)]
pub(crate) struct Extent {
    pub(crate) file: PathBuf,
    pub(crate) header: Header,
    /// Bytes up to the end of its last whole frame.
    pub(crate) end: u64,
    /// The position after its last record.
    pub(crate) next: u64,
    /// The bytes that are there, which a cut file has too few of.
    pub(crate) length: u64,
    /// Whether it ends with the statement that the journal was closed in good order.
    pub(crate) closed: bool,
}

/// What comes after a segment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Following {
    Nothing,
    Unreadable,
    SegmentFrom(u64),
}

/// Reads the whole journal in a directory.
pub(crate) fn survey(directory: &Path, expectation: &Expectation) -> io::Result<Survey> {
    let mut survey = Survey::default();
    let numbers = segment::list(directory)?;
    let mut headers = Vec::with_capacity(numbers.len());
    for number in &numbers {
        headers.push((segment::path(directory, *number), read_header(directory, *number)?));
    }
    for (index, (file, header)) in headers.iter().enumerate() {
        let header =
            match header.clone().and_then(|header| own(header, numbers[index], expectation)) {
                Ok(header) => header,
                Err(kind) => {
                    survey.damage.push(Damage { file: file.clone(), offset: 0, position: 0, kind });
                    continue;
                }
            };
        let following = match headers.get(index + 1) {
            None => Following::Nothing,
            Some((_, Ok(next))) if next.number == header.number + 1 => {
                Following::SegmentFrom(next.first)
            }
            Some(_) => Following::Unreadable,
        };
        Examination::of(file, header, following)?.report(&mut survey);
    }
    survey.look_for_gaps(directory, &numbers, expectation);
    Ok(survey)
}

fn read_header(directory: &Path, number: u64) -> io::Result<Result<Header, DamageKind>> {
    let (file, mut block) = (segment::path(directory, number), Vec::new());
    File::open(&file)
        .and_then(|opened| opened.take(HEADER_BYTES).read_to_end(&mut block))
        .map_err(|error| of_file(&file, &error))?;
    let padding_is_clean = block.len() as u64 == HEADER_BYTES && frame::content_end(&block) <= 64;
    Ok(Header::decode(&block)
        .and_then(|header| if padding_is_clean { Ok(header) } else { Err(DamageKind::Header) }))
}

/// The same error with the file that it is about: a disk that fails in one place may hold all the others.
fn of_file(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// Checks that a header is of the segment and the node it should be of.
fn own(header: Header, number: u64, expectation: &Expectation) -> Result<Header, DamageKind> {
    match expectation.incarnation {
        Some(expected) if expected != header.incarnation => {
            Err(DamageKind::ForeignIncarnation { found: header.incarnation, expected })
        }
        _ if header.number != number => Err(DamageKind::Misnamed { number: header.number }),
        _ => Ok(header),
    }
}

impl Survey {
    fn look_for_gaps(&mut self, directory: &Path, numbers: &[u64], expectation: &Expectation) {
        let missing = |number: u64, position: u64| Damage {
            file: segment::path(directory, number),
            offset: 0,
            position,
            kind: DamageKind::MissingSegment { number },
        };
        for pair in numbers.windows(2) {
            self.damage.extend((pair[0] + 1..pair[1]).take(1000).map(|number| missing(number, 0)));
        }
        let wanted = expectation.checkpoint + 1;
        match (self.segments.first(), self.segments.last()) {
            (Some(first), Some(last)) => {
                if wanted < first.header.first && first.header.number == numbers[0] {
                    let number = first.header.number.saturating_sub(1);
                    self.damage.push(missing(number, wanted));
                }
                let is_last = Some(&last.header.number) == numbers.last();
                if last.next < wanted && is_last {
                    self.damage.push(Damage {
                        file: last.file.clone(),
                        offset: last.end,
                        position: last.next,
                        kind: DamageKind::MissingRecords { until: wanted },
                    });
                }
            }
            _ if numbers.is_empty() && (1 < wanted || !expectation.may_be_new) => {
                self.damage.push(missing(1, wanted));
            }
            _ => {}
        }
    }
}

/// One segment while it is read.
struct Examination<'a> {
    extent: Extent,
    following: Following,
    bytes: &'a [u8],
}

/// What was found in one segment.
struct Findings {
    extent: Extent,
    records: u64,
    torn: Option<TornTail>,
    damage: Vec<Damage>,
}

impl Findings {
    fn report(self, survey: &mut Survey) {
        survey.records += self.records;
        survey.damage.extend(self.damage);
        survey.torn = self.torn;
        survey.segments.push(self.extent);
    }
}

impl Examination<'_> {
    fn of(file: &Path, header: Header, following: Following) -> io::Result<Findings> {
        let bytes = fs::read(file).map_err(|error| of_file(file, &error))?;
        let length = (bytes.len() as u64).min(header.capacity);
        let extent = Extent {
            file: file.to_owned(),
            header,
            end: HEADER_BYTES,
            next: header.first,
            length,
            closed: false,
        };
        let bytes = &bytes[..length as usize];
        Ok(Examination { extent, following, bytes }.run())
    }

    fn run(mut self) -> Findings {
        let (mut records, mut damage) = (0, Vec::new());
        let torn = loop {
            let offset = self.extent.end as usize;
            match frame::decode(&self.bytes[offset..], self.extent.header.salt) {
                Some(frame) if frame.position == self.extent.next => {
                    records += u64::from(frame.kind == Kind::Record);
                    self.pass(frame.kind, frame.size());
                }
                Some(frame) => {
                    damage.push(self.damage(DamageKind::MissingRecords { until: frame.position }));
                    self.extent.next = frame.position;
                }
                None => match self.judge_end() {
                    End::Clean => break None,
                    End::Torn(torn) => break Some(torn),
                    End::Damaged(kind, resume) => {
                        damage.push(self.damage(kind));
                        let Some((offset, position)) = resume else { break None };
                        (self.extent.end, self.extent.next) = (offset, position);
                    }
                },
            }
        };
        if let Following::SegmentFrom(next) = self.following
            && next < self.extent.next
        {
            damage.push(self.damage(DamageKind::Overlap { next }));
        }
        Findings { extent: self.extent, records, torn, damage }
    }

    /// Goes on behind a frame that is right.
    fn pass(&mut self, kind: Kind, size: usize) {
        self.extent.end += size as u64;
        self.extent.closed = kind == Kind::Closed;
        self.extent.next += u64::from(kind == Kind::Record);
    }

    fn damage(&self, kind: DamageKind) -> Damage {
        let Extent { file, end, next, .. } = &self.extent;
        Damage { file: file.clone(), offset: *end, position: *next, kind }
    }

    /// Says what it means that no right frame is where the next one should be.
    fn judge_end(&self) -> End {
        let Extent { end, next: expected, header, .. } = self.extent;
        if let Following::SegmentFrom(next) = self.following
            && next <= expected
        {
            return End::Clean;
        }
        let after = end as usize + 1;
        let mut later = frame::find_later(self.bytes, after, header.salt, expected);
        let resume = later.map(|(offset, frame)| (offset as u64, frame.position));
        if let Following::SegmentFrom(until) = self.following {
            return match resume {
                Some(_) => End::Damaged(DamageKind::Record, resume),
                None => End::Damaged(DamageKind::MissingRecords { until }, None),
            };
        }
        while let Some((offset, frame)) = later {
            // Its batch was written after `expected` had been synced, so this is no torn tail. Nor is
            // it if the expected record lies behind: then a closing frame is damaged.
            if expected < frame.batch || expected == frame.position {
                return End::Damaged(DamageKind::Record, resume);
            }
            later = frame::find_later(self.bytes, offset + 1, header.salt, expected);
        }
        let bytes = (frame::content_end(self.bytes) as u64).saturating_sub(end);
        match self.following {
            Following::Unreadable if 0 < bytes => End::Damaged(DamageKind::Record, None),
            Following::Nothing if 0 < bytes => End::Torn(TornTail {
                file: self.extent.file.clone(),
                offset: end,
                position: expected,
                bytes,
            }),
            _ => End::Clean,
        }
    }
}

/// What the end of the readable frames means.
enum End {
    Clean,
    Torn(TornTail),
    /// The kind of damage, and the offset and position where reading can go on.
    Damaged(DamageKind, Option<(u64, u64)>),
}
