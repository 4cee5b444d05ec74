use super::reach::Way;
use super::{Allowed, Reach, special};
use reqwest::Url;

fn allowed(texts: &[&str]) -> Allowed {
    let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
    Allowed::parse(&texts).unwrap()
}

#[test]
fn only_public_addresses_pass() {
    let public = [
        "1.1.1.1",
        "9.255.255.255",
        "11.0.0.0",
        "100.63.255.255",
        "100.128.0.0",
        "172.15.255.255",
        "172.32.0.0",
        "192.0.1.0",
        "198.17.255.255",
        "198.20.0.0",
        "223.255.255.255",
        "2606:4700:4700::1111",
        "2a00:1450:4001:82a::200e",
        "::ffff:1.1.1.1",
        "64:ff9b::1.1.1.1",
        "2002:101:101::1",
    ];
    for text in public {
        assert_eq!(special::check(text.parse().unwrap(), &[]), Ok(()), "{text}");
    }
    let special = [
        ("0.0.0.0", "this machine"),
        ("0.255.255.255", "this machine"),
        ("10.0.0.0", "private"),
        ("10.255.255.255", "private"),
        ("100.64.0.0", "provider"),
        ("100.127.255.255", "provider"),
        ("127.0.0.1", "loopback"),
        ("127.255.255.254", "loopback"),
        ("169.254.169.254", "link-local"),
        ("172.16.0.0", "private"),
        ("172.31.255.255", "private"),
        ("192.0.0.170", "protocols"),
        ("192.0.2.1", "documentation"),
        ("192.88.99.1", "6to4"),
        ("192.168.1.1", "private"),
        ("198.18.0.1", "benchmarks"),
        ("198.19.255.255", "benchmarks"),
        ("198.51.100.7", "documentation"),
        ("203.0.113.7", "documentation"),
        ("224.0.0.1", "multicast"),
        ("239.255.255.255", "multicast"),
        ("240.0.0.1", "reserved"),
        ("255.255.255.255", "broadcast"),
        ("::", "this machine"),
        ("::1", "loopback"),
        ("::7f00:1", "not handed out"),
        ("::ffff:127.0.0.1", "that is 127.0.0.1 is not public but loopback"),
        ("::ffff:169.254.169.254", "link-local"),
        ("64:ff9b::7f00:1", "loopback"),
        ("64:ff9b::a9fe:a9fe", "link-local"),
        ("64:ff9b:1::1.1.1.1", "translation"),
        ("100::1", "discarded"),
        ("2001::1", "Teredo"),
        ("2001:2::1", "protocols"),
        ("2001:10::1", "protocols"),
        ("2001:db8::1", "documentation"),
        ("2002:7f00:1::", "loopback"),
        ("2002:a9fe:a9fe::1", "link-local"),
        ("3fff::1", "documentation"),
        ("4000::1", "not handed out"),
        ("5f00::1", "routing"),
        ("fc00::1", "private"),
        ("fd00:ec2::254", "private"),
        ("fe80::1", "link-local"),
        ("fec0::1", "site-local"),
        ("ff02::1", "multicast"),
    ];
    for (text, what) in special {
        let found = special::check(text.parse().unwrap(), &[]).expect_err(text);
        assert!(found.contains(what) && found.contains("is not public"), "{text}: {found}");
    }
    let nets = ["10.0.0.0/8".parse().unwrap(), "fd00::/16".parse().unwrap()];
    for (text, passes) in [
        ("10.1.2.3", true),
        ("::ffff:10.1.2.3", true),
        ("fd00::1", true),
        ("fd01::1", false),
        ("127.0.0.1", false),
        ("1.1.1.1", true),
    ] {
        assert_eq!(special::check(text.parse().unwrap(), &nets).is_ok(), passes, "{text}");
    }
}

#[test]
fn an_address_is_judged_by_what_the_team_file_says() {
    let written = Url::parse("http://127.0.0.1:22/api").unwrap();
    let own = Reach::new(Some(&written), Allowed::default());
    let none = Reach::default();
    let some = Reach::new(
        None,
        allowed(&[
            "Intern.test",
            "db.test:5432",
            "10.0.0.0/8",
            "::1",
            "[fd00::1]:81",
            "127.0.0.2:25",
        ]),
    );
    let any = "any";
    let public = "public";
    for (reach, url, expected) in [
        (&own, "http://127.0.0.1:22/other", any),
        (&own, "http://2130706433:22/", any),
        (&own, "https://127.0.0.1:22/", "port 22"),
        (&own, "http://127.0.0.1:8080/", "loopback"),
        (&own, "http://127.0.0.2:22/", "port 22"),
        (&own, "http://u@127.0.0.1:22/", "credentials"),
        (&none, "http://example.test/", public),
        (&none, "https://example.test:8443/", public),
        (&none, "http://1.1.1.1/", public),
        (&none, "http://[2606:4700::1]/", public),
        (&none, "http://127.0.0.1/", "loopback"),
        (&none, "http://127.1/", "loopback"),
        (&none, "http://0x7f.0.0.1/", "loopback"),
        (&none, "http://0177.0.0.1/", "loopback"),
        (&none, "http://2130706433/", "loopback"),
        (&none, "http://127.0.0.1./", "loopback"),
        (&none, "http://[::1]/", "loopback"),
        (&none, "http://example.test:22/", "port 22"),
        (&none, "http://example.test:6379/", "port 6379"),
        (&none, "http://user:word@example.test/", "credentials"),
        (&none, "http://user@example.test/", "credentials"),
        (&none, "ftp://example.test/", "ftp: addresses"),
        (&none, "file:///etc/passwd", "file: addresses"),
        (&none, "gopher://example.test/", "gopher: addresses"),
        (&none, "data:text/plain,x", "data: addresses"),
        (&some, "http://intern.test/", any),
        (&some, "http://INTERN.TEST.:8080/", any),
        (&some, "http://intern.test:25/", "port 25"),
        (&some, "http://sub.intern.test/", public),
        (&some, "http://db.test:5432/", any),
        (&some, "http://db.test/", public),
        (&some, "http://db.test:5433/", public),
        (&some, "http://10.1.2.3/", public),
        (&some, "http://10.1.2.3:25/", "port 25"),
        (&some, "http://11.1.2.3:25/", "port 25"),
        (&some, "http://172.16.0.1/", "private"),
        (&some, "http://[::1]:8080/", public),
        (&some, "http://[fd00::1]:81/", any),
        (&some, "http://[fd00::1]/", "private"),
        (&some, "http://127.0.0.2:25/", any),
        (&some, "http://127.0.0.2/", "loopback"),
    ] {
        let found = match reach.way(&Url::parse(url).unwrap()) {
            Ok(Way::Any) => any.to_owned(),
            Ok(Way::Public(_)) => public.to_owned(),
            Err(forbidden) => forbidden.to_string(),
        };
        assert!(found.contains(expected), "{url}: {found}");
    }
}

#[test]
fn a_list_of_hosts_is_read_or_refused() {
    for text in ["", "a b", "http://h", "h:99999", "h:", "10.0.0.0/33", "u@h", "h/x", "*.test"] {
        let faults = Allowed::parse(&["good.test".to_owned(), text.to_owned()]);
        let Err(faults) = faults else { panic!("{text:?} is read") };
        let [(1, fault)] = faults.as_slice() else { panic!("{text:?}: {faults:?}") };
        assert!(fault.contains(&format!("{text:?} is no host")), "{fault}");
    }
}
