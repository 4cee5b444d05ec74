use serde_json::{Value, json};

use super::{Base, Interface, Made};
use crate::http::{BodyTemplate, OutputSchema, QueryStyle};

fn interface(paths: &Value) -> Interface {
    let document = json!({
        "openapi": "3.1.0",
        "servers": [{"url": "https://{a}.test/v1/", "variables": {"a": {"default": "h"}}}],
        "paths": paths,
        "components": {"schemas": {
            "Tree": {"type": "object", "properties": {
                "left": {"$ref": "#/components/schemas/Tree"},
                "right": {"$ref": "#/components/schemas/Tree"},
            }},
            "One": {"$ref": "#/components/schemas/Two"},
            "Two": {"$ref": "#/components/schemas/One"},
        }, "parameters": {"Loop": {"$ref": "#/components/parameters/Loop"}}},
    });
    Interface::parse(&document.to_string()).unwrap()
}

fn base() -> Base {
    Base { response_bytes_max: 100, ..Base::default() }
}

/// Makes the one operation of a path.
fn make(path: &str, operation: &Value, base: &Base) -> Result<Made, String> {
    let interface = interface(&json!({path: {"get": operation}}));
    let [only] = &*interface.operations() else { panic!("one operation") };
    only.make(&interface, base)
}

#[test]
fn a_file_is_read_or_refused() {
    for (text, fault) in [
        ("", "does not say `openapi"),
        ("openapi: 4.0.0", "OpenAPI 4.0.0 is not read"),
        ("swagger: '2.0'", "Swagger 2"),
        ("a: [", "no YAML"),
        ("{\"openapi\": ", "no JSON: EOF while parsing a value at line 1"),
        ("- openapi", "does not say"),
    ] {
        let error = Interface::parse(text).map(|_| ()).expect_err(text);
        assert!(error.contains(fault), "{text:?}: {error}");
    }
    let yaml = "openapi: 3.0.1\npaths:\n  /a:\n    get:\n      responses:\n        200:\n          description: 1\n    x-more: 1\n    trace: {}\n  /b/{c}:\n    post: {operationId: ' named '}\n";
    let interface = Interface::parse(yaml).unwrap();
    let ids: Vec<(String, String)> = interface
        .operations()
        .into_iter()
        .map(|operation| (operation.id.clone(), operation.place()))
        .collect();
    let expected = [("get_a", "GET /a"), ("named", "POST /b/{c}")];
    assert_eq!(ids, expected.map(|(id, place)| (id.to_owned(), place.to_owned())));
}

#[test]
fn what_cannot_be_a_tool_says_why() {
    let path = |parameters: Value| json!({"parameters": parameters});
    let body = |content: Value| json!({"requestBody": {"content": content}});
    for (route, operation, fault) in [
        ("/{id}", json!({}), "{id} of its path is no parameter"),
        ("/{id", json!({}), "an open brace"),
        ("/a b", json!({}), "contains ' '"),
        ("/a", path(json!([{"in": "query"}])), "a parameter has no name"),
        ("/a", path(json!([{"name": "x", "in": "sky"}])), "which is not known"),
        ("/a", path(json!([{"$ref": "other.yaml#/x"}])), "another file"),
        ("/a", path(json!([{"$ref": "#/nowhere"}])), "which is not there"),
        ("/a", path(json!([{"$ref": "#/components/parameters/Loop"}])), "in a circle"),
        (
            "/a",
            path(json!([{"name": "x", "in": "query", "schema": {"type": "text"}}])),
            "/properties/x/type",
        ),
        (
            "/a",
            path(
                json!([{"name": "x", "in": "cookie", "required": true, "schema": {"type": "array"}}]),
            ),
            "cookie \"x\" holds a list or an object",
        ),
        (
            "/{x}",
            path(json!([{"name": "x", "in": "path", "required": true, "style": "matrix"}])),
            "parameter \"x\" has the style `matrix`",
        ),
        (
            "/{x}",
            path(json!([{"name": "x", "in": "path", "required": true, "explode": true,
                "schema": {"type": "object"}}])),
            "parameter \"x\" is an object with `explode: true` in the path",
        ),
        (
            "/a",
            body(json!({"multipart/form-data": {}, "image/png": {}})),
            "is multipart/form-data or",
        ),
        ("/a", body(json!({"application/json": {}})), "a GET request has no body"),
        ("/a", json!({"servers": [{"url": "/v2"}]}), "is not whole; add `base_url`"),
        ("/a", json!({"servers": [{"url": "http://{b}/"}]}), "is not whole; add `base_url`"),
    ] {
        let error = make(route, &operation, &base()).map(|_| ()).expect_err(route);
        assert!(error.contains(fault), "{route}: {error}");
    }
}

