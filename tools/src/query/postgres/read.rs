//! JSON of what a statement of PostgreSQL returns, from the binary form of its types.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use chrono::{DateTime, Days, NaiveDate, NaiveTime, SecondsFormat, TimeDelta};
use serde_json::{Map, Number, Value};
use tokio_postgres::types::{FromSql, Kind, Type};

/// Decimal places that a number of JSON surely keeps; with more, a number is a text.
const DIGITS_MAX: usize = 15;

/// Lists and records within others; more is nothing that a model reads.
const DEPTH_MAX: usize = 16;

/// The bytes of a value as they came, or none for null.
pub(super) struct Raw<'a>(Option<&'a [u8]>);

impl<'a> FromSql<'a> for Raw<'a> {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(Some(raw)))
    }

    fn from_sql_null(_: &Type) -> Result<Self, Box<dyn std::error::Error + Sync + Send>> {
        Ok(Self(None))
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Why a value cannot be shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Unread {
    /// It is of a type that has no form here.
    Type(String),
    /// It is not what its type says.
    Broken,
}

impl Raw<'_> {
    /// Makes JSON of the value.
    pub(super) fn read(&self, of: &Type) -> Result<Value, Unread> {
        self.0.map_or(Ok(Value::Null), |bytes| read(of, bytes, 0))
    }
}

fn read(of: &Type, bytes: &[u8], depth: usize) -> Result<Value, Unread> {
    if depth > DEPTH_MAX {
        return Err(Unread::Type(of.name().to_owned()));
    }
    match of.kind() {
        Kind::Simple => simple(of, Cursor(bytes)),
        Kind::Enum(_) => text(bytes),
        Kind::Domain(inner) => read(inner, bytes, depth + 1),
        Kind::Array(item) => list(item, Cursor(bytes), depth),
        Kind::Composite(fields) => {
            let types = fields.iter().map(|field| (field.name(), field.type_()));
            record(types, Cursor(bytes), depth)
        }
        // What a function such as `pg_sleep` returns.
        Kind::Pseudo if *of == Type::VOID => Ok(Value::Null),
        _ => Err(Unread::Type(of.name().to_owned())),
    }
}

fn simple(of: &Type, mut raw: Cursor<'_>) -> Result<Value, Unread> {
    let real = |real: f64| Number::from_f64(real).map_or(Value::Null, Value::Number);
    Ok(match *of {
        Type::BOOL => Value::from(raw.take::<1>()? != [0]),
        Type::INT2 => Value::from(i16::from_be_bytes(raw.take()?)),
        Type::INT4 => Value::from(raw.int()?),
        Type::INT8 => Value::from(raw.long()?),
        Type::OID => Value::from(u32::from_be_bytes(raw.take()?)),
        // By way of its shortest text, so that 0.1 stays 0.1.
        Type::FLOAT4 => {
            let short = f32::from_be_bytes(raw.take()?).to_string();
            real(short.parse().map_err(|_| Unread::Broken)?)
        }
        Type::FLOAT8 => real(f64::from_be_bytes(raw.take()?)),
        Type::NUMERIC => numeric(raw)?,
        Type::TEXT | Type::VARCHAR | Type::BPCHAR | Type::NAME | Type::UNKNOWN | Type::XML => {
            text(raw.0)?
        }
        Type::CHAR => text(raw.0)?,
        Type::JSON => json(raw.0)?,
        Type::JSONB => {
            let [_version] = raw.take()?;
            json(raw.0)?
        }
        Type::BYTEA => Value::String(hexadecimal(raw.0)),
        Type::UUID => {
            let digits = hexadecimal(&raw.take::<16>()?);
            let part = |from, to| digits.get(from..to).unwrap_or_default();
            let parts = [part(0, 8), part(8, 12), part(12, 16), part(16, 20), part(20, 32)];
            Value::String(parts.join("-"))
        }
        Type::DATE => date(raw.int()?)?,
        Type::TIME => Value::String(time(raw.long()?)?.format("%H:%M:%S%.f").to_string()),
        Type::TIMESTAMP => {
            moment(raw.long()?, |at| at.naive_utc().format("%Y-%m-%dT%H:%M:%S%.f").to_string())?
        }
        Type::TIMESTAMPTZ => {
            moment(raw.long()?, |at| at.to_rfc3339_opts(SecondsFormat::AutoSi, true))?
        }
        Type::INTERVAL => Value::String(interval(raw)?),
        Type::INET | Type::CIDR => Value::String(address(raw, *of == Type::CIDR)?),
        // An extension has no fixed number.
        _ if matches!(of.name(), "citext" | "ltree") => text(raw.0)?,
        _ => return Err(Unread::Type(of.name().to_owned())),
    })
}

