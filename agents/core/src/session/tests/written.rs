//! What is read again from the journal is what was decided about.

use std::collections::HashMap;

use serde_json::{Value, json};
use wire::entry::{Body, Entry};
use wire::plan::Permission;
use wire::{CallOutcome, Digest, Input, ModelRole, Reading, Timestamp, call_digest};

use super::team::{
    actor, answer, call, name, offering, read_call, replied, session, settle, submit,
};
use crate::session::SessionMachine;

#[test]
fn numbers_come_back_to_their_last_bit() {
    let plan = offering(actor(), "pay", |offer| offer.permission = Permission::Ask);
    let plans = HashMap::from([(Digest::of(b"plan"), plan.into())]);
    for text in [
        "1",
        "0.1",
        "1e-30",
        "0.238587984627657623",
        "0.09090909090909091",
        "5e-324",
        "2.2250738585072011e-308",
        "1.7976931348623157e308",
        "123456789012345678901234567890",
        "-7.0064923216240854e-46",
    ] {
        let number: Value = serde_json::from_str(text).unwrap();
        let arguments = json!({"x": number});
        let digest = call_digest(&name("pay"), &arguments);
        let calls = vec![read_call("pay", arguments)];
        let inputs = [
            submit("r"),
            replied("r", 0, ModelRole::Actor, 10, Reading::Calls { text: String::new(), calls }),
            Input::CallApproved { call: call(1, 0), digest },
            settle(1, 0, CallOutcome::Ok { output: number }, 0),
            answer("r", 1, "done"),
        ];
        let mut live = SessionMachine::new(name("team"), session());
        let mut entries = Vec::new();
        for input in inputs {
            let entry = Entry::new(Timestamp::from_micros(0), Body::Session(input));
            let Body::Session(input) = &entry.body else { unreachable!() };
            live.apply(entry.at, input, &plans).unwrap();
            let written = serde_json::to_vec(&entry).unwrap();
            entries.push(serde_json::from_slice::<Entry>(&written).unwrap());
        }
        let folded = SessionMachine::fold(name("team"), session(), &entries, &plans, |_, _, _| {});
        assert_eq!(folded.as_ref(), Ok(&live), "{text}");
    }
}
