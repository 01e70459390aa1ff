//! Checks JSON values against the schemas in `docs/schemas`. Supports only the few keywords that
//! these schemas use. An unknown keyword is an error, and so is an object that allows fields that
//! it does not name.

use std::{collections::BTreeSet, fs, path::PathBuf};

use serde_json::{Map, Value};

const KEYWORDS: [&str; 12] = [
    "$schema",
    "$ref",
    "title",
    "description",
    "type",
    "enum",
    "minimum",
    "items",
    "properties",
    "required",
    "additionalProperties",
    "anyOf",
];

/// Returns the folder of the schemas.
pub fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("docs/schemas")
}

/// Reads the schema in a file of this name.
pub fn schema(file: &str) -> Value {
    let path = folder().join(file);
    serde_json::from_str(&fs::read_to_string(&path).expect(file)).expect(file)
}

/// Checks each line against the schema in `file`.
#[track_caller]
pub fn expect_lines(text: &str, file: &str) {
    let documented = schema(file);
    assert!(!text.is_empty(), "no line for {file}");
    for line in text.lines() {
        let value = serde_json::from_str(line).expect(line);
        if let Err(error) = check(&value, &documented) {
            panic!("{file}: {error}\n{line}");
        }
    }
}

/// Checks that the page of JSON output names each schema, and that each describes its fields.
#[track_caller]
pub fn check_page() {
    let page = fs::read_to_string(folder().join("../json.md")).expect("the page");
    let files = super::support::names(&folder());
    assert_eq!(page.matches("](schemas/").count(), files.len());
    for file in files {
        assert!(page.contains(&format!("](schemas/{file})")), "{file}");
        let schema = schema(&file);
        assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{file}");
        let properties = schema["properties"].as_object().into_iter().flatten();
        for (name, property) in properties {
            assert!(property["description"].as_str().is_some_and(|text| text.ends_with('.')), "{file}: {name}");
        }
    }
}

/// Checks a value. An error names what is wrong, and where.
pub fn check(value: &Value, schema: &Value) -> Result<(), String> {
    at(value, schema, "$")
}

fn at(value: &Value, schema: &Value, place: &str) -> Result<(), String> {
    let schema = schema.as_object().ok_or("a schema must be an object")?;
    if let Some(word) = schema.keys().find(|word| !KEYWORDS.contains(&word.as_str())) {
        return Err(format!("{place}: the schema has the unknown keyword '{word}'"));
    }
    let wrong = |what: &str| Err(format!("{place}: {value} {what}"));
    if let Some(file) = schema.get("$ref").and_then(Value::as_str) {
        at(value, &self::schema(file), place)?;
    }
    if let Some(types) = schema.get("type")
        && !alternatives(types).iter().any(|name| has_type(value, name))
    {
        return wrong(&format!("is not of the type {types}"));
    }
    if let Some(values) = schema.get("enum").and_then(Value::as_array)
        && !values.contains(value)
    {
        return wrong(&format!("is not one of {values:?}"));
    }
    if let (Some(least), Some(number)) = (schema.get("minimum").and_then(Value::as_f64), value.as_f64())
        && number < least
    {
        return wrong(&format!("is below {least}"));
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        for (index, value) in values.iter().enumerate() {
            at(value, items, &format!("{place}[{index}]"))?;
        }
    }
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        let errors: Vec<_> = choices.iter().filter_map(|choice| at(value, choice, place).err()).collect();
        if errors.len() == choices.len() {
            return Err(errors.join(", or "));
        }
    }
    match value.as_object() {
        Some(fields) if schema.contains_key("properties") => object(fields, schema, place),
        _ => Ok(()),
    }
}

fn object(fields: &Map<String, Value>, schema: &Map<String, Value>, place: &str) -> Result<(), String> {
    if schema.get("additionalProperties") != Some(&Value::Bool(false)) {
        return Err(format!("{place}: the schema allows fields that it does not name"));
    }
    let properties = schema["properties"].as_object().ok_or("properties must be an object")?;
    for (name, value) in fields {
        let property = properties.get(name).ok_or_else(|| format!("{place}: the field '{name}' is not documented"))?;
        at(value, property, &format!("{place}.{name}"))?;
    }
    let required = schema.get("required").map(alternatives).unwrap_or_default();
    match required.into_iter().find(|name| !fields.contains_key(*name)) {
        Some(name) => Err(format!("{place}: the field '{name}' is missing")),
        None => Ok(()),
    }
}

/// Returns a word, or a list of words, as a set.
fn alternatives(words: &Value) -> BTreeSet<&str> {
    match words {
        Value::Array(words) => words.iter().filter_map(Value::as_str).collect(),
        word => word.as_str().into_iter().collect(),
    }
}

fn has_type(value: &Value, name: &str) -> bool {
    match name {
        "null" => value.is_null(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "string" => value.is_string(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    }
}