/// Reads from the front.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Unread> {
        let (head, rest) = self.0.split_first_chunk::<N>().ok_or(Unread::Broken)?;
        self.0 = rest;
        Ok(*head)
    }

    fn short(&mut self) -> Result<i16, Unread> {
        self.take().map(i16::from_be_bytes)
    }

    fn int(&mut self) -> Result<i32, Unread> {
        self.take().map(i32::from_be_bytes)
    }

    fn long(&mut self) -> Result<i64, Unread> {
        self.take().map(i64::from_be_bytes)
    }

    /// Takes a length and as many bytes; -1 is null.
    fn sized(&mut self) -> Result<Option<&'a [u8]>, Unread> {
        let Ok(length) = usize::try_from(self.int()?) else { return Ok(None) };
        let (head, rest) = self.0.split_at_checked(length).ok_or(Unread::Broken)?;
        self.0 = rest;
        Ok(Some(head))
    }
}

fn text(bytes: &[u8]) -> Result<Value, Unread> {
    std::str::from_utf8(bytes).map(Value::from).map_err(|_| Unread::Broken)
}

fn json(bytes: &[u8]) -> Result<Value, Unread> {
    let text = std::str::from_utf8(bytes).map_err(|_| Unread::Broken)?;
    crate::json::read(text).map_err(|_| Unread::Broken)
}

fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from_digit(u32::from(nibble), 16).unwrap_or('0');
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Reads groups of four decimal digits. A number with many digits becomes a text, which keeps all.
fn numeric(mut raw: Cursor<'_>) -> Result<Value, Unread> {
    const NEGATIVE: i16 = 0x4000;
    let (groups, weight, sign, places) = (raw.short()?, raw.short()?, raw.short()?, raw.short()?);
    // What is no number at all, or infinite.
    if sign != 0 && sign != NEGATIVE {
        return Ok(Value::Null);
    }
    let digits = (0..groups).map(|_| raw.short()).collect::<Result<Vec<i16>, Unread>>()?;
    let group = |index: i32| {
        usize::try_from(index).ok().and_then(|index| digits.get(index)).copied().unwrap_or(0)
    };
    let weight = i32::from(weight);
    let decimal = |from: i32, to: i32| {
        let groups = (from..=to).map(|index| format!("{:04}", group(index)));
        groups.collect::<Vec<_>>().concat()
    };
    let whole = decimal(0, weight);
    let whole = whole.trim_start_matches('0');
    let places = usize::try_from(places).unwrap_or(0);
    let groups_behind = i32::try_from(places.div_ceil(4)).unwrap_or(0);
    let mut behind = decimal(weight + 1, weight + groups_behind);
    behind.truncate(places);
    let sign = if sign == NEGATIVE { "-" } else { "" };
    let front = if whole.is_empty() { "0" } else { whole };
    let written = if behind.is_empty() {
        format!("{sign}{front}")
    } else {
        format!("{sign}{front}.{behind}")
    };
    if behind.is_empty()
        && let Ok(number) = written.parse::<i64>()
    {
        return Ok(Value::from(number));
    }
    let significant = whole.len() + behind.trim_end_matches('0').len();
    let number = written.parse().ok().and_then(Number::from_f64);
    Ok(match number {
        Some(number) if significant <= DIGITS_MAX => Value::Number(number),
        _ => Value::String(written),
    })
}

/// Reads a list, the items of which may be lists.
fn list(item: &Type, mut raw: Cursor<'_>, depth: usize) -> Result<Value, Unread> {
    let (dimensions, _has_null, _item) = (raw.int()?, raw.int()?, raw.int()?);
    let mut lengths = Vec::new();
    for _ in 0..dimensions {
        let (length, _first) = (raw.int()?, raw.int()?);
        lengths.push(usize::try_from(length).map_err(|_| Unread::Broken)?);
    }
    if lengths.is_empty() {
        return Ok(Value::Array(Vec::new()));
    }
    items(item, &lengths, &mut raw, depth + 1)
}

fn items(
    item: &Type,
    lengths: &[usize],
    raw: &mut Cursor<'_>,
    depth: usize,
) -> Result<Value, Unread> {
    let Some((length, inner)) = lengths.split_first() else {
        return raw.sized()?.map_or(Ok(Value::Null), |bytes| read(item, bytes, depth));
    };
    let items = (0..*length).map(|_| items(item, inner, raw, depth));
    items.collect::<Result<Vec<Value>, Unread>>().map(Value::Array)
}