#[test]
fn a_schema_that_refers_to_itself_is_cut() {
    let of = |name: &str| {
        let schema = json!({"$ref": format!("#/components/schemas/{name}")});
        let parameter = json!({"name": "t", "in": "query", "schema": schema});
        let made = make("/a", &json!({"parameters": [parameter]}), &base()).unwrap();
        made.parameters["properties"]["t"].clone()
    };
    let another = json!({"description": "another Tree"});
    assert_eq!(
        of("Tree"),
        json!({"type": "object", "properties": {"left": another, "right": another}})
    );
    assert_eq!(of("One"), json!({"description": "another One"}));

    // Schemas that double with every step stay within bounds.
    let mut schemas = json!({"S0": {"type": "string"}});
    for step in 1..20 {
        let before = json!({"$ref": format!("#/components/schemas/S{}", step - 1)});
        schemas[format!("S{step}")] =
            json!({"type": "object", "properties": {"a": before, "b": before}});
    }
    let document = json!({
        "openapi": "3.1.0",
        "servers": [{"url": "http://h"}],
        "paths": {"/a": {"get": {"parameters": [
            {"name": "t", "in": "query", "schema": {"$ref": "#/components/schemas/S19"}}
        ]}}},
        "components": {"schemas": schemas},
    });
    let interface = Interface::parse(&document.to_string()).unwrap();
    let error = interface.operations()[0].make(&interface, &base()).map(|_| ()).unwrap_err();
    assert!(error.contains("more than 4096 parts"), "{error}");
}

#[test]
fn references_are_followed_whatever_stands_for_their_letters() {
    let paths = json!({
        "/users/{id}": {"get": {"parameters": [
            {"name": "id", "in": "path", "required": true, "schema": {"type": "string"}},
        ]}},
        "/b/{id}": {"get": {"parameters": [{"$ref": "#/paths/~1users~1%7Bid%7D/get/parameters/0"}]}},
    });
    let interface = interface(&paths);
    for operation in interface.operations() {
        let made = operation.make(&interface, &base()).unwrap();
        assert_eq!(made.parameters["required"], json!(["id"]), "{}", made.spec.url);
    }
}

#[test]
fn the_operator_decides_where_requests_go() {
    let made = make("/a", &json!({}), &base()).unwrap();
    assert_eq!((made.spec.url.as_str(), made.spec.foreign), ("https://h.test/v1/a", true));
    assert_eq!(made.description, "GET /a");
    let own = Base { url: Some("http://127.0.0.1:1/x/".to_owned()), ..base() };
    let made = make("/a", &json!({"servers": [{"url": "https://evil.test"}]}), &own).unwrap();
    assert_eq!((made.spec.url.as_str(), made.spec.foreign), ("http://127.0.0.1:1/x/a", false));
    for (server, path, fault) in [
        ("https://api.test", ".evil.test/orders", "does not begin with \"/\""),
        ("https://api.test", "@evil.test/orders", "does not begin with \"/\""),
        ("http://127.0.0.1", ":9200/_search", "does not begin with \"/\""),
        ("https://", "//evil.test/orders", "leads away from \"https:\""),
    ] {
        let own = Base { url: Some(server.to_owned()), ..base() };
        let error = make(path, &json!({}), &own).map(|_| ()).expect_err(path);
        assert!(error.contains(fault), "{server}, {path}: {error}");
    }
}

