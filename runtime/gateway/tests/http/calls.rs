//! Open calls over HTTP.

use serde_json::{Value, json};

use crate::house::House;

#[tokio::test(flavor = "multi_thread")]
async fn leave_is_seen_denied_and_given() {
    let house = House::open().await;
    let calls = "/v1/teams/crew/calls";
    for (run, verb, body, status) in [
        ("r-1", "approve", Value::Null, "ok"),
        ("r-2", "deny", json!({"reason": "not now"}), "error"),
    ] {
        house.submit(run, "spend it").await;
        house.wait_for(run, "call_suspended").await;
        let (_, list) = house.get(&format!("{calls}?kind=approval")).await;
        let open = &list["calls"][0];
        assert_eq!((&open["tool"], &open["run"]), (&json!("spend"), &json!(run)), "{list}");
        let (_, none) = house.get(&format!("{calls}?kind=question")).await;
        assert_eq!(none["calls"], json!([]));
        let path = format!("{calls}/{}", open["call"].as_str().unwrap());
        let (found, shown) = house.get(&path).await;
        assert_eq!((found.as_u16(), &shown), (200, open));
        let (_, view) = house.get(&format!("/v1/teams/crew/runs/{run}")).await;
        assert_eq!((&view["kind"], &view["waiting"][0]), (&json!("approval"), open), "{view}");

        let other = json!({"digest": "ab".repeat(32)});
        for (verb, body, code) in [
            ("approve", &other, 409),
            ("approve", &json!({"digst": 1}), 400),
            ("resolve", &json!({"done": false}), 409),
            ("resolve", &json!({}), 400),
            ("deny", &json!({"reason": "x".repeat(5000)}), 413),
            ("explode", &Value::Null, 404),
        ] {
            let (found, error) = house.post(&format!("{path}/{verb}"), body).await;
            assert_eq!(found.as_u16(), code, "{verb} {error}");
        }
        let request = house.request(reqwest::Method::POST, &format!("{path}/{verb}"));
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let (found, view) = crate::house::read(request.body(body)).await;
        assert_eq!((found.as_u16(), &view["run"]), (200, &json!(run)), "{view}");
        let (_, reply) = house.result(run).await;
        assert_eq!(reply["sources"][0]["status"], status, "{reply}");
        for path in [path.clone(), format!("{calls}/nothing")] {
            let (found, error) = house.get(&path).await;
            assert_eq!((found.as_u16(), &error["error"]["code"]), (404, &json!("E1012")));
        }
    }
    let (found, _) = house.get(&format!("{calls}/a.b")).await;
    assert_eq!(found.as_u16(), 400);
    let (found, _) = house.get(&format!("{calls}?kind=other")).await;
    assert_eq!(found.as_u16(), 400);
}