fn record<'a>(
    fields: impl Iterator<Item = (&'a str, &'a Type)>,
    mut raw: Cursor<'_>,
    depth: usize,
) -> Result<Value, Unread> {
    let _count = raw.int()?;
    let mut object = Map::new();
    for (name, of) in fields {
        let _type = raw.int()?;
        let value = raw.sized()?.map_or(Ok(Value::Null), |bytes| read(of, bytes, depth + 1))?;
        object.insert(name.to_owned(), value);
    }
    Ok(Value::Object(object))
}

/// The first day of PostgreSQL's calendar.
fn epoch() -> NaiveDate {
    NaiveDate::from_ymd_opt(2000, 1, 1).unwrap_or_default()
}

fn date(days: i32) -> Result<Value, Unread> {
    let infinite = match days {
        i32::MAX => Some("infinity"),
        i32::MIN => Some("-infinity"),
        _ => None,
    };
    if let Some(word) = infinite {
        return Ok(Value::from(word));
    }
    let distance = Days::new(u64::from(days.unsigned_abs()));
    let date = if days < 0 {
        epoch().checked_sub_days(distance)
    } else {
        epoch().checked_add_days(distance)
    };
    date.map(|date| Value::String(date.to_string())).ok_or(Unread::Broken)
}

fn time(micros: i64) -> Result<NaiveTime, Unread> {
    let seconds = u32::try_from(micros.div_euclid(1_000_000)).map_err(|_| Unread::Broken)?;
    let nanos = u32::try_from(micros.rem_euclid(1_000_000) * 1000).map_err(|_| Unread::Broken)?;
    // The last moment of a day is written 24:00, which is the first of the next.
    NaiveTime::from_num_seconds_from_midnight_opt(seconds % 86_400, nanos).ok_or(Unread::Broken)
}

fn moment(micros: i64, write: impl Fn(DateTime<chrono::Utc>) -> String) -> Result<Value, Unread> {
    match micros {
        i64::MAX => return Ok(Value::from("infinity")),
        i64::MIN => return Ok(Value::from("-infinity")),
        _ => {}
    }
    let start = epoch().and_time(NaiveTime::MIN).and_utc();
    let at = start.checked_add_signed(TimeDelta::microseconds(micros)).ok_or(Unread::Broken)?;
    Ok(Value::String(write(at)))
}

/// Writes a length of time as ISO 8601 does, such as `P1Y2M3DT4H5M6.5S`.
fn interval(mut raw: Cursor<'_>) -> Result<String, Unread> {
    let (micros, days, months) = (raw.long()?, raw.int()?, raw.int()?);
    let some = |amount: i64, unit: &str| {
        if amount == 0 { String::new() } else { format!("{amount}{unit}") }
    };
    let days = [
        some(i64::from(months / 12), "Y"),
        some(i64::from(months % 12), "M"),
        some(i64::from(days), "D"),
    ];
    let seconds = micros % 60_000_000;
    let behind = format!("{:06}", seconds.abs() % 1_000_000);
    let behind = behind.trim_end_matches('0');
    let sign = if seconds < 0 { "-" } else { "" };
    let dot = if behind.is_empty() { "" } else { "." };
    let seconds = match seconds {
        0 => String::new(),
        seconds => format!("{sign}{}{dot}{behind}S", seconds.abs() / 1_000_000),
    };
    let time = [some(micros / 3_600_000_000, "H"), some(micros / 60_000_000 % 60, "M"), seconds];
    Ok(match (days.concat(), time.concat()) {
        (days, time) if days.is_empty() && time.is_empty() => "PT0S".to_owned(),
        (days, time) if time.is_empty() => format!("P{days}"),
        (days, time) => format!("P{days}T{time}"),
    })
}

fn address(mut raw: Cursor<'_>, is_network: bool) -> Result<String, Unread> {
    let [_family, bits, _is_network, length] = raw.take()?;
    let address = match length {
        4 => IpAddr::V4(Ipv4Addr::from(raw.take::<4>()?)),
        16 => IpAddr::V6(Ipv6Addr::from(raw.take::<16>()?)),
        _ => return Err(Unread::Broken),
    };
    let is_one = bits == if address.is_ipv4() { 32 } else { 128 };
    Ok(if is_one && !is_network { address.to_string() } else { format!("{address}/{bits}") })
}