#[test]
fn arguments_of_one_name_are_told_apart() {
    let parameters = json!([
        {"name": "id", "in": "query"},
        {"name": "id", "in": "header"},
        {"name": "a[b]", "in": "query"},
        {"name": "a.b.", "in": "query"},
        {"name": "body", "in": "query"},
        {"name": "id", "in": "path", "required": true},
        {"name": "Accept", "in": "header"},
        {"name": "list", "in": "cookie", "schema": {"type": ["array", "null"]}},
        {"name": "object", "in": "cookie", "content": {"application/json": {}}},
        {"name": "theme", "in": "cookie", "schema": {"type": "string"}},
        {"name": "Idempotency-Key", "in": "header", "required": true},
        {"name": "spread", "in": "header", "explode": true, "schema": {"type": "object"}},
    ]);
    let made = make("/{id}", &json!({"parameters": parameters}), &base()).unwrap();
    let properties = made.parameters["properties"].as_object().unwrap();
    let names: Vec<&str> = properties.keys().map(String::as_str).collect();
    assert_eq!(names, ["id", "header_id", "a_b_", "query_a_b_", "body", "path_id", "theme"]);
    assert_eq!(made.parameters["required"], json!(["path_id"]));
    assert_eq!(made.spec.url, "https://h.test/v1/{path_id}");
}

#[test]
fn fields_of_a_form_are_written_as_the_file_says() {
    use QueryStyle::{Deep, Joined, Json, Spread};
    for (encoding, expected) in [
        (json!({}), None),
        (json!({"headers": {}}), None),
        (json!({"contentType": "text/plain"}), None),
        (json!({"contentType": "application/json"}), Some(Json)),
        (json!({"contentType": "application/json", "style": "form"}), Some(Spread)),
        (json!({"style": "deepObject", "explode": true}), Some(Deep)),
        (json!({"explode": true}), Some(Spread)),
        (json!({"explode": false}), Some(Joined(','))),
        (json!({"style": "pipeDelimited"}), Some(Joined('|'))),
        (json!({"style": "spaceDelimited", "explode": true}), Some(Spread)),
    ] {
        let form = json!({"schema": {"type": "object"}, "encoding": {"a": encoding}});
        let content = json!({"content": {"application/x-www-form-urlencoded": form}});
        let interface = interface(&json!({"/a": {"post": {"requestBody": content}}}));
        let made = interface.operations()[0].make(&interface, &base()).unwrap();
        let Some(BodyTemplate::Argument { styles, .. }) = made.spec.body else { panic!("a form") };
        assert_eq!(styles.get("a").copied(), expected, "{encoding}");
    }
}

#[test]
fn the_schema_of_the_answer_is_known() {
    let content = json!({"application/json": {"schema": {"type": "object", "properties": {
        "a": {"type": "string", "writeOnly": true}, "b": {"type": "string", "readOnly": true}}}}});
    let responses =
        json!({"404": {"content": {}}, "201": {"content": content}, "204": {}, "2XX": {}});
    let made = make("/a", &json!({"responses": responses}), &base()).unwrap();
    let expected = json!({"type": "object", "properties": {"b": {"type": "string"}}});
    let expected = [("201", expected), ("204", json!(true)), ("2XX", json!(true))];
    let expected = expected.map(|(status, schema)| (status.to_owned(), schema));
    assert_eq!(made.spec.output, Some(OutputSchema::Promised(expected.into())));
    for responses in [
        json!({}),
        json!({"200": {"content": {"text/plain": {"schema": {}}}}}),
        json!({"200": {"content": {"application/json": {"schema": {"$ref": "#/no"}}}}}),
        json!({"200": {"content": {"application/json": {"schema": {"type": 5}}}}}),
    ] {
        let made = make("/a", &json!({"responses": responses}), &base()).unwrap();
        assert_eq!(made.spec.output, None, "{responses}");
    }
}
