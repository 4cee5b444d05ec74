//! Values that are valid by a schema of [`arbitrary`](super::arbitrary), and small changes to them.

use serde_json::{Map, Number, Value, json};

use super::arbitrary::{OFFSET, Random};

/// Returns a valid value whose properties stand in the order of the grammar.
pub(super) fn valid(schema: &Value, root: &Value, random: &mut Random) -> Value {
    if let Some(reference) = schema.get("$ref").and_then(Value::as_str) {
        let target = root.pointer(reference.trim_start_matches('#')).unwrap();
        return valid(target, root, random);
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(choices) = schema.get(key).and_then(Value::as_array) {
            // The last one of those that refer back is an end.
            let pick =
                if random.chance(70) { choices.len() - 1 } else { random.below(choices.len()) };
            return valid(&choices[pick], root, random);
        }
    }
    if let Some(parts) = schema.get("allOf").and_then(Value::as_array) {
        let mut whole = Map::new();
        for part in parts {
            whole.extend(valid(part, root, random).as_object().unwrap().clone());
        }
        return whole.into();
    }
    if let Some(value) = schema.get("const") {
        return value.clone();
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return values[random.below(values.len())].clone();
    }
    match schema["type"].as_str() {
        Some("object") => object(schema, root, random),
        Some("array") => {
            let min = schema["minItems"].as_u64().unwrap_or(0);
            let max = schema["maxItems"].as_u64().unwrap();
            let max = if random.chance(70) { min } else { max };
            let count =
                min + u64::try_from(random.below(usize::try_from(max - min).unwrap() + 1)).unwrap();
            (0..count).map(|_| valid(&schema["items"], root, random)).collect()
        }
        Some("boolean") => random.chance(50).into(),
        Some("integer") => integer(schema, random).into(),
        Some("number") => number(schema, random),
        Some("string") => text(schema, random),
        Some("null") => Value::Null,
        _ => {
            if random.chance(50) {
                Value::Null
            } else {
                text(schema, random)
            }
        }
    }
}

fn object(schema: &Value, root: &Value, random: &mut Random) -> Value {
    let required = schema.get("required").and_then(Value::as_array).cloned().unwrap_or_default();
    let properties = schema["properties"].as_object().unwrap();
    let is_required = |name: &str| required.iter().any(|other| other == name);
    let mut whole = Map::new();
    for (name, schema) in properties.iter().filter(|(name, _)| is_required(name)) {
        whole.insert(name.clone(), valid(schema, root, random));
    }
    for (name, schema) in properties.iter().filter(|(name, _)| !is_required(name)) {
        if random.chance(40) {
            whole.insert(name.clone(), valid(schema, root, random));
        }
    }
    whole.into()
}

fn integer(schema: &Value, random: &mut Random) -> i64 {
    let low = schema["minimum"].as_i64();
    let high =
        schema["maximum"].as_i64().or(schema["exclusiveMaximum"].as_i64().map(|high| high - 1));
    let (low, high) = match (low, high) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => (low, low + 100_000),
        (None, Some(high)) => (high - 100_000, high),
        (None, None) => (-9_999_999_999_999_999, 9_999_999_999_999_999),
    };
    match random.below(4) {
        0 => low,
        1 => high,
        _ => random.between(low, high),
    }
}

fn number(schema: &Value, random: &mut Random) -> Value {
    let out = schema["exclusiveMinimum"].as_i64();
    let low = schema["minimum"].as_i64().or(out);
    let high = schema["maximum"].as_i64();
    let high_out = schema["exclusiveMaximum"].as_i64();
    let (low, high) = match (low, high.or(high_out)) {
        (Some(low), Some(high)) => (low, high),
        (Some(low), None) => (low, low + 1000),
        (None, Some(high)) => (high - 1000, high),
        (None, None) => {
            let mixed = [json!(0.1), json!(-2.5e-7), json!(1e21), json!(0.1 + 0.2), json!(-0.0)];
            return mixed[random.below(mixed.len())].clone();
        }
    };
    let steps = random
        .between(low * 64 + i64::from(out.is_some()), high * 64 - i64::from(high_out.is_some()));
    #[expect(clippy::cast_precision_loss, reason = "the numbers are small")]
    let value = steps as f64 / 64.0;
    if value.fract() == 0.0 {
        (steps / 64).into()
    } else {
        Value::Number(Number::from_f64(value).unwrap())
    }
}

fn text(schema: &Value, random: &mut Random) -> Value {
    match schema["pattern"].as_str() {
        Some(OFFSET) => return "-03:30".into(),
        Some(_) => return "a.b@c-d/XY".into(),
        None => {}
    }
    let min = schema["minLength"].as_u64().unwrap_or(0);
    let max = schema["maxLength"].as_u64().unwrap_or(min + 12);
    let count = min + u64::try_from(random.below(usize::try_from(max - min).unwrap() + 1)).unwrap();
    let chars = ['a', 'Z', ' ', '"', '\\', '\n', '\u{1}', 'ß', '😀', '{', '\u{2028}'];
    (0..count).map(|_| chars[random.below(chars.len())]).collect::<String>().into()
}

/// Changes a value a little; it may still be valid.
pub(super) fn changed(value: &Value, random: &mut Random) -> Value {
    let others = [
        json!(null),
        json!(true),
        json!(-7),
        json!(1e9),
        json!(0.5),
        json!("other"),
        json!([]),
        json!({}),
    ];
    let other = |random: &mut Random| others[random.below(others.len())].clone();
    match value {
        Value::Object(map) if !map.is_empty() && random.chance(90) => {
            let mut map = map.clone();
            let name = map.keys().nth(random.below(map.len())).unwrap().clone();
            match random.below(6) {
                0 => drop(map.shift_remove(&name)),
                1 => drop(map.insert("unknown".to_owned(), other(random))),
                _ => {
                    let changed = changed(&map[&name], random);
                    map[&name] = changed;
                }
            }
            map.into()
        }
        Value::Array(items) if !items.is_empty() && random.chance(80) => {
            let mut items = items.clone();
            let index = random.below(items.len());
            match random.below(4) {
                0 => drop(items.remove(index)),
                1 => items.push(items[index].clone()),
                _ => items[index] = changed(&items[index], random),
            }
            items.into()
        }
        Value::String(text) if random.chance(60) => format!("{text}x").into(),
        Value::Number(number) if random.chance(60) => match number.as_i64() {
            Some(number) => (number + random.between(-1000, 1000)).into(),
            None => json!(number.as_f64().unwrap() * 1000.0),
        },
        _ => other(random),
    }
}
