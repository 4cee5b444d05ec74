//! Writes the body of a request.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};
use wire::CallOutcome;

use super::field::{pairs, refuse_names};
use super::{BodyForm, BodyTemplate, QueryStyle};
use crate::template::{Template, fill_json, present, to_text};

const JSON: &str = "application/json";

/// Returns content type and bytes, if there is a body; `used` are the arguments that stand
/// elsewhere.
pub(crate) fn write(
    template: &BodyTemplate,
    arguments: &Map<String, Value>,
    used: &BTreeSet<String>,
) -> Option<(String, String)> {
    match template {
        BodyTemplate::Arguments => {
            let rest = arguments.iter().filter(|(name, _)| !used.contains(*name));
            let rest: Map<String, Value> =
                rest.map(|(name, value)| (name.clone(), value.clone())).collect();
            Some((JSON.to_owned(), Value::Object(rest).to_string()))
        }
        BodyTemplate::Json(template) => {
            let value = fill_json(template, arguments).unwrap_or_default();
            Some((JSON.to_owned(), value.to_string()))
        }
        BodyTemplate::Text(text) => {
            let text = Template::parse(text).fill_lenient(arguments);
            Some(("text/plain; charset=utf-8".to_owned(), text))
        }
        BodyTemplate::Argument { name, form, content_type, styles } => {
            let body = match form {
                BodyForm::Json => arguments.get(name)?.to_string(),
                BodyForm::Fields => fields(present(arguments, name)?, styles),
                BodyForm::Text => to_text(present(arguments, name)?),
            };
            Some((content_type.clone(), body))
        }
    }
}

/// Refuses members of an object among the fields of a form that would be taken for another field.
pub(super) fn check(
    template: &BodyTemplate,
    arguments: &Map<String, Value>,
) -> Result<(), CallOutcome> {
    let BodyTemplate::Argument { name, form: BodyForm::Fields, styles, .. } = template else {
        return Ok(());
    };
    let Some(Value::Object(members)) = present(arguments, name) else { return Ok(()) };
    for (own, value) in members.iter().filter(|(_, value)| value.is_object()) {
        if let Some(style) = styles.get(own) {
            let others = members.keys().filter(|name| *name != own).map(String::as_str);
            refuse_names(&pairs(own, value, *style), own, others)?;
        }
    }
    Ok(())
}

/// Writes the members of an object as fields; one that is null is left out.
fn fields(value: &Value, styles: &BTreeMap<String, QueryStyle>) -> String {
    let mut fields = url::form_urlencoded::Serializer::new(String::new());
    let members = value.as_object().into_iter().flatten();
    for (name, value) in members.filter(|(_, value)| !value.is_null()) {
        let style = styles.get(name).copied().unwrap_or_default();
        fields.extend_pairs(pairs(name, value, style));
    }
    fields.finish()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_member_among_the_fields_of_a_form_takes_no_other_field() {
        let styles = |style| BTreeMap::from([("meta".to_owned(), style)]);
        for (style, meta, is_refused) in [
            (QueryStyle::Spread, json!({"role": "admin"}), true),
            (QueryStyle::Spread, json!({"Role": "admin"}), true),
            (QueryStyle::Spread, json!({"other": "x"}), false),
            (QueryStyle::Deep, json!({"role": "admin"}), false),
            (QueryStyle::Spread, json!(["role"]), false),
        ] {
            let template = BodyTemplate::Argument {
                name: "request".to_owned(),
                form: BodyForm::Fields,
                content_type: "application/x-www-form-urlencoded".to_owned(),
                styles: styles(style),
            };
            let arguments = json!({"request": {"role": "user", "meta": meta}});
            let checked = check(&template, arguments.as_object().unwrap());
            assert_eq!(checked.is_err(), is_refused, "{style:?} {meta}");
        }
    }
}
