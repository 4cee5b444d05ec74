//! Schemas by chance, of every form that a grammar can be made of.

use serde_json::{Map, Value, json};

/// A small generator, so that a seed repeats what was found.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// Returns a number below a limit that is not zero.
    pub(crate) fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap();
        usize::try_from(self.next() % limit).unwrap()
    }

    /// Returns true so many times in a hundred.
    pub(crate) fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    /// Returns an integer between two, both included.
    pub(crate) fn between(&mut self, low: i64, high: i64) -> i64 {
        let span = usize::try_from(high - low + 1).unwrap();
        low + i64::try_from(self.below(span)).unwrap()
    }
}

const NAMES: &[&str] =
    &["a", "name", "two words", "a-b", "a_b", "über", "say \"hi\"", "back\\slash", "x/y~z", "root"];

/// A pattern, for times.
pub(crate) const OFFSET: &str = "^[+-][0-9]{2}:[0-9]{2}$";

const LITERALS: &[&str] = &["red", "", "a b", "\"quoted\"", "back\\slash", "line\nbreak", "größe"];

/// Returns a schema with definitions, some of which refer to themselves.
pub(crate) fn schema(random: &mut Random) -> Value {
    let mut schema = match random.below(4) {
        0 => tools(random),
        _ => object(random, 3),
    };
    let node = json!({
        "type": "object",
        "properties": {
            "label": some(random, 0),
            "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 2},
            "next": {"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]},
        },
        "required": ["label"],
        "additionalProperties": false,
    });
    let plain = some(random, 0);
    schema["$defs"] = json!({"node": node, "plain": plain});
    schema
}

/// Alternatives that are told apart by the name of a tool.
fn tools(random: &mut Random) -> Value {
    let alternatives: Vec<Value> = (0..=random.below(4))
        .map(|index| {
            json!({
                "type": "object",
                "properties": {
                    "tool": {"const": format!("tool_{index}")},
                    "arguments": object(random, 2),
                },
                "required": ["tool", "arguments"],
                "additionalProperties": false,
            })
        })
        .collect();
    json!({"oneOf": alternatives})
}

/// An object that declares what it holds.
pub(crate) fn object(random: &mut Random, depth: usize) -> Value {
    let mut properties = Map::new();
    for _ in 0..random.below(5) {
        let name = NAMES[random.below(NAMES.len())];
        properties.insert(name.to_owned(), some(random, depth.saturating_sub(1)));
    }
    let required: Vec<&String> = properties.keys().filter(|_| random.chance(60)).collect();
    json!({
        "type": "object",
        "required": required,
        "properties": properties,
        "additionalProperties": false,
    })
}

fn some(random: &mut Random, depth: usize) -> Value {
    match random.below(if depth == 0 { 8 } else { 14 }) {
        0 => json!({"type": "boolean"}),
        1 => json!({"type": ["string", "null"]}),
        2 => integer(random),
        3 => number(random),
        4 => text(random),
        5 => {
            let first = random.below(LITERALS.len());
            json!({"type": "string", "enum": LITERALS[first..]})
        }
        6 => json!({"const": [LITERALS[random.below(LITERALS.len())], 1.5, null, {"k": true}]}),
        7 => json!({"type": "string", "description": "free"}),
        8 => json!({"$ref": "#/$defs/plain"}),
        9 => json!({"$ref": "#/$defs/node"}),
        10 => {
            let min = random.below(3);
            let items = some(random, depth - 1);
            json!({"type": "array", "items": items, "minItems": min, "maxItems": min + random.below(3)})
        }
        11 => json!({"anyOf": [object(random, depth - 1), integer(random), {"type": "null"}]}),
        12 => json!({"allOf": [
            {"type": "object", "properties": {"left": some(random, depth - 1)}, "required": ["left"]},
            {"type": "object", "properties": {"right": some(random, depth - 1)}},
        ]}),
        _ => object(random, depth - 1),
    }
}

fn integer(random: &mut Random) -> Value {
    let low = random.between(-300, 300);
    let high = low + random.between(0, 2000);
    match random.below(4) {
        0 => json!({"type": "integer"}),
        1 => json!({"type": "integer", "minimum": low}),
        2 => json!({"type": "integer", "exclusiveMaximum": high}),
        _ => json!({"type": "integer", "minimum": low, "maximum": high}),
    }
}

fn number(random: &mut Random) -> Value {
    let low = random.between(-20, 20);
    let high = low + random.between(1, 30);
    match random.below(4) {
        0 => json!({"type": "number"}),
        1 => json!({"type": "number", "exclusiveMinimum": low}),
        2 => json!({"type": "number", "maximum": high}),
        _ => json!({"type": "number", "minimum": low, "exclusiveMaximum": high}),
    }
}

fn text(random: &mut Random) -> Value {
    let min = random.below(4);
    match random.below(5) {
        3 => json!({"type": "string", "pattern": OFFSET}),
        4 => json!({"type": "string", "pattern": "^[a-z_.@-]+(/[A-Z]{1,3})?$"}),
        0 => json!({"type": "string", "minLength": min}),
        1 => json!({"type": "string", "maxLength": min + random.below(9)}),
        _ => json!({"type": "string", "minLength": min, "maxLength": min + random.below(9)}),
    }
}
