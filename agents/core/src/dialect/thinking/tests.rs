use super::*;

/// Returns a text with the tags of each kind of thought in the place of the first one's.
fn in_all_tags(text: &str) -> [String; THOUGHTS.len()] {
    let [(first_open, first_close), ..] = THOUGHTS;
    THOUGHTS.map(|(open, close)| text.replace(first_open, open).replace(first_close, close))
}

#[test]
fn only_what_is_said_is_left() {
    let cases = [
        ("", "", false),
        (" plain ", "plain", false),
        ("a < b and <b>bold</b>", "a < b and <b>bold</b>", false),
        ("<think>x</think>\n\nanswer", "answer", false),
        ("<think></think>", "", false),
        ("a <think>x</think>b", "a b", false),
        ("<think>1</think>a<think>2</think>b", "ab", false),
        ("<think>a <think>b</think> c</think> d", "d", false),
        ("reasoning\n</think>answer", "answer", false),
        ("<think>never closed", "", true),
        ("said <think>never closed", "said", true),
        ("<thin", "<thin", false),
        ("ä<think>ö</think>ü", "äü", false),
        ("<think>a {\"name\": \"b\"} [1]</think>c", "c", false),
    ];
    for (text, expected, cut) in cases {
        for text in in_all_tags(text) {
            assert_eq!(removed(&text), Spoken { text: expected.into(), cut }, "{text:?}");
        }
    }
    // The end of a thought is that of its own tags.
    for (text, expected, cut) in [
        ("<think>a [THINK]b</think>c", "c", false),
        ("[THINK]a <think>b</think> c[/THINK]d", "d", false),
        ("<thought>a</thought>b[THINK]c[/THINK]d", "bd", false),
        ("<thought>a</think>b", "", true),
        ("<thoughts>a</thoughts>", "<thoughts>a</thoughts>", false),
    ] {
        assert_eq!(removed(text), Spoken { text: expected.into(), cut }, "{text:?}");
    }
}

#[test]
fn what_is_put_round_an_answer_is_left_out() {
    for (text, expected) in [
        ("<think>a</think><response>b</response>", "b"),
        ("<think>a</think>\n<response>\nb\n</response>\n<|end_of_text|>", "b"),
        ("a</think><response>b", "b"),
        ("<think>a</think>b <response>c</response>", "b <response>c</response>"),
        ("<response>b</response>", "<response>b</response>"),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>b<|END_RESPONSE|>", "b"),
        ("<|START_RESPONSE|>b<|END_RESPONSE|><|END_OF_TURN_TOKEN|>", "b"),
    ] {
        assert_eq!(removed(text), Spoken { text: expected.into(), cut: false }, "{text:?}");
    }
}

const THINKS: &str = "<|channel|>analysis<|message|>";
const TELLS: &str = "<|channel|>commentary<|message|>";
const ANSWERS: &str = "<|channel|>final<|message|>";
const GOES_ON: &str = "<|end|><|start|>assistant";

#[test]
fn of_channels_the_answer_is_left_or_what_was_told() {
    let call = "<|channel|>commentary to=functions.f <|constrain|>json<|message|>{\"a\": \"";
    let thought = "I could look:\n```json\n{\"name\": \"f\", \"arguments\": {\n`<|end|>`";
    let object = "{\"a\": \"<|end|><|start|>assistant<|channel|>final<|message|>b\"}";
    for (text, expected, cut) in [
        (format!("{THINKS}{thought}{GOES_ON}{ANSWERS}Hello!<|return|>"), "Hello!", false),
        (format!("<|start|>assistant{THINKS}a{GOES_ON}{ANSWERS}b"), "b", false),
        (format!("{THINKS}a<|end|>{ANSWERS}b<|end|>"), "b", false),
        (format!("{THINKS}a<|end|> so <|start|>assistant{ANSWERS}b"), "b", false),
        (format!("{THINKS}a{ANSWERS}b"), "b", false),
        (format!("{THINKS}1{GOES_ON}{THINKS}2{GOES_ON}{ANSWERS}b"), "b", false),
        (
            format!("{THINKS}a{GOES_ON}<|channel|>final <|constrain|>json<|message|>{{}}"),
            "{}",
            false,
        ),
        (format!("{THINKS}a{GOES_ON}<|channel|>final JSON<|message|>{{}}"), "{}", false),
        (format!("a thought{GOES_ON}{ANSWERS}b"), "b", false),
        (format!("{ANSWERS}a{GOES_ON}{ANSWERS}b"), "b", false),
        (format!("{ANSWERS}b{GOES_ON}{THINKS}c"), "b", false),
        (format!("{ANSWERS}b<|end|><|start|>user<|message|>c{GOES_ON}{ANSWERS}d"), "b", false),
        (format!("{TELLS}a{GOES_ON}{ANSWERS}b"), "b", false),
        (format!("{TELLS}a{GOES_ON}{TELLS}b<|end|>"), "a\nb", false),
        (format!("{ANSWERS}<think>a</think>b"), "b", false),
        ("<|start|>assistant<|message|>a<|end|>".to_owned(), "a", false),
        (format!("{THINKS}a"), "", true),
        (format!("{THINKS}a<|end|>"), "", true),
        (format!("{TELLS}a{GOES_ON}{THINKS}b"), "a", true),
        ("<|channel|>analysis".to_owned(), "", true),
        (format!("{THINKS}a{GOES_ON}{ANSWERS}"), "", false),
        (format!("<|channel|>commentary?{GOES_ON}{THINKS}a{GOES_ON}{ANSWERS}b"), "b", false),
        // What is spoken of in an answer, or is data, belongs to it.
        (
            format!("{ANSWERS}Write `{GOES_ON}{ANSWERS}`."),
            &format!("Write `{GOES_ON}{ANSWERS}`."),
            false,
        ),
        (format!("{THINKS}a{GOES_ON}{ANSWERS}{object}"), object, false),
        (format!("{ANSWERS}Write <|end|> last."), "Write <|end|> last.", false),
        // A call ends it.
        (format!("{THINKS}a{GOES_ON}{call}b\"}}<|call|>"), &format!("{call}b\"}}"), false),
        (format!("{THINKS}a{GOES_ON}{call}{THINKS}\"}}"), &format!("{call}{THINKS}\"}}"), false),
        (format!("{TELLS}a{GOES_ON}{call}b"), &format!("a{call}b"), false),
        (format!("{THINKS}Use `{call}`.{GOES_ON}{ANSWERS}b"), "b", false),
    ] {
        assert_eq!(removed(&text), Spoken { text: expected.into(), cut }, "{text}");
    }
}

#[test]
fn a_channel_that_is_spoken_of_stays() {
    for text in [
        format!("They write `{THINKS}` before it."),
        format!("They write `{ANSWERS}` before it."),
        format!("They write `{THINKS}a{GOES_ON}{ANSWERS}b`."),
        format!("So:\n```\n{THINKS}a{GOES_ON}{ANSWERS}b\n```\nThat is all."),
        format!("{{\"tool\": \"note\", \"arguments\": {{\"text\": \"{ANSWERS}a\"}}}}"),
        format!("{{\"text\": t, \"more\": \"{ANSWERS}a\"}}"),
        format!("<function=write><parameter=content>{ANSWERS}a</parameter></function>"),
        "The token <|channel|> names a channel, such as final.".to_owned(),
        "The token <|channel|>final comes before an answer.".to_owned(),
        "<|channel|>finally<|message|>".to_owned(),
        "<|start|> is how they begin, <|start|>assistant with a role.".to_owned(),
    ] {
        assert_eq!(removed(&text), Spoken { text: text.as_str().into(), cut: false }, "{text}");
    }
}

#[test]
fn a_tag_that_is_spoken_of_stays() {
    for text in [
        "They write `<think>` before it.",
        "They write `</think>` after it.",
        "They write `<think>` before and `</think>` after it.",
        "They write `<think>hm</think>` before it.",
        "They write ``<think>`` before it, a ` aside.",
        "So:\n```xml\n<think>\nhm\n</think>\n```\nThat is all.",
        "`</think>`\n`x`",
    ] {
        for thought in ["", "<think>They use `<think>` and `</think>`.</think>"] {
            for (text, thought) in in_all_tags(text).into_iter().zip(in_all_tags(thought)) {
                let spoken = Spoken { text: text.as_str().into(), cut: false };
                assert_eq!(removed(&format!("{thought}{text}")), spoken, "{thought}{text}");
            }
        }
    }
    for (text, expected) in [
        ("<think>x</think>`a` is it", "`a` is it"),
        ("reasoning</think>`a` is it", "`a` is it"),
        ("it`s so</think>use `x`", "use `x`"),
        ("<think>it`s</think>use `x`", "use `x`"),
        ("<think>`</think>` is it", "` is it"),
        ("it`s so</think>`x` is it", "`x` is it"),
        ("x\n```py\ny\n</think>\n```json\n{}\n```", "```json\n{}\n```"),
        ("<think>\n```py\nx\n</think>\n```json\n{}\n```", "```json\n{}\n```"),
        ("<think>\n```\nx\n</think>a", "a"),
    ] {
        assert_eq!(removed(text), Spoken { text: expected.into(), cut: false }, "{text:?}");
    }
}

#[test]
fn a_tag_in_data_stays() {
    let object = r#"{"tool":"write","arguments":{"content":"{{q}}<think></think>"}}"#;
    let closes = r#"{"thought":"a </think> b","action":{"function":"now","arguments":{}}}"#;
    let parameter = "<function=write><parameter=content>\n<think>x</think>\n</parameter>";
    let key = "<tool_call>write\n<arg_key>c</arg_key>\n<arg_value></think></arg_value>";
    let broken = r#"{"thought": t, "content": "a</think>{\"tool\": 1}"}"#;
    let cut = r#"{"content": "<think>hm"#;
    let dsml = "<｜DSML｜parameter name=\"c\" string=\"true\"><think></｜DSML｜parameter>";
    let tokens = "<|tool_call>call:write{c:<|\"|><think>}x</think><|\"|>}<tool_call|>";
    for data in [object, closes, parameter, key, broken, cut, dsml, tokens] {
        for before in ["", "<think>hm {\"a\": \"b\"}</think>", "reasoning\n</think>\n"] {
            for (data, before) in in_all_tags(data).into_iter().zip(in_all_tags(before)) {
                let spoken = Spoken { text: data.as_str().into(), cut: false };
                assert_eq!(removed(&format!("{before}{data}")), spoken, "{before}{data}");
            }
        }
    }
    let fenced = format!("```json\n{closes}\n```");
    let marked = format!("So <tool_call>{object}</tool_call>");
    for text in [fenced, marked, format!("Action:\n{closes}"), format!("{object}\n{closes}")] {
        assert_eq!(removed(&text), Spoken { text: (&text).into(), cut: false }, "{text}");
    }
    for (text, expected, cut) in [
        (format!("{object}<think>so"), object, true),
        (format!("{object}</think>a"), "a", false),
        (format!("{object}<think>so</think>"), object, false),
        ("a {b} <think>c</think>d".to_owned(), "a {b} d", false),
        ("maybe {\"a\": b}</think>{\"a\": 1}".to_owned(), "{\"a\": 1}", false),
        (
            "maybe <parameter=a></think><parameter=a>b</parameter>".to_owned(),
            "<parameter=a>b</parameter>",
            false,
        ),
    ] {
        assert_eq!(removed(&text), Spoken { text: expected.into(), cut }, "{text}");
    }
}

#[test]
fn tokens_that_end_a_reply_are_left_out() {
    for (text, expected) in [
        ("a<|im_end|>", "a"),
        ("a <|eot_id|>\n<|endoftext|> ", "a"),
        ("a<end_of_turn>\n", "a"),
        ("a<turn|>\n", "a"),
        ("<think>x</think>a<｜end▁of▁sentence｜>", "a"),
        ("a<think>x</think> </s>", "a"),
        ("<think>x</think></s>", ""),
        ("</s>", ""),
        ("a</s>", "a"),
        ("now <s>5</s>", "now <s>5</s>"),
        ("it ends with `<|im_end|>`", "it ends with `<|im_end|>`"),
        ("<|im_end|> a", "<|im_end|> a"),
    ] {
        assert_eq!(removed(text), Spoken { text: expected.into(), cut: false }, "{text:?}");
    }
}

#[test]
fn what_follows_the_thinking_is_not_copied() {
    for text in [
        "<think>x</think>\n\nanswer ",
        " <think>1</think> <think>2</think>a < b",
        "x</think>a",
        "a<|im_end|>",
        "<think>x</think>{\"a\": \"<think>\"}</s>",
        "`<think>` is it",
        "<|channel|>analysis<|message|>x<|end|><|start|>assistant<|channel|>final<|message|>a",
    ] {
        assert!(matches!(removed(text).text, Cow::Borrowed(_)), "{text:?}");
    }
}

#[test]
fn many_tags_take_linear_time() {
    let quoted = format!("```\n<{}", "</think>".repeat(200_000));
    assert_eq!(removed(&quoted).text, "");
    let text = "</think><".repeat(200_000);
    assert_eq!(removed(&text).text, "<");
    assert_eq!(removed(&"<think>`</think>`".repeat(100_000)).text, "`".repeat(100_000));
    assert_eq!(removed(&"` `` </think>".repeat(100_000)).text, "");
    for text in ["<think></think>", "<s></s>", "<think></think>{//", "</think>x{\"a\":\""] {
        let text = text.repeat(20_000) + "\n<think>";
        assert!(removed(&text).cut);
    }
    for text in
        [THINKS, TELLS, ANSWERS, GOES_ON, "<|channel|>final", "<|start|>", "{\"a\":\"<|start|>"]
    {
        removed(&format!("{THINKS}{}", text.repeat(10_000)));
        removed(&format!("{}{ANSWERS}", text.repeat(10_000)));
    }
}
